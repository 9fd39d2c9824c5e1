/* More than 2^31 elements: offsets must be counted in 64 bits everywhere. Needs about 5 GB; skipped where less is free. */
#include <math.h>
#include <unistd.h>

#include "support/half.h"
#include "support/test.h"

static bool has_memory(double gigabytes) {
    const double free_bytes = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return !test_is_slow_here() && free_bytes > gigabytes * 1e9;
}

/* 46400 x 46400 in bf16: 2,152,960,000 elements. The last element, and a sample that is dense around 2^31. */
static void outer_product_beyond_2_31(void **state) {
    (void)state;
    if (!has_memory(6))
        skip();
    const int64_t n = 46400;
    mlxn_device *device = test_device(0);
    mlxn_buffer *lhs = test_vector(device, MLXN_BF16, n), *rhs = test_vector(device, MLXN_BF16, n);
    mlxn_buffer *y = test_matrix(device, MLXN_BF16, n, n);
    uint16_t *l, *r, *out;
    OK(mlxn_buffer_map(lhs, (void **)&l));
    OK(mlxn_buffer_map(rhs, (void **)&r));
    for (int64_t i = 0; i < n; i++) {
        l[i] = (uint16_t)half_narrow(MLXN_BF16, 1 + (double)(i % 251) / 256);
        r[i] = (uint16_t)half_narrow(MLXN_BF16, 1 + (double)(i % 127) / 128);
    }
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_outer_product(encoder, lhs, rhs, y);
    OK(mlxn_encoder_commit_and_wait(encoder));
    OK(mlxn_buffer_map(y, (void **)&out));
    const int64_t total = n * n;
    for (int64_t k = 0; k < total;
         k += (k > INT64_C(0x7fff0000) && k < INT64_C(0x80010000)) || k > total - 5000 ? 1 : 4999) {
        const float product = half_widen(MLXN_BF16, l[k / n]) * half_widen(MLXN_BF16, r[k % n]);
        if (out[k] != half_narrow(MLXN_BF16, (double)product))
            fail_msg("y[%lld] is 0x%x, expected 0x%x", (long long)k, out[k], half_narrow(MLXN_BF16, (double)product));
    }

    /* Both gradients of ones: rows and columns that lie beyond 2^31 count as much as the first. */
    mlxn_buffer *dlhs = test_vector(device, MLXN_BF16, n), *drhs = test_vector(device, MLXN_BF16, n);
    for (int64_t k = 0; k < n; k++)
        l[k] = r[k] = 0x3f80;
    for (int64_t k = 0; k < total; k++)
        out[k] = 0;
    out[total - 1] = out[total - n] = out[n - 1] = 0x3f80;
    OK(mlxn_encoder_reset(encoder));
    mlxn_outer_product_backward(encoder, y, lhs, rhs, dlhs, drhs, MLXN_OVERWRITE);
    OK(mlxn_encoder_commit_and_wait(encoder));
    const uint16_t *dl, *dr;
    OK(mlxn_buffer_map(dlhs, (void **)&dl));
    OK(mlxn_buffer_map(drhs, (void **)&dr));
    for (int64_t k = 0; k < n; k++) {
        const uint16_t row = k == n - 1 ? 0x4000
                             : k == 0   ? 0x3f80
                                        : 0,
                       column = k == n - 1 ? 0x4000
                                : k == 0   ? 0x3f80
                                           : 0;
        if (dl[k] != row || dr[k] != column)
            fail_msg("dlhs[%lld] is 0x%x, drhs 0x%x, expected 0x%x, 0x%x", (long long)k, dl[k], dr[k], row, column);
    }
    mlxn_encoder_destroy(encoder);
    mlxn_buffer *const all[] = {lhs, rhs, y, dlhs, drhs};
    for (size_t i = 0; i < 5; i++)
        mlxn_buffer_destroy(all[i]);
    mlxn_device_destroy(device);
}

/* In place over 2^31 elements: only the few that are not 0 give other than 1. */
static void exp_beyond_2_31(void **state) {
    (void)state;
    if (!has_memory(6))
        skip();
    const int64_t count = (INT64_C(1) << 31) + 4099;
    mlxn_device *device = test_device(0);
    mlxn_buffer *x = test_vector(device, MLXN_F16, count);
    uint16_t *data;
    OK(mlxn_buffer_map(x, (void **)&data));
    data[0] = data[(INT64_C(1) << 31) - 1] = data[INT64_C(1) << 31] = data[count - 1] = 0x3c00;
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_exp(encoder, x, x);
    OK(mlxn_encoder_commit_and_wait(encoder));
    const uint32_t e = half_narrow(MLXN_F16, exp(1.0));
    for (int64_t k = 0; k < count; k++) {
        const bool one = k == 0 || k == (INT64_C(1) << 31) - 1 || k == INT64_C(1) << 31 || k == count - 1;
        if (data[k] != (one ? e : 0x3c00u))
            fail_msg("y[%lld] is 0x%x", (long long)k, data[k]);
    }
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_device_destroy(device);
}

/* 70,000 bf16 ones sum to 70,144, the nearest bf16 value, in a row and in a column. */
static void many_ones(void **state) {
    (void)state;
    const int64_t count = 70000;
    mlxn_device *device = test_device(0);
    mlxn_buffer *ones = test_vector(device, MLXN_BF16, count), *one = test_vector(device, MLXN_BF16, 1);
    uint16_t *data, sum;
    OK(mlxn_buffer_map(ones, (void **)&data));
    for (int64_t i = 0; i < count; i++)
        data[i] = 0x3f80;
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
    const int64_t rows = 9999, columns = 64;
    mlxn_device *device = test_device(0);
    mlxn_buffer *dy = test_matrix(device, MLXN_F32, rows, columns), *lhs = test_vector(device, MLXN_F32, rows);
    mlxn_buffer *drhs = test_vector(device, MLXN_F32, columns);
    float *data, *ones, *sums;
    OK(mlxn_buffer_map(dy, (void **)&data));
    OK(mlxn_buffer_map(lhs, (void **)&ones));
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = 0.5f + (float)(i % 17 - 8) / 64;
    for (int64_t i = 0; i < rows; i++)
        ones[i] = 1;
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_outer_product_backward_rhs(encoder, dy, lhs, drhs, MLXN_OVERWRITE));
    OK(mlxn_encoder_commit_and_wait(encoder));
    OK(mlxn_buffer_map(drhs, (void **)&sums));
    for (int64_t j = 0; j < columns; j++)
        assert_true(fabs((double)sums[j] / (double)rows - 0.5) < 1e-3);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(dy);
    mlxn_buffer_destroy(lhs);
    mlxn_buffer_destroy(drhs);
    mlxn_device_destroy(device);
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_ones),
        cmocka_unit_test(long_columns),
        cmocka_unit_test(outer_product_beyond_2_31),
        cmocka_unit_test(exp_beyond_2_31),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
