/* The same bits everywhere: every instruction set of the machine, 1, 2, 3 and 7 threads, or another device beside the
 * CPU; large outputs that take streaming stores; and the digests in digests.inc, which hold on every architecture and
 * device. */
#include "support/op_case.h"
#include "support/random.h"

static const mlxn_dtype DTYPES[] = {MLXN_F32, MLXN_F16, MLXN_BF16};
static const size_t THREADS[] = {1, 2, 3, 7};
enum { THREAD_COUNTS = sizeof THREADS / sizeof THREADS[0] };

/* FNV-1a over 64 bits. */
static uint64_t digest(uint64_t hash, const void *data, size_t size) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}
static const uint64_t DIGEST_START = UINT64_C(0xcbf29ce484222325);

/* The shapes every op is run at; elementwise ops take all extents' product. */
static const int64_t SHAPES[][3] = {{1, 1, 1},     {1, 7, 5},     {3, 33, 17},   {1, 65, 1030},
                                    {1, 1030, 65}, {40, 8, 8},    {1, 4, 9001},  {1, 9001, 4},
                                    {2, 100, 500}, {1, 1, 40000}, {1, 40000, 1}, {1, 400, 600}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

static op_case case_of(const mlxn_op_info *op, mlxn_dtype dtype, size_t shape) {
    const int64_t *s = SHAPES[shape];
    op_case c = {.op = op,
                 .dtype = dtype,
                 .mode = op->accumulates && shape % 2 ? MLXN_ACCUMULATE : MLXN_OVERWRITE,
                 .values = op->elementwise ? OP_VALUES_BITS : OP_VALUES_UNIT,
                 .lead_rank = 1,
                 .lead = {s[0]},
                 .n = s[1],
                 .m = s[2],
                 .seed = 1000 + shape};
    if (op->elementwise) {
        c.lead[0] = s[0] * s[1] * s[2];
        c.n = c.m = 1;
    }
    return c;
}

/* Compares every device with the first. Gives the digest of the
 * outputs on top of `hash`. */
static uint64_t compare_with_first(mlxn_device *const *devices, size_t count, const op_case *c, uint64_t hash) {
    size_t bytes;
    op_arrays a = op_arrays_draw(c);
    char *first = op_case_outputs(devices[0], c, &a, &bytes);
    for (size_t d = 1; d < count; d++) {
        char *other = op_case_outputs(devices[d], c, &a, &bytes);
        for (size_t i = 0; i < bytes; i++)
            if (first[i] != other[i]) {
                mlxn_device_info one = {.size = sizeof one}, two = {.size = sizeof two};
                OK(mlxn_device_get_info(devices[0], &one));
                OK(mlxn_device_get_info(devices[d], &two));
                test_fail(c->seed, "%s: byte %zu of the outputs differs between %s \"%s\" and %s \"%s\"",
                          op_case_text(c), i, one.name, one.detail, two.name, two.detail);
            }
        free(other);
    }
    hash = digest(hash, first, bytes);
    free(first);
    op_arrays_destroy(&a);
    return hash;
}

/* Digests of the results of every shape, equal on every machine; MLXN_TEST_PRINT=1 prints them in the file's form. */
static const struct {
    const char *kernel;
    uint64_t digest;
} KNOWN[] = {
#include "digests.inc"
};
enum { KNOWN_COUNT = sizeof KNOWN / sizeof KNOWN[0] };

/* True if the file has a line for the kernel. An op that was just added has none yet. */
static bool check_digest(const char *kernel, uint64_t hash) {
    if (getenv("MLXN_TEST_PRINT") != NULL)
        printf("{\"%s\", UINT64_C(0x%016llx)},\n", kernel, (unsigned long long)hash);
    for (size_t k = 0; k < KNOWN_COUNT; k++) {
        if (strcmp(KNOWN[k].kernel, kernel) != 0)
            continue;
        if (KNOWN[k].digest != hash)
            fail_msg("%s: digest 0x%016llx, expected 0x%016llx", kernel, (unsigned long long)hash,
                     (unsigned long long)KNOWN[k].digest);
        return true;
    }
    print_message("no digest of %s in digests.inc: 0x%016llx\n", kernel, (unsigned long long)hash);
    return false;
}

/* Every way to run on the CPU, the plainest first; or the device under test and the CPU at its plainest. */
static size_t open_all(mlxn_device *devices[3 * THREAD_COUNTS]) {
    size_t count = 0;
    if (!test_on_cpu()) {
        devices[count++] = test_device(0);
        devices[count++] = test_device_isa(test_isas[0], 1);
        return count;
    }
    for (size_t i = 0; i < test_isa_count; i++)
        for (size_t t = 0; t < THREAD_COUNTS; t++)
            devices[count++] = test_device_isa(test_isas[i], THREADS[t]);
    return count;
}

static void devices_and_digests(void **state) {
    (void)state;
    mlxn_device *devices[3 * THREAD_COUNTS];
    size_t known = 0, wanted = 0;
    const size_t count = open_all(devices);
    for (size_t i = 0; i < mlxn_op_count(); i++)
        for (size_t d = 0; d < 3; d++) {
            if (!test_wants_op(mlxn_op_at(i)->name))
                continue;
            uint64_t hash = DIGEST_START;
            for (size_t s = 0; s < SHAPE_COUNT; s++) {
                const op_case c = case_of(mlxn_op_at(i), DTYPES[d], s);
                const bool large = SHAPES[s][0] * SHAPES[s][1] * SHAPES[s][2] > 100000;
                hash = compare_with_first(devices, large && test_is_slow_here() && test_on_cpu() ? 2 : count, &c, hash);
            }
            char kernel[64];
            snprintf(kernel, sizeof kernel, "%s_%s", mlxn_op_at(i)->name, mlxn_dtype_name(DTYPES[d]));
            known += check_digest(kernel, hash);
            wanted++;
        }
    for (size_t i = 0; i < count; i++)
        mlxn_device_destroy(devices[i]);
    /* Every line of the file was used: a digest of an op that is gone proves nothing. */
    if (getenv("MLXN_TEST_OP") == NULL)
        assert_int_equal(known, KNOWN_COUNT);
    assert_true(wanted > 0);
}

/* What differs between two instruction sets must be told apart at all: else the test above compares nothing. */
static void the_cap_is_obeyed(void **state) {
    (void)state;
    if (!test_on_cpu())
        skip();
    mlxn_device_info low = {.size = sizeof low}, high = {.size = sizeof high};
    mlxn_device *capped = test_device_isa(test_isas[0], 1), *free_choice = test_device(1);
    OK(mlxn_device_get_info(capped, &low));
    OK(mlxn_device_get_info(free_choice, &high));
    if (strstr(low.detail, test_isas[0]) == NULL)
        fail_msg("capped at %s: \"%s\"", test_isas[0], low.detail);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        assert_string_not_equal(low.detail, high.detail);
#endif
    mlxn_device_destroy(capped);
    mlxn_device_destroy(free_choice);
}

/* Outputs of 64 MB, beyond the last-level cache of most machines, against the same work in pieces that fit in it. */
static void streaming_stores(void **state) {
    (void)state;
    if (test_is_slow_here())
        skip();
    const int64_t rows = 4096, columns = 4096;
    mlxn_device *device = test_device(0);
    mlxn_buffer *x = test_vector(device, MLXN_F32, rows), *y = test_vector(device, MLXN_F32, columns);
    mlxn_buffer *whole = test_matrix(device, MLXN_F32, rows, columns),
                *exps = test_matrix(device, MLXN_F32, rows, columns);
    mlxn_buffer *piece = test_matrix(device, MLXN_F32, 16, columns),
                *piece_exp = test_matrix(device, MLXN_F32, 16, columns);
    static float values[2][4096];
    uint64_t seed = 4;
    for (int64_t i = 0; i < rows; i++)
        values[0][i] = 8 * random_unit(&seed);
    for (int64_t i = 0; i < columns; i++)
        values[1][i] = 8 * random_unit(&seed);
    test_write(x, values[0]);
    test_write(y, values[1]);
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_outer_product(encoder, x, y, whole);
    mlxn_exp(encoder, whole, exps);
    OK(mlxn_encoder_commit_and_wait(encoder));
    char *all = test_contents(whole), *all_exp = test_contents(exps);
    const size_t bytes = mlxn_buffer_bytes(piece);
    for (int64_t i = 0; i < rows / 16; i++) {
        mlxn_buffer *view;
        OK(mlxn_buffer_view(x, 16 * i, 1, (const int64_t[]){16}, &view));
        OK(mlxn_encoder_reset(encoder));
        mlxn_outer_product(encoder, view, y, piece);
        mlxn_exp(encoder, piece, piece_exp);
        OK(mlxn_encoder_commit_and_wait(encoder));
        char *part = test_contents(piece), *part_exp = test_contents(piece_exp);
        assert_memory_equal(all + (size_t)i * bytes, part, bytes);
        assert_memory_equal(all_exp + (size_t)i * bytes, part_exp, bytes);
        free(part);
        free(part_exp);
        mlxn_buffer_destroy(view);
    }
    free(all);
    free(all_exp);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer *const all_buffers[] = {x, y, whole, exps, piece, piece_exp};
    for (size_t i = 0; i < 6; i++)
        mlxn_buffer_destroy(all_buffers[i]);
    mlxn_device_destroy(device);
}

/* An item of a batch has the bits it has alone. */
static void batches(void **state) {
    (void)state;
    mlxn_device *device = test_device(0);
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (op->elementwise || !test_wants_op(op->name))
            continue;
        const op_case c = {.op = op, .dtype = MLXN_F32, .lead_rank = 1, .lead = {5}, .n = 70, .m = 1100, .seed = 8};
        size_t bytes;
        const size_t arguments = op_case_arguments(&c);
        mlxn_buffer *all[MLXN_MAX_ARGUMENTS];
        op_arrays a = op_arrays_create(&c);
        for (size_t k = 0; k < arguments; k++) {
            int64_t shape[MLXN_MAX_RANK];
            const size_t rank = op_case_shape(&c, k, shape);
            all[k] = test_buffer(device, MLXN_F32, rank, shape);
            test_write(all[k], a.array[k]);
        }
        char *together = op_case_outputs(device, &c, &a, &bytes);
        mlxn_encoder *encoder = test_encoder(device);
        for (int64_t item = 0; item < 5; item++) {
            mlxn_buffer *one[MLXN_MAX_ARGUMENTS];
            for (size_t k = 0; k < arguments; k++) {
                const size_t rank = mlxn_buffer_rank(all[k]) - 1;
                const int64_t *shape = mlxn_buffer_shape(all[k]) + 1;
                OK(mlxn_buffer_view(all[k], item * (mlxn_buffer_count(all[k]) / 5), rank, shape, &one[k]));
            }
            OK(mlxn_encode(encoder, op->name, one, arguments, MLXN_OVERWRITE));
            for (size_t k = 0; k < arguments; k++)
                mlxn_buffer_destroy(one[k]);
        }
        OK(mlxn_encoder_commit_and_wait(encoder));
        mlxn_encoder_destroy(encoder);
        const char *at = together;
        for (size_t k = 0; k < arguments; k++) {
            if (k >= op->input_count) {
                void *data = test_contents(all[k]);
                assert_memory_equal(at, data, mlxn_buffer_bytes(all[k]));
                at += mlxn_buffer_bytes(all[k]);
                free(data);
            }
            mlxn_buffer_destroy(all[k]);
        }
        free(together);
        op_arrays_destroy(&a);
    }
    mlxn_device_destroy(device);
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cap_is_obeyed),
        cmocka_unit_test(devices_and_digests),
        cmocka_unit_test(streaming_stores),
        cmocka_unit_test(batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
