/* digests.h is what MPFR says: random blocks are computed again. */
#include "elementary/digests.h"
#include "elementary/truth.h"
#include "support/random.h"
#include "support/test.h"

#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const mlxn_digest_table *table_of(const char *op, mlxn_dtype dtype) {
    for (size_t i = 0; i < mlxn_digest_table_count; i++)
        if (strcmp(mlxn_digest_tables[i].op, op) == 0 && mlxn_digest_tables[i].dtype == dtype)
            return &mlxn_digest_tables[i];
    fail_msg("digests.h lacks %s in %s: run elementary_generate", op, mlxn_dtype_name(dtype));
    return NULL;
}

static void check_block(const truth_op *op, truth_way way, mlxn_dtype dtype, uint64_t block, uint64_t seed) {
    const mlxn_digest_table *table = table_of(op->name, dtype);
    assert_int_equal(table->block, truth_block_size(dtype));
    assert_int_equal(table->count, truth_block_count(dtype));
    const size_t bytes = truth_block_size(dtype) * mlxn_dtype_size(dtype);
    void *results = malloc(bytes);
    assert_non_null(results);
    truth_block(op, way, dtype, block, results);
    const XXH128_hash_t digest = XXH3_128bits(results, bytes);
    free(results);
    const mlxn_digest shipped = table->digests[block];
    if (digest.high64 != shipped.high || digest.low64 != shipped.low)
        test_fail(seed, "%s in %s: block %llu differs from the shipped digest", op->name, mlxn_dtype_name(dtype),
                  (unsigned long long)block);
}

/* A block of f32 at random, but not one whose results are all alike: its digest would be its neighbour's. */
static uint64_t draw_block(const char *op, uint64_t *random) {
    const mlxn_digest_table *table = table_of(op, MLXN_F32);
    for (;;) {
        const uint64_t block = 1 + random_next(random) % (table->count - 1);
        if (memcmp(&table->digests[block], &table->digests[block - 1], sizeof(mlxn_digest)) != 0)
            return block;
    }
}

static void random_blocks(void **state) {
    (void)state;
    const uint64_t seed = test_seed((uint64_t)time(NULL));
    printf("MLXN_TEST_SEED=%llu\n", (unsigned long long)seed);
    uint64_t random = seed;
    for (size_t op = 0; op < truth_op_count; op++) {
        for (int i = 0; i < (test_is_slow_here() ? 0 : 4); i++)
            check_block(&truth_ops[op], TRUTH_QUICK, MLXN_F32, draw_block(truth_ops[op].name, &random), seed);
        check_block(&truth_ops[op], TRUTH_MPFR, MLXN_F32, draw_block(truth_ops[op].name, &random), seed);
    }
}

static void halves(void **state) {
    (void)state;
    for (size_t op = 0; op < truth_op_count; op++) {
        check_block(&truth_ops[op], TRUTH_MPFR, MLXN_F16, 0, 0);
        check_block(&truth_ops[op], TRUTH_MPFR, MLXN_BF16, 0, 0);
    }
}

/* The quick way gives what MPFR gives. */
static void ways_agree(void **state) {
    (void)state;
    const uint64_t seed = test_seed((uint64_t)time(NULL));
    uint64_t random = seed;
    for (size_t op = 0; op < truth_op_count; op++) {
        for (int i = 0; i < 200000; i++) {
            const uint32_t input = (uint32_t)random_next(&random);
            const uint32_t quick = truth_result(&truth_ops[op], TRUTH_QUICK, MLXN_F32, input);
            const uint32_t exact = truth_result(&truth_ops[op], TRUTH_MPFR, MLXN_F32, input);
            if (quick != exact)
                test_fail(seed, "%s of 0x%08x: quick 0x%08x, MPFR 0x%08x", truth_ops[op].name, input, quick, exact);
        }
    }
}

/* Results known from elsewhere. */
static void known_results(void **state) {
    (void)state;
    static const struct {
        const char *op;
        mlxn_dtype dtype;
        uint32_t input, result;
    } known[] = {
        {"exp", MLXN_F32, 0x3f800000, 0x402df854},  {"exp", MLXN_F32, 0xc2aeac4f, 0x00800026},
        {"exp", MLXN_F16, 0x1f79, 0x3c07},          {"exp", MLXN_F16, 0x3c00, 0x4170},
        {"log", MLXN_F32, 0x40000000, 0x3f317218},  {"log", MLXN_F32, 0x00000001, 0xc2ce8ed0},
        {"log", MLXN_BF16, 0x4000, 0x3f31},         {"sqrt", MLXN_F32, 0x40000000, 0x3fb504f3},
        {"sqrt", MLXN_F32, 0x80000000, 0x80000000}, {"sqrt", MLXN_F16, 0xbc00, 0x7e00},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t op = 0; op < truth_op_count; op++)
            if (strcmp(truth_ops[op].name, known[i].op) == 0)
                assert_int_equal(truth_result(&truth_ops[op], TRUTH_MPFR, known[i].dtype, known[i].input),
                                 known[i].result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_blocks),
        cmocka_unit_test(halves),
        cmocka_unit_test(ways_agree),
        cmocka_unit_test(known_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
