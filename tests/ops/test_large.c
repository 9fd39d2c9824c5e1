/* More elements than 2^31 and 2^32: offsets must be counted in 64 bits everywhere. And the longest and narrowest shapes.
 * The CPU needs about 5 GB, a graphics processor 18; where that is not there, smaller shapes take the same way. */
#include <math.h>
#include <unistd.h>

#include "support/canonical.h"
#include "support/half.h"
#include "support/random.h"
#include "support/test.h"

/* Inputs repeat with these periods, two primes, so that all results can be compared and no two rows or columns that an
 * offset could be mistaken for are alike. */
enum { LHS_PERIOD = 61, RHS_PERIOD = 127, ROWS_AT_ONCE = 256 };

/* Whether so much may be asked for. A processor's memory may be promised and not be there. */
static bool has_memory(double gigabytes) {
    if (test_is_slow_here())
        return false;
    return !test_on_cpu() || (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) > gigabytes * 1e9;
}

/* A buffer, or NULL where the device has not the memory. */
static mlxn_buffer *try_buffer(mlxn_device *device, mlxn_dtype dtype, size_t rank, const int64_t *shape) {
    mlxn_buffer *buffer = NULL;
    const mlxn_status status = mlxn_buffer_create(device, dtype, rank, shape, &buffer);
    if (status != MLXN_OK) {
        print_message("%s\n", mlxn_last_error());
        assert_int_equal(status, MLXN_OUT_OF_MEMORY);
    }
    return buffer;
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    assert_non_null(memory);
    return memory;
}

/* ---- exp ------------------------------------------------------------------------------------------- */

static double exp_lhs(int64_t i) {
    return (double)(i % LHS_PERIOD - 30) / 16;
}

static double exp_rhs(int64_t j) {
    return (double)(j % RHS_PERIOD - 63) / 16;
}

/* Rows of exp(f16(lhs[i] * rhs[j])), as many as there are different ones. */
static uint16_t *exp_rows(int64_t columns) {
    uint16_t *rows = allocate((size_t)(LHS_PERIOD * columns) * sizeof *rows);
    for (int64_t i = 0; i < LHS_PERIOD; i++)
        for (int64_t j = 0; j < columns; j++) {
            uint16_t *row = rows + i * columns;
            const float x = half_widen(MLXN_F16, half_narrow(MLXN_F16, exp_lhs(i) * exp_rhs(j)));
            row[j] = j < RHS_PERIOD ? (uint16_t)half_narrow(MLXN_F16, exp((double)x)) : row[j - RHS_PERIOD];
        }
    return rows;
}

/* [rows, columns] and `tail` elements more, in place. The outer product writes the inputs, which saves the way there. */
static bool exp_of_many(mlxn_device *device, int64_t rows, int64_t columns, int64_t tail) {
    const int64_t total = rows * columns + tail;
    mlxn_buffer *x = try_buffer(device, MLXN_F16, 1, &total), *matrix, *rest;
    if (x == NULL)
        return false;
    OK(mlxn_buffer_view(x, 0, 2, (const int64_t[]){rows, columns}, &matrix));
    OK(mlxn_buffer_view(x, rows * columns, 1, &tail, &rest));
    mlxn_buffer *lhs = test_vector(device, MLXN_F16, rows), *rhs = test_vector(device, MLXN_F16, columns);
    uint16_t *values = allocate((size_t)(rows + columns + tail) * sizeof *values);
    for (int64_t i = 0; i < rows; i++)
        values[i] = (uint16_t)half_narrow(MLXN_F16, exp_lhs(i));
    test_write(lhs, values);
    for (int64_t j = 0; j < columns; j++)
        values[j] = (uint16_t)half_narrow(MLXN_F16, exp_rhs(j));
    test_write(rhs, values);
    for (int64_t k = 0; k < tail; k++)
        values[k] = (uint16_t)(0x3c00 + k % 1024);
    test_write(rest, values);
    free(values);

    mlxn_encoder *encoder = test_encoder(device);
    mlxn_outer_product(encoder, lhs, rhs, matrix);
    mlxn_exp(encoder, x, x);
    OK(mlxn_encoder_commit_and_wait(encoder));
    mlxn_encoder_destroy(encoder);

    uint16_t *expected = exp_rows(columns), *got = allocate((size_t)(ROWS_AT_ONCE * columns) * 2);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at_once = rows - i < ROWS_AT_ONCE ? rows - i : ROWS_AT_ONCE;
        const size_t row_bytes = (size_t)columns * 2;
        if (i % ROWS_AT_ONCE == 0)
            OK(mlxn_buffer_read(x, (size_t)i * row_bytes, (size_t)at_once * row_bytes, got));
        if (memcmp(expected + i % LHS_PERIOD * columns, got + i % ROWS_AT_ONCE * columns, row_bytes) != 0)
            fail_msg("exp of %lld elements: row %lld of %lld columns is wrong", (long long)total, (long long)i,
                     (long long)columns);
    }
    uint16_t *end = test_contents(rest);
    for (int64_t k = 0; k < tail; k++) {
        const float value = half_widen(MLXN_F16, (uint32_t)(0x3c00 + k % 1024));
        if (end[k] != half_narrow(MLXN_F16, exp((double)value)))
            fail_msg("exp of %lld elements: [%lld] is wrong", (long long)total, (long long)(total - tail + k));
    }
    free(end);
    free(got);
    free(expected);
    mlxn_buffer *const all[] = {x, matrix, rest, lhs, rhs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mlxn_buffer_destroy(all[i]);
    return true;
}

static void exp_beyond_32_bits(void **state) {
    (void)state;
    mlxn_device *device = test_device(0);
    const bool large = has_memory(5) && (test_on_cpu() ? exp_of_many(device, 1 << 15, 1 << 16, 4099)
                                                       : exp_of_many(device, 1 << 16, 1 << 16, 1));
    if (!large) {
        print_message("not enough memory or time: exp of few elements\n");
        assert_true(exp_of_many(device, 300, 777, 1));
    }
    mlxn_device_destroy(device);
}

/* ---- the outer product ------------------------------------------------------------------------------ */

static uint32_t outer_lhs(mlxn_dtype dtype, int64_t i) {
    return half_narrow(dtype, 1 + 0.0137 * (double)(i % LHS_PERIOD));
}

static uint32_t outer_rhs(mlxn_dtype dtype, int64_t j) {
    return half_narrow(dtype, 1 + 0.00771 * (double)(j % RHS_PERIOD));
}

static uint32_t product(mlxn_dtype dtype, int64_t i, int64_t j) {
    const float value = half_widen(dtype, outer_lhs(dtype, i)) * half_widen(dtype, outer_rhs(dtype, j));
    return half_narrow(dtype, (double)value);
}

/* Elements that are changed between the product and its gradients, around the powers of two and at the ends. */
enum { MOST_CHANGES = 8 };
typedef struct changes {
    size_t count;
    int64_t at[MOST_CHANGES];
} changes;

static changes choose_changes(int64_t n) {
    const int64_t candidates[MOST_CHANGES] = {
        n - 1, INT64_C(1) << 31, (INT64_C(1) << 31) + n, (INT64_C(1) << 32) - 1, INT64_C(1) << 32, n * n - n, n * n - 1,
        n / 2};
    changes c = {0};
    for (size_t i = 0; i < MOST_CHANGES; i++)
        if (candidates[i] < n * n)
            c.at[c.count++] = candidates[i];
    return c;
}

static double changed_to(size_t k) {
    return 3.0 + (double)k;
}

/* The f32 value of dy[i,j]. */
static float dy_at(mlxn_dtype dtype, int64_t n, const changes *c, int64_t i, int64_t j) {
    for (size_t k = 0; k < c->count; k++)
        if (c->at[k] == i * n + j)
            return (float)changed_to(k);
    return half_widen(dtype, product(dtype, i, j));
}

/* Sums of all rows, or of all columns, by the canonical order; equal ones are computed once. */
static float *sums_of(mlxn_dtype dtype, int64_t n, const changes *c, const float *by, bool rows) {
    const int64_t period = rows ? LHS_PERIOD : RHS_PERIOD;
    float *sums = allocate((size_t)n * sizeof *sums), *line = allocate((size_t)n * sizeof *line);
    bool *known = calloc((size_t)n, 1);
    assert_non_null(known);
    for (int64_t i = 0; i < n; i++) {
        bool changed = false;
        for (size_t k = 0; k < c->count; k++)
            changed = changed || (rows ? c->at[k] / n : c->at[k] % n) == i;
        int64_t same = i % period;
        while (same < i && !known[same])
            same += period;
        if (!changed && same < i) {
            sums[i] = sums[same];
            continue;
        }
        for (int64_t j = 0; j < n; j++)
            line[j] = rows ? dy_at(dtype, n, c, i, j) : dy_at(dtype, n, c, j, i);
        sums[i] = rows ? canonical_row(line, by, n) : canonical_column(line, 1, by, n);
        known[i] = !changed;
    }
    free(known);
    free(line);
    return sums;
}

static void check_product(mlxn_dtype dtype, int64_t n, const mlxn_buffer *y) {
    const size_t size = mlxn_dtype_size(dtype), row_bytes = (size_t)n * size;
    char *expected = allocate(LHS_PERIOD * row_bytes), *got = allocate(ROWS_AT_ONCE * row_bytes);
    for (int64_t i = 0; i < LHS_PERIOD; i++)
        for (int64_t j = 0; j < n; j++)
            half_set(dtype, expected + (size_t)i * row_bytes, (size_t)j, product(dtype, i, j % RHS_PERIOD));
    for (int64_t i = 0; i < n; i++) {
        const int64_t at_once = n - i < ROWS_AT_ONCE ? n - i : ROWS_AT_ONCE;
        if (i % ROWS_AT_ONCE == 0)
            OK(mlxn_buffer_read(y, (size_t)i * row_bytes, (size_t)at_once * row_bytes, got));
        if (memcmp(expected + (size_t)(i % LHS_PERIOD) * row_bytes, got + (size_t)(i % ROWS_AT_ONCE) * row_bytes,
                   row_bytes) != 0)
            fail_msg("outer product of %lld x %lld: row %lld is wrong", (long long)n, (long long)n, (long long)i);
    }
    free(expected);
    free(got);
}

/* After one pass that overwrites and the single op that accumulates. */
static void check_gradient(mlxn_dtype dtype, int64_t n, const mlxn_buffer *gradient, const float *sums,
                           const char *name) {
    void *got = test_contents(gradient);
    for (int64_t i = 0; i < n; i++) {
        const float once = half_widen(dtype, half_narrow(dtype, (double)sums[i]));
        const uint32_t expected = half_narrow(dtype, (double)(once + sums[i])), bits = half_get(dtype, got, (size_t)i);
        if (bits != expected)
            fail_msg("%s of %lld x %lld: [%lld] is 0x%x, expected 0x%x", name, (long long)n, (long long)n, (long long)i,
                     bits, expected);
    }
    free(got);
}

/* A vector of values at random, and the same widened. */
static mlxn_buffer *random_vector(mlxn_device *device, mlxn_dtype dtype, int64_t n, uint64_t seed, float **wide) {
    mlxn_buffer *buffer = test_vector(device, dtype, n);
    void *values = allocate((size_t)n * mlxn_dtype_size(dtype));
    *wide = allocate((size_t)n * sizeof **wide);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = half_narrow(dtype, (double)random_unit(&seed));
        half_set(dtype, values, (size_t)i, bits);
        (*wide)[i] = half_widen(dtype, bits);
    }
    test_write(buffer, values);
    free(values);
    return buffer;
}

static bool outer_of_many(mlxn_device *device, mlxn_dtype dtype, int64_t n) {
    const size_t size = mlxn_dtype_size(dtype);
    mlxn_buffer *y = try_buffer(device, dtype, 2, (const int64_t[]){n, n});
    if (y == NULL)
        return false;
    mlxn_buffer *lhs = test_vector(device, dtype, n), *rhs = test_vector(device, dtype, n);
    void *values = allocate((size_t)n * size);
    for (int64_t i = 0; i < n; i++)
        half_set(dtype, values, (size_t)i, outer_lhs(dtype, i));
    test_write(lhs, values);
    for (int64_t j = 0; j < n; j++)
        half_set(dtype, values, (size_t)j, outer_rhs(dtype, j));
    test_write(rhs, values);
    free(values);
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_outer_product(encoder, lhs, rhs, y);
    OK(mlxn_encoder_commit_and_wait(encoder));
    check_product(dtype, n, y);

    const changes changed = choose_changes(n);
    for (size_t k = 0; k < changed.count; k++) {
        uint32_t bits = 0;
        half_set(dtype, &bits, 0, half_narrow(dtype, changed_to(k)));
        OK(mlxn_buffer_write(y, (size_t)changed.at[k] * size, size, &bits));
    }
    float *a, *b;
    mlxn_buffer *by_rows = random_vector(device, dtype, n, 1, &a), *by_columns = random_vector(device, dtype, n, 2, &b);
    mlxn_buffer *dlhs = test_vector(device, dtype, n), *drhs = test_vector(device, dtype, n);
    OK(mlxn_encoder_reset(encoder));
    mlxn_outer_product_backward(encoder, y, by_rows, by_columns, dlhs, drhs, MLXN_OVERWRITE);
    mlxn_outer_product_backward_lhs(encoder, y, by_columns, dlhs, MLXN_ACCUMULATE);
    mlxn_outer_product_backward_rhs(encoder, y, by_rows, drhs, MLXN_ACCUMULATE);
    OK(mlxn_encoder_commit_and_wait(encoder));
    float *row_sums = sums_of(dtype, n, &changed, b, true), *column_sums = sums_of(dtype, n, &changed, a, false);
    check_gradient(dtype, n, dlhs, row_sums, "dlhs");
    check_gradient(dtype, n, drhs, column_sums, "drhs");

    mlxn_encoder_destroy(encoder);
    mlxn_buffer *const all[] = {y, lhs, rhs, by_rows, by_columns, dlhs, drhs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mlxn_buffer_destroy(all[i]);
    free(a);
    free(b);
    free(row_sums);
    free(column_sums);
    return true;
}

static void outer_product_beyond_32_bits(void **state) {
    (void)state;
    mlxn_device *device = test_device(0);
    const bool large = has_memory(6) && (test_on_cpu() ? outer_of_many(device, MLXN_BF16, 46400)
                                                       : outer_of_many(device, MLXN_F32, 65537));
    if (!large) {
        print_message("not enough memory or time: a small outer product\n");
        assert_true(outer_of_many(device, MLXN_F32, 1037));
        assert_true(outer_of_many(device, MLXN_BF16, 611));
    }
    mlxn_device_destroy(device);
}

/* ---- long and narrow, short and wide, batches of tiny matrices ------------------------------------------- */

typedef struct outputs {
    char *bytes[3]; /* y, dlhs, drhs */
    size_t sizes[3];
} outputs;

/* The product and all its gradients. False where the device has not the memory. */
static bool run_all(mlxn_device *device, mlxn_dtype dtype, int64_t batch, int64_t n, int64_t m, outputs *out) {
    mlxn_buffer *y = try_buffer(device, dtype, 3, (const int64_t[]){batch, n, m});
    if (y == NULL)
        return false;
    float *wide[2];
    mlxn_buffer *flat[2] = {random_vector(device, dtype, batch * n, 3, &wide[0]),
                            random_vector(device, dtype, batch * m, 4, &wide[1])},
                *lhs, *rhs;
    OK(mlxn_buffer_reshape(flat[0], 2, (const int64_t[]){batch, n}, &lhs));
    OK(mlxn_buffer_reshape(flat[1], 2, (const int64_t[]){batch, m}, &rhs));
    mlxn_buffer *dlhs = test_matrix(device, dtype, batch, n), *drhs = test_matrix(device, dtype, batch, m);
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_outer_product(encoder, lhs, rhs, y);
    mlxn_outer_product_backward(encoder, y, lhs, rhs, dlhs, drhs, MLXN_OVERWRITE);
    mlxn_outer_product_backward_lhs(encoder, y, rhs, dlhs, MLXN_ACCUMULATE);
    mlxn_outer_product_backward_rhs(encoder, y, lhs, drhs, MLXN_ACCUMULATE);
    OK(mlxn_encoder_commit_and_wait(encoder));
    mlxn_encoder_destroy(encoder);
    const mlxn_buffer *const results[] = {y, dlhs, drhs};
    for (size_t i = 0; i < 3; i++) {
        out->bytes[i] = test_contents(results[i]);
        out->sizes[i] = mlxn_buffer_bytes(results[i]);
    }
    mlxn_buffer *const all[] = {y, flat[0], flat[1], lhs, rhs, dlhs, drhs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mlxn_buffer_destroy(all[i]);
    free(wide[0]);
    free(wide[1]);
    return true;
}

static void extreme_shapes(void **state) {
    (void)state;
    const bool gpu = !test_on_cpu() && !test_is_slow_here();
    const int64_t length = INT64_C(1) << (gpu ? 26 : test_is_slow_here() ? 15 : 20), few = gpu ? 65536 : 2048;
    const int64_t shapes[][3] = {{1, length, 4}, {1, 4, length}, {1, length, 1}, {1, 1, length}, {few, 8, 8}};
    static const mlxn_dtype dtypes[] = {MLXN_F32, MLXN_BF16};
    mlxn_device *device = test_device(0), *plain = gpu ? test_cpu(0) : test_device_isa(test_isas[0], 1);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t d = 0; d < 2; d++) {
            outputs got, expected;
            if (!run_all(device, dtypes[d], shapes[s][0], shapes[s][1], shapes[s][2], &got))
                continue;
            assert_true(run_all(plain, dtypes[d], shapes[s][0], shapes[s][1], shapes[s][2], &expected));
            for (size_t i = 0; i < 3; i++) {
                if (memcmp(got.bytes[i], expected.bytes[i], got.sizes[i]) != 0)
                    fail_msg("%s [%lld,%lld,%lld]: %s has other bits than the CPU's", mlxn_dtype_name(dtypes[d]),
                             (long long)shapes[s][0], (long long)shapes[s][1], (long long)shapes[s][2],
                             (const char *[]){"y", "dlhs", "drhs"}[i]);
                free(got.bytes[i]);
                free(expected.bytes[i]);
            }
        }
    mlxn_device_destroy(device);
    mlxn_device_destroy(plain);
}

/* ---- sums whose values are known ------------------------------------------------------------------------ */

/* 70,000 bf16 ones sum to 70,144, the nearest bf16 value, in a row and in a column. */
static void many_ones(void **state) {
    (void)state;
    const int64_t count = 70000;
    mlxn_device *device = test_device(0);
    mlxn_buffer *ones = test_vector(device, MLXN_BF16, count), *one = test_vector(device, MLXN_BF16, 1);
    static uint16_t data[70000];
    uint16_t sum;
    for (int64_t i = 0; i < count; i++)
        data[i] = 0x3f80;
    test_write(ones, data);
    mlxn_buffer *row, *column;
    OK(mlxn_buffer_reshape(ones, 2, (const int64_t[]){1, count}, &row));
    OK(mlxn_buffer_reshape(ones, 2, (const int64_t[]){count, 1}, &column));
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_outer_product_backward_lhs(encoder, row, ones, one, MLXN_OVERWRITE));
    OK(mlxn_encoder_commit_and_wait(encoder));
    OK(mlxn_buffer_read(one, 0, 2, &sum));
    assert_true(half_widen(MLXN_BF16, sum) == 70144.0f);
    OK(mlxn_encoder_reset(encoder));
    OK(mlxn_outer_product_backward_rhs(encoder, column, ones, one, MLXN_OVERWRITE));
    OK(mlxn_encoder_commit_and_wait(encoder));
    OK(mlxn_buffer_read(one, 0, 2, &sum));
    assert_true(half_widen(MLXN_BF16, sum) == 70144.0f);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer *const all[] = {ones, one, row, column};
    for (size_t i = 0; i < 4; i++)
        mlxn_buffer_destroy(all[i]);
    mlxn_device_destroy(device);
}

/* The mean of 9999 values around 0.5 down a column is 0.5. */
static void long_columns(void **state) {
    (void)state;
    enum { rows = 9999, columns = 64 };
    static float data[rows * columns], ones[rows];
    mlxn_device *device = test_device(0);
    mlxn_buffer *dy = test_matrix(device, MLXN_F32, rows, columns), *lhs = test_vector(device, MLXN_F32, rows);
    mlxn_buffer *drhs = test_vector(device, MLXN_F32, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = 0.5f + (float)(i % 17 - 8) / 64;
    for (int64_t i = 0; i < rows; i++)
        ones[i] = 1;
    test_write(dy, data);
    test_write(lhs, ones);
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_outer_product_backward_rhs(encoder, dy, lhs, drhs, MLXN_OVERWRITE));
    OK(mlxn_encoder_commit_and_wait(encoder));
    float *sums = test_contents(drhs);
    for (int64_t j = 0; j < columns; j++)
        assert_true(fabs((double)sums[j] / (double)rows - 0.5) < 1e-3);
    free(sums);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(dy);
    mlxn_buffer_destroy(lhs);
    mlxn_buffer_destroy(drhs);
    mlxn_device_destroy(device);
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_ones),          cmocka_unit_test(long_columns),
        cmocka_unit_test(extreme_shapes),     cmocka_unit_test(outer_product_beyond_32_bits),
        cmocka_unit_test(exp_beyond_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
