/* Every op of the library, every dtype and mode, against its oracle: bit for bit where the contract fixes the bits.
 * An op added to ops.def is tested here without an edit. */
#include <math.h>

#include "support/op_case.h"
#include "support/random.h"

static const mlxn_dtype DTYPES[] = {MLXN_F32, MLXN_F16, MLXN_BF16};
static const op_values VALUES[] = {OP_VALUES_UNIT, OP_VALUES_WIDE, OP_VALUES_BITS};

static mlxn_device *device;

static int open_device(void **state) {
    (void)state;
    device = test_device(0);
    return 0;
}

static int close_device(void **state) {
    (void)state;
    mlxn_device_destroy(device);
    return 0;
}

/* Runs one shape with every op that has (or has not) the extents N and M, every dtype, mode and kind of values. */
static void run_shape(bool elementwise, size_t lead_rank, const int64_t *lead, int64_t n, int64_t m) {
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (op->elementwise != elementwise || !test_wants_op(op->name))
            continue;
        for (size_t d = 0; d < 3; d++)
            for (size_t v = 0; v < 3; v++)
                for (int mode = 0; mode <= (op->accumulates ? 1 : 0); mode++) {
                    op_case c = {.op = op,
                                 .dtype = DTYPES[d],
                                 .mode = (mlxn_mode)mode,
                                 .values = VALUES[v],
                                 .lead_rank = lead_rank,
                                 .n = n,
                                 .m = m,
                                 .seed = test_seed(UINT64_C(0x5eed) + (uint64_t)(n * 131 + m))};
                    if (lead_rank > 0)
                        memcpy(c.lead, lead, lead_rank * sizeof *lead);
                    op_case_run(device, &c);
                }
    }
}

static void elementwise_sizes(void **state) {
    (void)state;
    static const int64_t counts[] = {1,   2,   3,    7,    8,    9,    15,   16,   17,   31,   32,
                                     33,  63,  64,   65,   127,  97,   128,  251,  255,  256,  257,
                                     509, 997, 1021, 1023, 1024, 1025, 4093, 4096, 5000, 65537};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        run_shape(true, 1, &counts[i], 1, 1);
}

/* All 65,536 values of each input of f16 and bf16, beside any bits in the other inputs. */
static void elementwise_every_16_bit_input(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (!op->elementwise || !test_wants_op(op->name))
            continue;
        for (size_t d = 1; d < 3; d++)
            for (size_t input = 0; input < op->input_count; input++) {
                const op_case c = {.op = op,
                                   .dtype = DTYPES[d],
                                   .values = OP_VALUES_BITS,
                                   .lead_rank = 1,
                                   .lead = {1 << 16},
                                   .n = 1,
                                   .m = 1,
                                   .seed = test_seed(16)};
                op_arrays a = op_arrays_create(&c);
                for (uint32_t bits = 0; bits < 1 << 16; bits++)
                    half_set(c.dtype, a.array[input], bits, bits);
                op_arrays_update(&c, &a);
                op_case_check(device, &c, &a, &(op_layout){.place = GUARD_AT_END, .shift = {input, 1, 2, 3}});
                op_arrays_destroy(&a);
            }
    }
}

/* The b for which a * b is 1 in the lowest 32 bits; a is odd. */
static uint32_t inverse(uint32_t a) {
    uint32_t b = a; /* right in three bits; each turn doubles them */
    for (int i = 0; i < 4; i++)
        b *= 2 - a * b;
    return b;
}

/* A quotient a / b so close to the middle q between two numbers of `bits` - 1 bits that nothing but an exact division
 * rounds it well: with q * b = 2^bits * a + r and r small, a / b is 2^-bits * (q - r / b). */
static void draw_quotient(uint64_t *random, int bits, double *a, double *b) {
    const uint32_t mask = (UINT32_C(1) << bits) - 1;
    for (;;) {
        const int64_t r = 2 * random_between(random, -8, 7) + 1,
                      divisor = random_between(random, 1 << 22, (1 << 23) - 1) * 2 + 1;
        const uint32_t q = (uint32_t)r * inverse((uint32_t)divisor) & mask;
        if (q > mask / 2) {
            *a = (double)(((int64_t)q * divisor - r) / (INT64_C(1) << bits));
            *b = (double)divisor;
            return;
        }
    }
}

/* The quotients that are hardest to round, half of them subnormal, as dividend and divisor in either order of the
 * inputs; random values hardly ever come near them. */
static void elementwise_hard_quotients(void **state) {
    (void)state;
    enum { COUNT = 1 << 15 };
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (!op->elementwise || op->input_count != 2 || !test_wants_op(op->name))
            continue;
        const op_case c = {.op = op, .lead_rank = 1, .lead = {COUNT}, .n = 1, .m = 1, .seed = test_seed(25)};
        op_arrays arrays = op_arrays_create(&c);
        uint64_t random = c.seed;
        for (size_t k = 0; k < COUNT; k++) {
            const int bits = k % 2 == 0 ? 25 : (int)(2 + k / 8 % 24);
            double a, b;
            draw_quotient(&random, bits, &a, &b);
            if (k % 2 != 0) { /* the middle is a multiple of 2^-150 then, or of what a divisor of 2 b makes of it */
                a *= 0x1p-120;
                b *= ldexp(k / 2 % 2 == 0 ? 1 : 0.5, 30 - bits);
            }
            assert_true((double)(float)a == a && (double)(float)b == b);
            half_set(MLXN_F32, arrays.array[0], k, half_narrow(MLXN_F32, k / 4 % 2 == 0 ? b : a));
            half_set(MLXN_F32, arrays.array[1], k, half_narrow(MLXN_F32, k / 4 % 2 == 0 ? a : b));
        }
        op_arrays_update(&c, &arrays);
        op_case_check(device, &c, &arrays, &(op_layout){.place = GUARD_AT_START});
        op_arrays_destroy(&arrays);
    }
}

static void elementwise_ranks(void **state) {
    (void)state;
    run_shape(true, 0, NULL, 1, 1);
    run_shape(true, 2, (const int64_t[]){3, 5}, 1, 1);
    run_shape(true, 8, (const int64_t[]){1, 2, 1, 3, 1, 2, 5, 1}, 1, 1);
}

static void matrix_sizes(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 64, 67};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
            run_shape(false, 0, NULL, sizes[i], sizes[j]);
}

static void matrix_long(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {
        {5, 4097}, {40, 4100}, {3, 4106}, {2, 8207}, /* a narrow last tile of columns */
        {1, 1023}, {1, 1024},  {1, 1025}, {3, 1023}, {33, 1025}, {65, 2049},  {7, 3072},  {2, 5119},
        {1023, 1}, {1024, 1},  {1025, 1}, {1025, 3}, {997, 31},  {2049, 33},  {3071, 2},  {192, 64},
        {96, 40},  {160, 257}, {5000, 4}, {4, 5000}, {613, 149}, {300, 1100}, {50, 4500}, {33, 8300}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (!test_is_slow_here() || shapes[i][0] * shapes[i][1] <= 100000 || i % 4 == 3)
            run_shape(false, 0, NULL, shapes[i][0], shapes[i][1]);
}

static void matrix_batches(void **state) {
    (void)state;
    run_shape(false, 1, (const int64_t[]){1}, 5, 7);
    run_shape(false, 1, (const int64_t[]){3}, 33, 17);
    run_shape(false, 2, (const int64_t[]){2, 3}, 4, 40);
    run_shape(false, 2, (const int64_t[]){7, 1}, 65, 3);
    run_shape(false, 6, (const int64_t[]){1, 2, 1, 3, 1, 2}, 9, 5);
    run_shape(false, 1, (const int64_t[]){1000}, 8, 8);
    run_shape(false, 1, (const int64_t[]){513}, 1, 3);
    run_shape(false, 1, (const int64_t[]){100}, 1, 1);
    run_shape(false, 1, (const int64_t[]){5}, 70, 1100);
}

/* One shape for f32 alone, overwrite and accumulate: large enough to be shared out among threads in many ways. */
static void run_large(int64_t n, int64_t m) {
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (op->elementwise || !test_wants_op(op->name))
            continue;
        op_case c = {.op = op,
                     .dtype = MLXN_F32,
                     .mode = op->accumulates ? MLXN_ACCUMULATE : MLXN_OVERWRITE,
                     .n = n,
                     .m = m,
                     .seed = test_seed(77)};
        op_case_run(device, &c);
    }
}

static void matrix_narrow_and_wide(void **state) {
    (void)state;
    const int64_t length = test_is_slow_here() ? 1 << 14 : 1 << 20;
    run_large(length, 4);
    run_large(4, length);
    run_large(length, 1);
    run_large(1, length);
    run_large(length / 64 + 1, 63);
}

/* Every argument at its own odd place, or all at the same, begin and end of the pages in turn: lengths 1 to 67, offsets 0
 * to 15. */
static void shifted(bool elementwise) {
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (op->elementwise != elementwise || !test_wants_op(op->name))
            continue;
        for (size_t d = 0; d < 3; d++)
            for (int64_t length = 1; length <= 67; length += test_is_slow_here() ? 3 : 1) {
                op_case c = {.op = op,
                             .dtype = DTYPES[d],
                             .mode = op->accumulates && length % 2 ? MLXN_ACCUMULATE : MLXN_OVERWRITE,
                             .values = length % 3 == 0 ? OP_VALUES_BITS : OP_VALUES_UNIT,
                             .lead_rank = elementwise ? 1 : 0,
                             .lead = {length},
                             .n = elementwise ? 1 : 1 + length % 5,
                             .m = elementwise ? 1 : length,
                             .seed = test_seed((uint64_t)length)};
                op_arrays arrays = op_arrays_create(&c);
                for (size_t offset = 0; offset < 16; offset++) {
                    op_layout layout = {.place = offset % 2 == 0 ? GUARD_AT_START : GUARD_AT_END};
                    for (size_t k = 0; k < op_case_arguments(&c); k++)
                        layout.shift[k] = (offset + k * 5 * (length % 4 != 2)) % 16;
                    op_case_check(device, &c, &arrays, &layout);
                }
                op_arrays_destroy(&arrays);
            }
    }
}

static void elementwise_shifted(void **state) {
    (void)state;
    shifted(true);
}

static void matrix_shifted(void **state) {
    (void)state;
    shifted(false);
}

/* The oracle itself: the canonical sums are within their error bound of the compensated float64 ones. */
static void oracle_agrees_with_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        const op_case c = {.op = op,
                           .dtype = MLXN_F32,
                           .values = OP_VALUES_POSITIVE,
                           .lead_rank = op->elementwise ? 1 : 0,
                           .lead = {1000},
                           .n = op->elementwise ? 1 : 300,
                           .m = op->elementwise ? 1 : 1100,
                           .seed = 3};
        op_arrays a = op_arrays_create(&c);
        for (size_t o = 0; o < op->output_count; o++)
            for (size_t k = 0; k < a.count[op->input_count + o]; k++) {
                const double truth = a.reference[op->input_count + o][k];
                const double oracle = (double)half_widen(MLXN_F32, op_case_expected(&c, &a, o, k).bits);
                const double error = oracle > truth ? oracle - truth : truth - oracle;
                if (error > 100 * 0x1p-24 * (truth < 0 ? -truth : truth))
                    test_fail(c.seed, "%s: oracle %a, reference %a at %zu", op_case_text(&c), oracle, truth, k);
            }
        op_arrays_destroy(&a);
    }
}

/* Most results must have been compared to the bit; a formula that this test cannot read would weaken it silently. */
static void most_were_exact(void **state) {
    (void)state;
    print_message("%llu results compared to the bit, %llu against a bound\n", (unsigned long long)op_case_exact,
                  (unsigned long long)op_case_within);
    if (getenv("MLXN_TEST_OP") == NULL)
        assert_true(op_case_exact > 1000 * op_case_within);
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_agrees_with_reference),
        cmocka_unit_test(elementwise_sizes),
        cmocka_unit_test(elementwise_every_16_bit_input),
        cmocka_unit_test(elementwise_hard_quotients),
        cmocka_unit_test(elementwise_ranks),
        cmocka_unit_test(elementwise_shifted),
        cmocka_unit_test(matrix_sizes),
        cmocka_unit_test(matrix_long),
        cmocka_unit_test(matrix_batches),
        cmocka_unit_test(matrix_narrow_and_wide),
        cmocka_unit_test(matrix_shifted),
        cmocka_unit_test(most_were_exact),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
