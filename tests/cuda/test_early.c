/* The library's own kernels start while the one before them in the list ends, where the device can do that; a user's
 * kernel, which does not wait by itself, never does. The fake driver complains if one of those is started early, or any on
 * a device that is too old. */
#include "backend/cuda/driver.h"
#include "core/encoder.h"
#include "cuda_test.h"

static mlxn_device *device;
static mlxn_encoder *encoder;
static mlxn_buffer *x, *y, *z;

static void open_all(void) {
    device = cuda_device();
    encoder = test_encoder(device);
    x = test_vector(device, MLXN_F32, 64);
    y = test_vector(device, MLXN_F32, 64);
    z = test_vector(device, MLXN_F32, 64);
}

static void close_all(void) {
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
    mlxn_buffer_destroy(z);
    mlxn_device_destroy(device);
}

/* x = 2 x + 1 of the library's, as a dispatch that moves 4 MiB: with as many groups. */
static void record_large(uint64_t groups) {
    const mlxn_slice slice = mlxn_slice_of(x, MLXN_READ_WRITE);
    const fake_constants constants = {1, 64};
    OK(mlxn_encoder_record(encoder, &(mlxn_recording){.kernel = "own_twice",
                                                      .slices = &slice,
                                                      .slice_count = 1,
                                                      .constants = &constants,
                                                      .constant_bytes = sizeof constants,
                                                      .grid = {groups, 1, 1},
                                                      .group = {64, 1, 1},
                                                      .cost = 4 << 20}));
}

/* One letter a kernel, a wave of its own: o, the library's x = 2 x + 1; u, a user's; l, the library's that moves much, in
 * fewer than 64 groups for each of the 132 multiprocessors; m, in as many. A wave of two: p, y = x + 1 of the
 * library's and z = x + 1 of a user's, after which j joins: x = y + z, the library's. */
static float record(const char *list) {
    float result = 0, sides = 0;
    for (; *list != '\0'; list++) {
        if (*list == 'p') {
            cuda_record(encoder, "own_add", (mlxn_buffer *[]){x, y}, 2, 1);
            cuda_record(encoder, "add", (mlxn_buffer *[]){x, z}, 2, 1);
            sides = result + 1;
        } else if (*list == 'j') {
            cuda_record(encoder, "own_sum", (mlxn_buffer *[]){y, z, x}, 3, 0);
            result = 2 * sides;
        } else if (*list == 'l' || *list == 'm') {
            record_large(64 * 132 - (*list == 'l'));
            result = 2 * result + 1;
        } else {
            cuda_record(encoder, *list == 'o' ? "own_twice" : "twice", &x, 1, 1);
            result = 2 * result + 1;
        }
    }
    return result;
}

static long calls(fake_function function) {
    static long seen[FAKE_FUNCTIONS];
    const long more = fake.calls[function] - seen[function];
    seen[function] = fake.calls[function];
    return more;
}

static void set_to_zero(mlxn_buffer *buffer) {
    static const float zeros[64];
    OK(mlxn_buffer_write(buffer, 0, sizeof zeros, zeros));
}

/* Commits once more, with x at 0: the result must be right, after so many launches and edges of either kind. */
static void commit(float expected, long early_launches, long launches, long edges, long nodes) {
    set_to_zero(x);
    calls(FAKE_LaunchKernelEx), calls(FAKE_LaunchKernel);
    calls(FAKE_GraphAddDependencies), calls(FAKE_GraphAddKernelNode);
    OK(mlxn_encoder_commit_and_wait(encoder));
    cuda_expect(x, expected);
    assert_int_equal(calls(FAKE_LaunchKernelEx), early_launches);
    assert_int_equal(calls(FAKE_LaunchKernel), launches);
    assert_int_equal(calls(FAKE_GraphAddDependencies), edges);
    assert_int_equal(calls(FAKE_GraphAddKernelNode), nodes);
}

/* A list's first commit launches it, the second makes a graph. */
static void once(const char *list, long early_launches, long launches, long edges, long nodes) {
    OK(mlxn_encoder_reset(encoder));
    const float expected = record(list);
    commit(expected, early_launches, launches, 0, 0);
    commit(expected, 0, 0, edges, nodes);
    commit(expected, 0, 0, 0, 0);
}

static void test_which_start_early(void **state) {
    (void)state;
    open_all();
    once("ooooo", 5, 0, 4, 5);
    once("uoooo", 4, 1, 4, 5); /* a user's in front will do */
    once("oouoo", 4, 1, 3, 5); /* a user's behind does not */
    once("uuuuu", 0, 5, 0, 5);
    once("oopjo", 5, 1, 2, 6); /* in a graph, neither of a wave of two, nor what is behind it */
    once("pjooo", 5, 1, 3, 6);
    once("ooooll", 4, 2, 3, 6); /* few groups that move much do not, */
    once("loooo", 4, 1, 4, 5);  /* though what is behind them may, */
    once("ommmm", 5, 0, 4, 5);  /* and many do */
    close_all();
}

/* The first of a list starts early where its stream is known to have nothing to do: neither work of its own nor to wait
 * for another's. */
static void test_first(void **state) {
    (void)state;
    open_all();
    mlxn_encoder *other = test_encoder(device);
    cuda_record(encoder, "own_twice", &x, 1, 1);
    cuda_record(other, "own_add", (mlxn_buffer *[]){x, y}, 2, 1);
    set_to_zero(x);
    calls(FAKE_LaunchKernelEx), calls(FAKE_LaunchKernel);
    OK(mlxn_encoder_commit(encoder));
    assert_int_equal(calls(FAKE_LaunchKernelEx), 1);
    OK(mlxn_encoder_commit(encoder));
    assert_int_equal(calls(FAKE_LaunchKernelEx), 0); /* it is not known whether that is done */
    assert_int_equal(calls(FAKE_LaunchKernel), 1);
    OK(mlxn_encoder_commit(other));
    assert_int_equal(calls(FAKE_LaunchKernelEx), 0);
    assert_int_equal(calls(FAKE_LaunchKernel), 1);
    OK(mlxn_encoder_wait(other));
    cuda_expect(y, 4);
    OK(mlxn_encoder_commit_and_wait(encoder));
    cuda_expect(x, 7);
    assert_int_equal(calls(FAKE_LaunchKernel), 1); /* only the other was waited for */
    OK(mlxn_encoder_commit_and_wait(encoder));
    assert_int_equal(calls(FAKE_LaunchKernelEx), 1);
    cuda_expect(x, 15);
    mlxn_encoder_destroy(other);
    close_all();
}

/* Where it is the device, the compiler or the driver that is too old, all is as it was. */
static void test_old(void **state) {
    (void)state;
    fake.capability = fake.newest = 80;
    open_all();
    once("ooopj", 0, 6, 0, 6);
    close_all();
    fake.capability = 90; /* compiled for 8.0, a kernel does not wait */
    open_all();
    once("ooopj", 0, 6, 0, 6);
    close_all();
    fake.newest = 90;

    mlxn_cuda_driver all = mlxn_cuda;
    mlxn_cuda.LaunchKernelEx = NULL;
    open_all();
    once("ooooo", 0, 5, 4, 5);
    close_all();
    mlxn_cuda = all;
    mlxn_cuda.GraphAddDependencies = NULL;
    open_all();
    once("ooooo", 5, 0, 0, 5);
    close_all();
    mlxn_cuda = all;
}

/* A device that is newer than the compiler gets PTX, and that waits. */
static void test_new(void **state) {
    (void)state;
    fake.capability = 100;
    open_all();
    once("ooooo", 5, 0, 4, 5);
    close_all();
}

/* What the driver refuses once is not asked for again. */
static void test_refused(void **state) {
    (void)state;
    fake.no_early = true;
    open_all();
    once("ooooo", 1, 5, 1, 2 + 5); /* the graph is begun, and made anew */
    once("ooooo", 0, 5, 0, 5);
    close_all();
    fake.no_early = false;
    fake.no_early_graphs = true;
    open_all();
    once("ooooo", 5, 0, 4, 10);
    once("ooooo", 5, 0, 0, 5);
    close_all();
}

/* Where graphs are not to be had at all, early edges are not what is to blame. */
static void test_no_graphs(void **state) {
    (void)state;
    open_all();
    fake.no_graphs = true;
    const float expected = record("ooooo");
    commit(expected, 5, 0, 0, 0);
    commit(expected, 5, 0, 4, 10);
    fake.no_graphs = false;
    once("ooooo", 5, 0, 4, 5);
    close_all();
}

/* Times are those of kernels that run one at a time. */
static void test_timed(void **state) {
    (void)state;
    open_all();
    mlxn_encoder_destroy(encoder);
    OK(mlxn_encoder_create(device, &(mlxn_encoder_options){.size = sizeof(mlxn_encoder_options), .timing = true},
                           &encoder));
    const float expected = record("ooooo");
    commit(expected, 0, 0, 0, 5);
    OK(mlxn_encoder_reset(encoder));
    fake.no_graphs = true;
    record("ooooo");
    commit(expected, 0, 5, 0, 5);
    close_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_which_start_early, cuda_teardown),
        cmocka_unit_test_teardown(test_first, cuda_teardown),
        cmocka_unit_test_teardown(test_old, cuda_teardown),
        cmocka_unit_test_teardown(test_new, cuda_teardown),
        cmocka_unit_test_teardown(test_refused, cuda_teardown),
        cmocka_unit_test_teardown(test_no_graphs, cuda_teardown),
        cmocka_unit_test_teardown(test_timed, cuda_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
