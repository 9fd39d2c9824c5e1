/* Special values: each row of every op's table, in every lane and every tail position; and values that must not reach
 * their neighbours. */
#include "support/op_case.h"

static const mlxn_dtype DTYPES[] = {MLXN_F32, MLXN_F16, MLXN_BF16};

static mlxn_device *device;

static int open_device(void **state) {
    (void)state;
    device = test_device(1);
    return 0;
}

static int close_device(void **state) {
    (void)state;
    mlxn_device_destroy(device);
    return 0;
}

/* The bits of an f32 value in another dtype; false where it has no exact equal there. Any NaN has one. */
static bool translate(mlxn_dtype dtype, uint32_t bits, uint32_t *translated) {
    *translated = half_narrow(dtype, (double)half_float(bits));
    if (half_is_nan(MLXN_F32, bits)) {
        if (bits == 0x7f800001u)
            *translated = dtype == MLXN_F32 ? bits : dtype == MLXN_F16 ? 0x7c01u : 0x7f81u;
        return true;
    }
    return half_bits(half_widen(dtype, *translated)) == bits;
}

static void every_op_has_special_values(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (op->elementwise && op->special_count == 0)
            fail_msg("%s has no special values", op->name);
    }
}

/* The bits of a row in a dtype; false if an input has no exact equal there. Checks the row's results against the oracle
 * where they have one. */
static bool row_in(const mlxn_op_info *op, mlxn_dtype dtype, const mlxn_special *row, uint32_t in[3]) {
    for (size_t k = 0; k < op->input_count; k++)
        if (!translate(dtype, row->in[k], &in[k]))
            return false;
    const op_case c = {.op = op, .dtype = dtype, .lead_rank = 1, .lead = {1}, .n = 1, .m = 1};
    op_arrays a = op_arrays_create(&c);
    for (size_t k = 0; k < op->input_count; k++)
        half_set(dtype, a.array[k], 0, in[k]);
    op_arrays_update(&c, &a);
    for (size_t k = 0; k < op->output_count; k++) {
        uint32_t out;
        const op_expected e = op_case_expected(&c, &a, k, 0);
        if (translate(dtype, row->out[k], &out) && dtype == MLXN_F32 && e.bits != out && e.other != out)
            fail_msg("%s %s: the table says 0x%x of 0x%x 0x%x 0x%x, the oracle 0x%x", op->name, mlxn_dtype_name(dtype),
                     out, in[0], in[1], in[2], e.bits);
    }
    op_arrays_destroy(&a);
    return true;
}

/* Vectors in which every element is a row of the table, the rows taking turns, so that each row comes to each place of
 * vectors of every length up to 67, at element offsets 0 to 15. */
static void rows_dense(const mlxn_op_info *op, mlxn_dtype dtype, uint32_t (*in)[3], size_t rows) {
    for (int64_t length = 1; length <= 67; length += test_is_slow_here() && length > 17 ? 12 : 1) {
        const op_case c = {.op = op, .dtype = dtype, .lead_rank = 1, .lead = {length}, .n = 1, .m = 1, .seed = 1};
        op_arrays a = op_arrays_create(&c);
        for (size_t turn = 0; turn < rows; turn++) {
            for (size_t at = 0; at < (size_t)length; at++)
                for (size_t k = 0; k < op->input_count; k++)
                    half_set(dtype, a.array[k], at, in[(at + turn) % rows][k]);
            op_arrays_update(&c, &a);
            op_layout layout = {.place = turn % 2 == 0 ? GUARD_AT_START : GUARD_AT_END};
            for (size_t k = 0; k < op_case_arguments(&c); k++)
                layout.shift[k] = (turn + (size_t)length) % 16;
            op_case_check(device, &c, &a, &layout);
        }
        op_arrays_destroy(&a);
    }
}

/* One row alone among ordinary values, at every place: a kernel may have another way for vectors with special values. */
static void row_alone(const mlxn_op_info *op, mlxn_dtype dtype, const uint32_t in[3]) {
    static const int64_t lengths[] = {1, 7, 16, 33, 67};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        const op_case c = {.op = op,
                           .dtype = dtype,
                           .values = OP_VALUES_POSITIVE,
                           .lead_rank = 1,
                           .lead = {lengths[l]},
                           .n = 1,
                           .m = 1,
                           .seed = (uint64_t)lengths[l]};
        op_arrays a = op_arrays_create(&c);
        for (size_t at = 0; at < (size_t)lengths[l]; at++) {
            uint32_t kept[MLXN_MAX_ARGUMENTS];
            for (size_t k = 0; k < op->input_count; k++) {
                kept[k] = half_get(dtype, a.array[k], at);
                half_set(dtype, a.array[k], at, in[k]);
            }
            op_arrays_update(&c, &a);
            op_case_check(device, &c, &a, &(op_layout){.place = GUARD_AT_END, .shift = {at % 16, at % 16, at % 16}});
            for (size_t k = 0; k < op->input_count; k++)
                half_set(dtype, a.array[k], at, kept[k]);
        }
        op_arrays_destroy(&a);
    }
}

static void table_rows(void **state) {
    (void)state;
    enum { MOST_ROWS = 64 };
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (!op->elementwise || !test_wants_op(op->name))
            continue;
        for (size_t d = 0; d < 3; d++) {
            uint32_t in[MOST_ROWS][3] = {{0}};
            size_t rows = 0;
            assert_true(op->special_count <= MOST_ROWS);
            for (size_t r = 0; r < op->special_count; r++)
                rows += row_in(op, DTYPES[d], &op->special[r], in[rows]);
            rows_dense(op, DTYPES[d], in, rows);
            for (size_t r = 0; r < rows; r++)
                row_alone(op, DTYPES[d], in[r]);
        }
    }
}

/* The table's own results, literally, through the device. */
static void table_results(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (!op->elementwise)
            continue;
        mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
        const size_t arguments = op->input_count + op->output_count;
        for (size_t k = 0; k < arguments; k++)
            buffers[k] = test_vector(device, MLXN_F32, (int64_t)op->special_count);
        for (size_t r = 0; r < op->special_count; r++)
            for (size_t k = 0; k < op->input_count; k++)
                OK(mlxn_buffer_write(buffers[k], 4 * r, 4, &op->special[r].in[k]));
        mlxn_encoder *encoder = test_encoder(device);
        OK(mlxn_encode(encoder, op->name, buffers, arguments, MLXN_OVERWRITE));
        OK(mlxn_encoder_commit_and_wait(encoder));
        mlxn_encoder_destroy(encoder);
        for (size_t r = 0; r < op->special_count; r++)
            for (size_t k = 0; k < op->output_count; k++) {
                uint32_t got;
                OK(mlxn_buffer_read(buffers[op->input_count + k], 4 * r, 4, &got));
                if (got != op->special[r].out[k])
                    fail_msg("%s: output %zu of 0x%x 0x%x 0x%x is 0x%x, the table says 0x%x", op->name, k,
                             op->special[r].in[0], op->special[r].in[1], op->special[r].in[2], got,
                             op->special[r].out[k]);
            }
        for (size_t k = 0; k < arguments; k++)
            mlxn_buffer_destroy(buffers[k]);
    }
}

/* NaN, infinities, zeros and subnormals in one place of one input: every result is still the oracle's, so that only those
 * which depend on the place can differ. */
static void one_place(const mlxn_op_info *op, mlxn_dtype dtype, int64_t n, int64_t m) {
    static const uint32_t values[] = {0x7fc00000u, 0xffc12345u, 0x7f800001u, 0x7f800000u,
                                      0xff800000u, 0x80000000u, 0x00000001u, 0x807fffffu};
    const int64_t lead = op->elementwise ? n * m : 2;
    const op_case c = {.op = op,
                       .dtype = dtype,
                       .values = OP_VALUES_POSITIVE,
                       .lead_rank = 1,
                       .lead = {lead},
                       .n = op->elementwise ? 1 : n,
                       .m = op->elementwise ? 1 : m,
                       .seed = (uint64_t)(n * 1000 + m)};
    op_arrays arrays = op_arrays_create(&c);
    for (size_t k = 0; k < op->input_count; k++)
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            const size_t at = (arrays.count[k] - 1) * (v + 1) / (sizeof values / sizeof values[0]);
            const uint32_t kept = half_get(dtype, arrays.array[k], at);
            const uint32_t bits = dtype == MLXN_F32    ? values[v]
                                  : dtype == MLXN_BF16 ? values[v] >> 16 | (v == 2 || v == 6)
                                                       : half_narrow(dtype, (double)half_float(values[v]));
            half_set(dtype, arrays.array[k], at, bits);
            op_arrays_update(&c, &arrays);
            op_case_check(device, &c, &arrays, &(op_layout){.place = GUARD_AT_END});
            half_set(dtype, arrays.array[k], at, kept);
        }
    op_arrays_destroy(&arrays);
}

static void neighbours_are_unaffected(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{3, 5}, {33, 17}, {5, 1030}, {70, 40}};
    for (size_t i = 0; i < mlxn_op_count(); i++)
        for (size_t d = 0; d < 3; d++)
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
                if (test_wants_op(mlxn_op_at(i)->name))
                    one_place(mlxn_op_at(i), DTYPES[d], shapes[s][0], shapes[s][1]);
}

/* Sums over rows and columns of zeros of either sign are +0, whatever lanes are empty; all-NaN rows give the one NaN. */
static void sums_of_zeros(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (op->elementwise || op->forward == NULL || !test_wants_op(op->name))
            continue;
        for (size_t d = 0; d < 3; d++)
            for (int64_t size = 1; size <= 40; size++) {
                op_case c = {
                    .op = op, .dtype = DTYPES[d], .values = OP_VALUES_UNIT, .n = size, .m = 41 - size, .seed = 1};
                op_arrays a = op_arrays_create(&c);
                for (size_t k = 0; k < a.count[0]; k++)
                    half_set(c.dtype, a.array[0], k, half_narrow(c.dtype, -0.0));
                op_arrays_update(&c, &a);
                for (size_t o = 0; o < op->output_count; o++)
                    assert_int_equal(op_case_expected(&c, &a, o, 0).bits, 0);
                op_case_check(device, &c, &a, &(op_layout){.place = GUARD_AT_END});
                op_arrays_destroy(&a);
            }
    }
}

/* Products that are rounded to -0: their sum is +0 all the same, in one part or in many. */
static void sums_of_underflows(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {5, 40}, {3, 2100}, {600, 7}, {600, 300}, {300, 1100}, {2, 32768}};
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (op->elementwise || op->forward == NULL || !test_wants_op(op->name))
            continue;
        for (size_t d = 0; d < 3; d++)
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
                const op_case c = {.op = op, .dtype = DTYPES[d], .n = shapes[s][0], .m = shapes[s][1], .seed = 1};
                op_arrays a = op_arrays_create(&c);
                for (size_t k = 0; k < op->input_count; k++)
                    for (size_t at = 0; at < a.count[k]; at++)
                        half_set(c.dtype, a.array[k], at,
                                 k > 0 ? half_narrow(c.dtype, 0x1p-20) : half_narrow(c.dtype, -0.0) | 1);
                op_arrays_update(&c, &a);
                if (c.dtype != MLXN_F16) /* whose products f32 holds */
                    assert_int_equal(op_case_expected(&c, &a, 0, 0).bits, 0);
                op_case_check(device, &c, &a, &(op_layout){.place = GUARD_AT_END});
                op_arrays_destroy(&a);
            }
    }
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_special_values),
        cmocka_unit_test(table_results),
        cmocka_unit_test(table_rows),
        cmocka_unit_test(neighbours_are_unaffected),
        cmocka_unit_test(sums_of_zeros),
        cmocka_unit_test(sums_of_underflows),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
