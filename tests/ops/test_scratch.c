/* What ops take of a graphics processor's memory beside their arguments: partial sums, of at most a 64th of dy, where it
 * is not less than 1 MiB. Counted on a device without memory. */
#include "support/op_case.h"
#include "support/planning.h"
#include "support/random.h"

/* The scratch memory that recording the op takes. */
static size_t scratch_of(mlxn_device *device, const op_case *c, size_t *first_bytes) {
    mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
    const size_t count = op_case_arguments(c);
    for (size_t k = 0; k < count; k++) {
        int64_t shape[MLXN_MAX_RANK];
        const size_t rank = op_case_shape(c, k, shape);
        buffers[k] = test_buffer(device, c->dtype, rank, shape);
    }
    *first_bytes = mlxn_buffer_bytes(buffers[0]);
    const size_t before = planning_live_bytes();
    mlxn_encoder *encoder = test_encoder(device);
    if (mlxn_encode(encoder, c->op->name, buffers, count, c->mode) != MLXN_OK)
        fail_msg("%s: %s", op_case_text(c), mlxn_last_error());
    OK(mlxn_encoder_commit(encoder));
    const size_t taken = planning_live_bytes() - before;
    mlxn_encoder_destroy(encoder);
    assert_int_equal(planning_live_bytes(), before);
    for (size_t k = 0; k < count; k++)
        mlxn_buffer_destroy(buffers[k]);
    return taken;
}

/* A 64th of dy, or just below 1 MiB. */
static size_t limit_of(size_t dy_bytes) {
    return dy_bytes / 64 < 1 << 20 ? (1 << 20) - 1 : dy_bytes / 64;
}

static size_t with_scratch;

static void check_shape(mlxn_device *device, int64_t batch, int64_t n, int64_t m) {
    for (size_t i = 0; i < mlxn_op_count(); i++)
        for (int dtype = 0; dtype < 3; dtype++) {
            const mlxn_op_info *op = mlxn_op_at(i);
            const op_case c = {.op = op, .dtype = (mlxn_dtype)dtype, .lead_rank = 1, .lead = {batch}, .n = n, .m = m};
            if (op->elementwise || !test_wants_op(op->name))
                continue;
            size_t dy_bytes;
            const size_t taken = scratch_of(device, &c, &dy_bytes);
            with_scratch += taken > 0;
            if (taken > (op->forward == NULL ? 0 : limit_of(dy_bytes)))
                fail_msg("%s takes %zu bytes beside its arguments, 1/%.1f of dy", op_case_text(&c), taken,
                         (double)dy_bytes / (double)taken);
        }
}

static void partial_sums_are_few(void **state) {
    (void)state;
    static const int64_t extents[] = {1,
                                      2,
                                      3,
                                      4,
                                      5,
                                      8,
                                      13,
                                      16,
                                      31,
                                      32,
                                      33,
                                      64,
                                      65,
                                      100,
                                      127,
                                      128,
                                      129,
                                      255,
                                      256,
                                      257,
                                      512,
                                      1000,
                                      1023,
                                      1024,
                                      1025,
                                      2047,
                                      2049,
                                      4096,
                                      4097,
                                      9999,
                                      16384,
                                      65536,
                                      65537,
                                      1 << 20,
                                      (1 << 20) + 1,
                                      1 << 26,
                                      (1 << 26) + 33,
                                      1 << 28},
                         batches[] = {1, 2, 7, 64, 1000, 65536};
    const int64_t most = INT64_C(1) << 34;
    uint64_t random = test_seed(5);
    mlxn_device *device = planning_open(48 << 10);
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
            for (size_t j = 0; j < sizeof extents / sizeof *extents; j++)
                if (extents[i] <= most / batches[b] / extents[j])
                    check_shape(device, batches[b], extents[i], extents[j]);
    for (int i = 0; i < 3000; i++) {
        const int64_t n = random_between(&random, 1, INT64_C(1) << random_between(&random, 0, 24));
        const int64_t m = random_between(&random, 1, INT64_C(1) << random_between(&random, 0, 24));
        const int64_t batch = random_between(&random, 1, INT64_C(1) << random_between(&random, 0, 16));
        if (n <= most / batch / m)
            check_shape(device, batch, n, m);
    }
    planning_close(device);
    assert_true(with_scratch > 1000);
}

/* Ops behind each other share it: a list of many takes no more than one of two. */
static void lists_share_scratch(void **state) {
    (void)state;
    mlxn_device *device = planning_open(48 << 10);
    enum { N = 4096, M = 2048, OPS = 50, PLACES = 3 };
    mlxn_buffer *dy = test_matrix(device, MLXN_F32, N, M), *lhs = test_vector(device, MLXN_F32, N),
                *rhs = test_vector(device, MLXN_F32, M), *dlhs[PLACES], *drhs[PLACES];
    for (size_t i = 0; i < PLACES; i++) {
        dlhs[i] = test_vector(device, MLXN_F32, N);
        drhs[i] = test_vector(device, MLXN_F32, M);
    }
    /* Into the same gradients, and into others than the op before. */
    for (size_t places = 1; places <= PLACES; places++) {
        mlxn_encoder *encoder = test_encoder(device);
        const size_t before = planning_live_bytes();
        size_t of_two = 0;
        for (size_t again = 0; again < 2; again++) {
            for (size_t i = 0; i < OPS; i++) {
                mlxn_outer_product_backward(encoder, dy, lhs, rhs, dlhs[i % places], drhs[i % places], MLXN_OVERWRITE);
                assert_string_equal(mlxn_encoder_message(encoder), "");
                if (i == 1 && again == 0)
                    of_two = planning_live_bytes() - before;
            }
            assert_true(of_two > 0);
            assert_int_equal(planning_live_bytes() - before, of_two);
            OK(mlxn_encoder_reset(encoder));
        }
        mlxn_encoder_destroy(encoder);
        assert_int_equal(planning_live_bytes(), before);
    }
    for (size_t i = 0; i < PLACES; i++) {
        mlxn_buffer_destroy(dlhs[i]);
        mlxn_buffer_destroy(drhs[i]);
    }
    mlxn_buffer *const all[] = {dy, lhs, rhs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mlxn_buffer_destroy(all[i]);
    planning_close(device);
}

/* A device may have less local memory than a kernel takes. */
static void too_little_local_memory(void **state) {
    (void)state;
    mlxn_device *device = planning_open(16 << 10);
    static const int64_t columns[] = {3, 40, 200, 2000};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        mlxn_buffer *dy = test_matrix(device, MLXN_F32, 100, columns[i]), *lhs = test_vector(device, MLXN_F32, 100),
                    *drhs = test_vector(device, MLXN_F32, columns[i]);
        mlxn_encoder *encoder = test_encoder(device);
        FAILS_WITH(MLXN_UNSUPPORTED, "bytes of local memory, the device has 16384",
                   mlxn_outer_product_backward_rhs(encoder, dy, lhs, drhs, MLXN_OVERWRITE));
        mlxn_encoder_destroy(encoder);
        mlxn_buffer_destroy(dy);
        mlxn_buffer_destroy(lhs);
        mlxn_buffer_destroy(drhs);
    }
    planning_close(device);
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_sums_are_few),
        cmocka_unit_test(lists_share_scratch),
        cmocka_unit_test(too_little_local_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
