/* The unary ops give the right bits for every input: all of f16 and bf16, and of f32 the hardest ones and random
 * blocks, or all 2^32 with MLXN_TEST_EXHAUSTIVE=1. On every instruction set, or on the device under test. */
#include "elementary/digests.h"
#include "support/random.h"
#include "support/test.h"

#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { HARD = 12408, NPY_HEADER = 128, BLOCKS = 4 };

/* How many ways to run there are, and what the i-th is called: instruction sets of the CPU, or the one other device. */
static size_t way_count(void) {
    return test_on_cpu() ? test_isa_count : 1;
}

static const char *way_at(size_t i) {
    return test_on_cpu() ? test_isas[i] : test_device_name();
}

static mlxn_device *open_way(const char *way) {
    return test_on_cpu() ? test_device_isa(way, 0) : test_device(0);
}

typedef struct unary {
    mlxn_device *device;
    mlxn_encoder *encoder;
    mlxn_buffer *x, *y;
} unary;

static void open_unary(unary *u, const char *way, mlxn_dtype dtype, int64_t count) {
    u->device = open_way(way);
    assert_non_null(u->device);
    u->encoder = test_encoder(u->device);
    u->x = test_vector(u->device, dtype, count);
    u->y = test_vector(u->device, dtype, count);
}

static void close_unary(unary *u) {
    mlxn_buffer_destroy(u->x);
    mlxn_buffer_destroy(u->y);
    mlxn_encoder_destroy(u->encoder);
    mlxn_device_destroy(u->device);
}

static void run_unary(unary *u, const char *op) {
    mlxn_buffer *const arguments[] = {u->x, u->y};
    OK(mlxn_encode(u->encoder, op, arguments, 2, MLXN_OVERWRITE));
    OK(mlxn_encoder_commit_and_wait(u->encoder));
    OK(mlxn_encoder_reset(u->encoder));
}

static void check_block(unary *u, const mlxn_digest_table *table, uint64_t block, const char *way, uint64_t seed) {
    void *inputs = malloc(mlxn_buffer_bytes(u->x));
    assert_non_null(inputs);
    for (uint64_t i = 0; i < table->block; i++) {
        if (table->dtype == MLXN_F32)
            ((uint32_t *)inputs)[i] = (uint32_t)(block * table->block + i);
        else
            ((uint16_t *)inputs)[i] = (uint16_t)i;
    }
    test_write(u->x, inputs);
    free(inputs);
    run_unary(u, table->op);
    void *results = test_contents(u->y);
    const XXH128_hash_t digest = XXH3_128bits(results, mlxn_buffer_bytes(u->y));
    free(results);
    if (digest.high64 != table->digests[block].high || digest.low64 != table->digests[block].low)
        test_fail(seed, "%s_%s on %s: a result for an input from 0x%08llx on is wrong", table->op,
                  mlxn_dtype_name(table->dtype), way, (unsigned long long)(block * table->block));
}

/* A block at random, but not one whose results are all alike: its digest would be its neighbour's. */
static uint64_t draw_block(const mlxn_digest_table *table, uint64_t *random) {
    for (;;) {
        const uint64_t block = 1 + random_next(random) % (table->count - 1);
        if (memcmp(&table->digests[block], &table->digests[block - 1], sizeof(mlxn_digest)) != 0)
            return block;
    }
}

static void check_table(const mlxn_digest_table *table, const char *way, uint64_t seed) {
    unary u;
    open_unary(&u, way, table->dtype, (int64_t)table->block);
    const bool all = getenv("MLXN_TEST_EXHAUSTIVE") != NULL || table->count == 1;
    const uint64_t blocks = all ? table->count : test_is_slow_here() ? 1 : BLOCKS;
    uint64_t random = seed;
    for (uint64_t i = 0; i < blocks; i++)
        check_block(&u, table, all ? i : draw_block(table, &random), way, seed);
    close_unary(&u);
}

static void right_for_every_input(void **state) {
    (void)state;
    const uint64_t seed = test_seed((uint64_t)time(NULL));
    printf("MLXN_TEST_DEVICE=%s MLXN_TEST_SEED=%llu\n", test_device_name(), (unsigned long long)seed);
    for (size_t way = 0; way < way_count(); way++)
        for (size_t i = 0; i < mlxn_digest_table_count; i++)
            if (test_wants_op(mlxn_digest_tables[i].op))
                check_table(&mlxn_digest_tables[i], way_at(way), seed);
}

static void load_hard(const char *path, uint32_t *bits) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, NPY_HEADER, SEEK_SET), 0);
    assert_int_equal(fread(bits, sizeof *bits, HARD, file), HARD);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

/* The inputs whose results lie nearest to where the rounding changes, standing at different places of a vector. */
static void right_for_the_hardest(void **state) {
    (void)state;
    static uint32_t inputs[HARD], expected[HARD], results[HARD];
    load_hard("tests/data/exp_f32_hard_x.npy", inputs);
    load_hard("tests/data/exp_f32_hard_y.npy", expected);
    for (size_t way = 0; way < way_count(); way++) {
        for (size_t start = 0; start < 3; start++) {
            unary u;
            const size_t count = HARD - start;
            open_unary(&u, way_at(way), MLXN_F32, (int64_t)count);
            OK(mlxn_buffer_write(u.x, 0, count * sizeof *inputs, inputs + start));
            run_unary(&u, "exp");
            OK(mlxn_buffer_read(u.y, 0, count * sizeof *results, results));
            for (size_t i = 0; i < count; i++)
                if (results[i] != expected[start + i])
                    fail_msg("exp_f32 on %s: 0x%08x gives 0x%08x, expected 0x%08x", way_at(way), inputs[start + i],
                             results[i], expected[start + i]);
            close_unary(&u);
        }
    }
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_for_every_input),
        cmocka_unit_test(right_for_the_hardest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
