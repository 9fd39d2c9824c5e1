/* The elementary functions of the GPUs' kernel text, run on the host in both of its ways: all f16 and bf16, random blocks
 * of f32 (all 2^32 with MLXN_TEST_EXHAUSTIVE=1), the hardest inputs, and the special values. */
#include "elementary/digests.h"
#include "elementary/gpu_text.h"
#include "elementary/truth.h"
#include "support/half.h"
#include "support/random.h"
#include "support/test.h"

#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BLOCKS = 2, EXP_HARD = 12408, NPY_HEADER = 128 };

static const gpu_text *const texts[] = {&gpu_text_f64, &gpu_text_f32};

typedef struct subject {
    const char *op, *way;
    float (*f32)(float x);
    float (*narrow)(float x);
    float (*f32_quick)(float x, bool *sure);
    float (*narrow_quick)(float x, bool *sure);
} subject;

static size_t subject_count(void) {
    return 2 * (sizeof texts / sizeof *texts);
}

static subject subject_at(size_t index) {
    const gpu_text *text = texts[index / 2];
    if (index % 2 == 0)
        return (subject){"exp", text->way, text->exp_f32, text->exp_narrow, text->exp_quick, text->exp_narrow_quick};
    return (subject){"log", text->way, text->log_f32, text->log_narrow, text->log_quick, text->log_narrow_quick};
}

static const truth_op *truth_of(const char *op) {
    for (size_t i = 0; i < truth_op_count; i++)
        if (strcmp(truth_ops[i].name, op) == 0)
            return &truth_ops[i];
    fail_msg("no truth about %s", op);
    return NULL;
}

static const mlxn_digest_table *digests_of(const char *op) {
    for (size_t i = 0; i < mlxn_digest_table_count; i++)
        if (strcmp(mlxn_digest_tables[i].op, op) == 0 && mlxn_digest_tables[i].dtype == MLXN_F32)
            return &mlxn_digest_tables[i];
    fail_msg("digests.h lacks %s", op);
    return NULL;
}

static void check_one(const subject *s, uint32_t input, uint32_t expected) {
    const uint32_t result = half_bits(s->f32(half_float(input)));
    if (result != expected)
        fail_msg("%s_f32 %s: 0x%08x gives 0x%08x, expected 0x%08x", s->op, s->way, input, result, expected);
}

static void check_block(const subject *s, const mlxn_digest_table *table, uint64_t block, uint64_t seed) {
    uint32_t *results = malloc(table->block * sizeof *results);
    assert_non_null(results);
    const uint32_t first = (uint32_t)(block * table->block);
    for (uint32_t i = 0; i < table->block; i++)
        results[i] = half_bits(s->f32(half_float(first + i)));
    const XXH128_hash_t digest = XXH3_128bits(results, table->block * sizeof *results);
    free(results);
    if (digest.high64 != table->digests[block].high || digest.low64 != table->digests[block].low)
        test_fail(seed, "%s_f32 %s: a result for an input from 0x%08x on is wrong", s->op, s->way, first);
}

/* A block at random, but not one whose results are all alike: its digest would be its neighbour's. */
static uint64_t draw_block(const mlxn_digest_table *table, uint64_t *random) {
    for (;;) {
        const uint64_t block = 1 + random_next(random) % (table->count - 1);
        if (memcmp(&table->digests[block], &table->digests[block - 1], sizeof(mlxn_digest)) != 0)
            return block;
    }
}

static void f32_blocks(void **state) {
    (void)state;
    const uint64_t seed = test_seed((uint64_t)time(NULL));
    printf("MLXN_TEST_SEED=%llu\n", (unsigned long long)seed);
    uint64_t random = seed;
    const bool all = getenv("MLXN_TEST_EXHAUSTIVE") != NULL;
    for (size_t k = 0; k < subject_count(); k++) {
        const subject s = subject_at(k);
        const mlxn_digest_table *table = digests_of(s.op);
        const uint64_t blocks = all ? table->count : test_is_slow_here() ? 1 : BLOCKS;
        for (uint64_t i = 0; i < blocks; i++)
            check_block(&s, table, all ? i : draw_block(table, &random), seed);
    }
}

static void every_half(void **state) {
    (void)state;
    static const mlxn_dtype dtypes[] = {MLXN_F16, MLXN_BF16};
    for (size_t k = 0; k < 2; k++) { /* the narrow functions are the same without f64, which is tested below */
        const subject s = subject_at(k);
        const truth_op *truth = truth_of(s.op);
        for (size_t d = 0; d < 2; d++) {
            for (uint32_t input = 0; input <= 0xffff; input++) {
                const float y = s.narrow(half_widen(dtypes[d], input));
                const uint32_t result = half_narrow(dtypes[d], (double)y);
                const uint32_t expected = truth_result(truth, TRUTH_MPFR, dtypes[d], input);
                if (result != expected)
                    fail_msg("%s_%s: 0x%04x gives 0x%04x, expected 0x%04x", s.op, mlxn_dtype_name(dtypes[d]), input,
                             result, expected);
                const float other = subject_at(k + 2).narrow(half_widen(dtypes[d], input));
                if (half_bits(other) != half_bits(y))
                    fail_msg("%s_%s of 0x%04x differs without f64", s.op, mlxn_dtype_name(dtypes[d]), input);
            }
        }
    }
}

/* ---- the quick functions ---------------------------------------------------------------------------- */

typedef float (*careful_function)(float x);
typedef float (*quick_function)(float x, bool *sure);

/* Where the quick function is sure it gives what the careful one does, and it never is where it was not before. Says
 * whether it is sure. */
static bool check_quick(const subject *s, const char *dtype, careful_function careful, quick_function quick, float x) {
    bool sure = true, not_sure = false;
    const float y = quick(x, &sure);
    quick(x, &not_sure);
    if (not_sure)
        fail_msg("%s_%s %s: 0x%08x makes it sure", s->op, dtype, s->way, half_bits(x));
    if (sure && half_bits(y) != half_bits(careful(x)))
        fail_msg("%s_%s %s: 0x%08x quickly gives 0x%08x, and it is sure; expected 0x%08x", s->op, dtype, s->way,
                 half_bits(x), half_bits(y), half_bits(careful(x)));
    return sure;
}

/* All bits alike, all inputs that have a result like any other, the neighbourhood of 1, and the edges of the exponents. */
static float draw_input(uint64_t *random, int i) {
    const uint32_t bits = (uint32_t)random_next(random);
    switch (i % 4) {
    case 0:
        return half_float(bits);
    case 1:
        return half_float((bits & 0x80000000u) | (0x33000000u + bits % 0x10000000u)); /* 2^-25 to 128 */
    case 2:
        return half_float(0x3f800000u + (uint32_t)((int32_t)bits / (1 << i / 4 % 24)) / 128);
    default:
        return half_float((bits & 0xff800000u) + (uint32_t)random_between(random, -40, 40));
    }
}

static void quick_where_sure(void **state) {
    (void)state;
    enum { TRIES = 400000 };
    const int tries = test_is_slow_here() ? TRIES / 10 : TRIES;
    const uint64_t seed = test_seed((uint64_t)time(NULL));
    printf("MLXN_TEST_SEED=%llu\n", (unsigned long long)seed);
    uint64_t random = seed;
    for (size_t k = 0; k < subject_count(); k++) {
        const subject s = subject_at(k);
        int usual = 0, sure = 0;
        for (int i = 0; i < tries; i++) {
            const float x = draw_input(&random, i);
            const bool is_sure = check_quick(&s, "f32", s.f32, s.f32_quick, x);
            const bool is_usual = x > 0x1p-20f && x < 80.0f;
            usual += is_usual;
            sure += is_usual && is_sure;
        }
        /* It serves only if it nearly always is. */
        if (sure < usual - usual / 50)
            test_fail(seed, "%s_f32 %s: only %d of %d are sure", s.op, s.way, sure, usual);
    }
}

static void quick_of_every_half(void **state) {
    (void)state;
    static const mlxn_dtype dtypes[] = {MLXN_F16, MLXN_BF16};
    for (size_t k = 0; k < subject_count(); k++) {
        const subject s = subject_at(k);
        for (size_t d = 0; d < 2; d++)
            for (uint32_t input = 0; input <= 0xffff; input++) {
                const float x = half_widen(dtypes[d], input);
                const bool sure = check_quick(&s, mlxn_dtype_name(dtypes[d]), s.narrow, s.narrow_quick, x);
                check_quick(&s, "f32", s.f32, s.f32_quick, x);
                if (!sure && x > 0x1p-14f && x < 80.0f)
                    fail_msg("%s_%s %s: 0x%04x is not sure", s.op, mlxn_dtype_name(dtypes[d]), s.way, input);
            }
    }
}

/* ---- single inputs ---------------------------------------------------------------------------------- */

static void special_values(void **state) {
    (void)state;
    for (size_t k = 0; k < subject_count(); k++) {
        const subject s = subject_at(k);
        const mlxn_op_info *op = mlxn_op_find(s.op);
        assert_non_null(op);
        assert_true(op->special_count > 0);
        for (size_t i = 0; i < op->special_count; i++) {
            check_one(&s, op->special[i].in[0], op->special[i].out[0]);
            check_quick(&s, "f32", s.f32, s.f32_quick, half_float(op->special[i].in[0]));
        }
    }
}

static void load_hard(const char *path, uint32_t *bits) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, NPY_HEADER, SEEK_SET), 0);
    assert_int_equal(fread(bits, sizeof *bits, EXP_HARD, file), EXP_HARD);
    fclose(file);
}

/* The inputs whose results lie nearest to where the rounding changes; among them all that a polynomial of one degree less
 * gets wrong. */
static void hardest_of_exp(void **state) {
    (void)state;
    static uint32_t inputs[EXP_HARD], expected[EXP_HARD];
    load_hard("tests/data/exp_f32_hard_x.npy", inputs);
    load_hard("tests/data/exp_f32_hard_y.npy", expected);
    for (size_t k = 0; k < subject_count(); k += 2) {
        const subject s = subject_at(k);
        for (size_t i = 0; i < EXP_HARD; i++) {
            check_one(&s, inputs[i], expected[i]);
            check_quick(&s, "f32", s.f32, s.f32_quick, half_float(inputs[i]));
        }
    }
}

/* Inputs whose logarithm is within 2^-51 of itself of where the rounding changes, and such for which log's quick way
 * would round to the wrong side if it did not ask the slow one. */
static const uint32_t log_hard[] = {
    /* the hardest: the nearest of all is 0x65d890d3, by 2^-57.8 */
    0x0dc8bba4u, 0x1a8446cbu, 0x1f116ab8u, 0x2c4c24b7u, 0x38dcbe38u, 0x3bf86ef0u, 0x3c413d3au, 0x41178febu, 0x4665a9a6u,
    0x4c5d65a5u, 0x4d604ebeu, 0x5ee8984eu, 0x65d890d3u, 0x66a8c860u, 0x6f31a8ecu, 0x79e7ec37u,
    /* with f64, all */
    0x38dcbe38u, 0x3e2b3421u, 0x3f3a7b7fu, 0x3f7ffffeu, 0x3fcaf728u, 0x3fd364d7u, 0x3fdc4750u, 0x65d890d3u, 0x66a8c860u,
    /* without f64, one of 139 */
    0x0468abaeu, 0x0d087da9u, 0x14045983u, 0x193bbe28u, 0x2159e375u, 0x28c28bdcu, 0x2e80c6a9u, 0x351a7201u, 0x3a0a9eefu,
    0x3d02ff91u, 0x3ebc389bu, 0x3f36bdd1u, 0x3fab1fa3u, 0x401fe240u, 0x41aab6bfu, 0x45046ec3u, 0x4a3bf966u, 0x51313c65u,
    0x5631d025u, 0x5f4d7385u, 0x65a70ee4u, 0x6c23b062u, 0x72e1d71eu, 0x7b062d89u};

static void hardest_of_log(void **state) {
    (void)state;
    const truth_op *truth = truth_of("log");
    for (size_t k = 1; k < subject_count(); k += 2) {
        const subject s = subject_at(k);
        for (size_t i = 0; i < sizeof log_hard / sizeof *log_hard; i++) {
            check_one(&s, log_hard[i], truth_result(truth, TRUTH_MPFR, MLXN_F32, log_hard[i]));
            check_quick(&s, "f32", s.f32, s.f32_quick, half_float(log_hard[i]));
        }
    }
}

/* log's routine in integers, which the quick way asks so rarely that blocks say little about it. */
static void log_in_integers(void **state) {
    (void)state;
    const uint64_t seed = test_seed((uint64_t)time(NULL));
    uint64_t random = seed;
    const truth_op *truth = truth_of("log");
    for (int i = 0; i < (test_is_slow_here() ? 20000 : 200000); i++) {
        /* Anything from the smallest subnormal to the largest number; near 1; and with leading zeros. */
        uint32_t input = 1 + (uint32_t)(random_next(&random) % 0x7f7fffff);
        if (i % 3 == 1)
            input = 0x3f800000u + (uint32_t)((int32_t)random_between(&random, -0x20000, 0x20000) / (1 << i % 16));
        if (i % 3 == 2)
            input = (input >> i % 24) + 1;
        const uint32_t expected = truth_result(truth, TRUTH_QUICK, MLXN_F32, input);
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
            const uint32_t result = half_bits(texts[t]->log_exact(input));
            if (result != expected)
                test_fail(seed, "log_exact %s: 0x%08x gives 0x%08x, expected 0x%08x", texts[t]->way, input, result,
                          expected);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_values),   cmocka_unit_test(hardest_of_exp),      cmocka_unit_test(hardest_of_log),
        cmocka_unit_test(log_in_integers),  cmocka_unit_test(every_half),          cmocka_unit_test(f32_blocks),
        cmocka_unit_test(quick_where_sure), cmocka_unit_test(quick_of_every_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
