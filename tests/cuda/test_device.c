/* The CUDA device on the fake driver: listing, memory, copies, kernels, errors, fork. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cuda/state.h"
#include "cuda_test.h"
#include "support/allocation.h"
#include "support/environment.h"

static mlxn_device *device;
static mlxn_encoder *encoder;
static mlxn_buffer *x, *y;

static int setup(void **state) {
    (void)state;
    device = cuda_device();
    encoder = test_encoder(device);
    x = test_vector(device, MLXN_F32, 64);
    y = test_vector(device, MLXN_F32, 64);
    return 0;
}

static void close_all(void) {
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
    mlxn_device_destroy(device);
}

static int teardown(void **state) {
    close_all();
    return cuda_teardown(state);
}

/* ---- the list of devices: each case in a process of its own, since a driver is loaded once ---- */

static void find_cuda(mlxn_device_info *info) {
    for (size_t i = 0; i < mlxn_device_count(); i++) {
        *info = (mlxn_device_info){.size = sizeof *info};
        OK(mlxn_device_at(i, info));
        if (strncmp(info->name, "cuda", 4) == 0)
            return;
    }
    fail();
}

static void in_child(void (*check)(void)) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        check();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void expect_reason(const char *name, const char *reason) {
    mlxn_device_info info;
    find_cuda(&info);
    mlxn_device *opened;
    const bool right = !info.available && strcmp(info.name, name) == 0 && strcmp(info.reason, reason) == 0 &&
                       mlxn_device_open(name, NULL, &opened) == MLXN_NOT_FOUND && opened == NULL &&
                       strstr(mlxn_last_error(), reason) != NULL;
    if (!right) {
        fprintf(stderr, "%s: \"%s\"\n", info.name, info.reason);
        _exit(1);
    }
}

static void check_absent(void) {
    fake.absent = true;
    expect_reason("cuda", "no CUDA driver (libcuda.so.1 not found)");
}

static void check_no_device(void) {
    fake.init_result = 100;
    expect_reason("cuda", "cuInit: no CUDA-capable device is detected");
}

static void check_old(void) {
    fake.capability = 61;
    expect_reason("cuda:0", "the device's compute capability is 6.1, expected at least 7.0");
}

static void check_listed(void) {
    mlxn_device_info info;
    find_cuda(&info);
    const bool right = info.available && info.gpu && strcmp(info.name, "cuda:0") == 0 &&
                       strcmp(info.description, "Fake 0") == 0 && info.cache_bytes == 50 << 20 &&
                       strcmp(info.detail, "CUDA 13.0, sm_90, 132 multiprocessors, 0 GiB") == 0 &&
                       fake.calls[FAKE_DevicePrimaryCtxRetain] == 0;
    if (!right) {
        fprintf(stderr, "%s: %s: %s\n", info.name, info.description, info.detail);
        _exit(1);
    }
}

static void test_listing(void **state) {
    (void)state;
    in_child(check_absent);
    in_child(check_no_device);
    in_child(check_old);
    in_child(check_listed);
}

/* ---- memory ---- */

/* Of every size around what copies are cut at, with a source that changes as soon as the write has returned. */
static void test_copies(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 100, 128 << 10, (128 << 10) + 1, 600 << 10, 3 << 20, (16 << 20) + 12345};
    for (int pinned = 1; pinned >= 0; pinned--) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const size_t size = sizes[i];
            mlxn_buffer *buffer = test_vector(device, MLXN_U8, (int64_t)size + 5);
            unsigned char *data = malloc(size), *back = malloc(size + 5);
            for (size_t k = 0; k < size; k++)
                data[k] = (unsigned char)(k * 2654435761u >> 24);
            OK(mlxn_buffer_write(buffer, 3, size, data));
            memset(data, 0, size);
            OK(mlxn_buffer_read(buffer, 0, size + 5, back));
            for (size_t k = 0; k < size + 5; k++)
                assert_int_equal(back[k], k < 3 || k >= size + 3 ? 0 : (unsigned char)((k - 3) * 2654435761u >> 24));
            mlxn_buffer_destroy(buffer);
            free(data);
            free(back);
        }
        assert_int_equal(fake.pinned, pinned);
        if (pinned == 1) {
            teardown(NULL);
            setup(NULL);
            fake.no_pinned = true;
        }
    }
}

/* Memory that comes back is zero again, and comes from the driver once. */
static void test_reuse(void **state) {
    (void)state;
    long allocations = 0;
    for (int round = 0; round < 5; round++) {
        mlxn_buffer *buffer[] = {test_vector(device, MLXN_F32, 1000), test_vector(device, MLXN_F32, 3000000)};
        for (int i = 0; i < 2; i++) {
            cuda_expect(buffer[i], 0);
            cuda_record(encoder, "twice", &buffer[i], 1, 5);
        }
        OK(mlxn_encoder_commit(encoder));
        mlxn_buffer_destroy(buffer[0]);
        mlxn_buffer_destroy(buffer[1]);
        OK(mlxn_encoder_reset(encoder));
        if (round == 0)
            allocations = fake.calls[FAKE_MemAlloc];
    }
    assert_int_equal(fake.calls[FAKE_MemAlloc], allocations);
}

/* What is kept is given back when memory runs out, and a failure leaves the device as good as before. */
static void test_out_of_memory(void **state) {
    (void)state;
    const int64_t most = (int64_t)(fake.memory / 8);
    mlxn_buffer *kept[] = {test_vector(device, MLXN_U8, most), test_vector(device, MLXN_U8, most)};
    mlxn_buffer_destroy(kept[0]);
    mlxn_buffer_destroy(kept[1]);
    assert_true(fake.memory_used > (size_t)most);
    mlxn_buffer *large = test_vector(device, MLXN_U8, most * 7), *more;
    FAILS_WITH(MLXN_OUT_OF_MEMORY, "bytes of memory free",
               mlxn_buffer_create(device, MLXN_U8, 1, (const int64_t[]){most * 2}, &more));
    assert_null(more);
    FAILS(MLXN_OUT_OF_MEMORY, mlxn_buffer_create(device, MLXN_U8, 1, (const int64_t[]){INT64_MAX}, &more));
    cuda_record(encoder, "add", (mlxn_buffer *[]){x, y}, 2, 4);
    OK(mlxn_encoder_commit_and_wait(encoder));
    cuda_expect(y, 4);
    mlxn_buffer_destroy(large);
    OK(mlxn_buffer_create(device, MLXN_U8, 1, (const int64_t[]){most * 2}, &more));
    mlxn_buffer_destroy(more);
}

static void test_empty_buffer(void **state) {
    (void)state;
    mlxn_buffer *empty = test_vector(device, MLXN_F32, 0);
    void *data;
    OK(mlxn_buffer_read(empty, 0, 0, NULL));
    FAILS(MLXN_UNSUPPORTED, mlxn_buffer_map(x, &data));
    mlxn_buffer_destroy(empty);
}

/* ---- kernels ---- */

static void dispatch_fails(const char *kernel, const char *text, const uint64_t grid[3], const uint32_t group[3],
                           uint32_t local, size_t constant_bytes) {
    const mlxn_binding binding = {x, MLXN_READ_WRITE};
    const struct {
        fake_constants own;
        char more[16];
    } constants = {{1, 64}, {0}};
    mlxn_dispatch dispatch = cuda_dispatch(kernel, &binding, 1, &constants.own);
    memcpy(dispatch.grid, grid, sizeof dispatch.grid);
    memcpy(dispatch.group, group, sizeof dispatch.group);
    dispatch.local_bytes = local;
    dispatch.constant_bytes = constant_bytes;
    OK(mlxn_encoder_reset(encoder));
    OK(mlxn_encoder_dispatch(encoder, &dispatch));
    if (text != NULL)
        FAILS_WITH(MLXN_INVALID_ARGUMENT, text, mlxn_encoder_commit_and_wait(encoder));
    else
        OK(mlxn_encoder_commit_and_wait(encoder));
}

#define EXTENTS(...) ((const uint64_t[]){__VA_ARGS__})
#define THREADS(...) ((const uint32_t[]){__VA_ARGS__})

static void test_limits(void **state) {
    (void)state;
    dispatch_fails("twice", "the grid has 4294967297 groups in x, the device's limit is 2147483647",
                   EXTENTS((1ull << 32) + 1, 1, 1), THREADS(1, 1, 1), 0, 8);
    dispatch_fails("twice", "the grid has 65536 groups in z", EXTENTS(1, 1, 65536), THREADS(1, 1, 1), 0, 8);
    dispatch_fails("twice", "the group has 65 threads in z, the device's limit is 64", EXTENTS(1, 1, 1),
                   THREADS(1, 1, 65), 0, 8);
    dispatch_fails("narrow", "the group has 128 threads, expected 1 to 64", EXTENTS(1, 1, 1), THREADS(64, 2, 1), 0, 8);
    dispatch_fails("narrow", "of local memory, expected at most 231424", EXTENTS(1, 1, 1), THREADS(1, 1, 1), 231425, 8);
    /* What it declares counts, too: from here on it has to be set up. */
    dispatch_fails("narrow", NULL, EXTENTS(1, 1, 1), THREADS(1, 1, 1), (48 << 10) - 1024 + 1, 8);
    dispatch_fails("narrow", NULL, EXTENTS(3, 2, 1), THREADS(32, 2, 1), 231424, 8);
    assert_int_equal(fake.last_local, 231424);
    assert_memory_equal(fake.last_grid, ((const unsigned[]){3, 2, 1}), sizeof fake.last_grid);
    assert_memory_equal(fake.last_group, ((const unsigned[]){32, 2, 1}), sizeof fake.last_group);
    dispatch_fails("twice", "takes 2 arguments, the dispatch gives 1", EXTENTS(1, 1, 1), THREADS(1, 1, 1), 0, 0);
    dispatch_fails("add", "takes 3 arguments, the dispatch gives 2", EXTENTS(1, 1, 1), THREADS(1, 1, 1), 0, 8);
    dispatch_fails("twice", "argument 1 of the kernel has 8 bytes, the constants has 16", EXTENTS(1, 1, 1),
                   THREADS(1, 1, 1), 0, 16);
}

static void record_residents(const char *kernel, uint32_t residents, uint32_t local, int count) {
    const mlxn_slice slice = mlxn_slice_of(x, MLXN_READ_WRITE);
    const fake_constants constants = {1, 64};
    OK(mlxn_encoder_reset(encoder));
    for (int i = 0; i < count; i++)
        OK(mlxn_encoder_record(encoder, &(mlxn_recording){.kernel = kernel,
                                                          .slices = &slice,
                                                          .slice_count = 1,
                                                          .constants = &constants,
                                                          .constant_bytes = sizeof constants,
                                                          .grid = {1, 1, 1},
                                                          .group = {64, 1, 1},
                                                          .local_bytes = local,
                                                          .resident_groups = residents}));
}

/* Groups that a multiprocessor is to have a number of share its 228 KiB, where each takes 1 KiB beside its own. Of a user's
 * kernel that declares 1 KiB and of the library's, which is launched early; launched, and in a graph. */
static void test_resident_groups(void **state) {
    (void)state;
    enum { KIB = 1024 };
    static const struct {
        uint32_t residents, local;
        unsigned users, librarys;
    } cases[] = {{0, 0, 0, 0},
                 {0, 512, 512, 512},
                 {1, 0, 226 * KIB, 227 * KIB},
                 {2, 0, 112 * KIB, 113 * KIB},
                 {3, 0, 74 * KIB, 75 * KIB},
                 {7, 0, 33280 - 2 * KIB, 33280 - KIB}, /* in units of 256 bytes */
                 {4, 512, 55 * KIB, 56 * KIB},
                 {4, 60 * KIB, 60 * KIB, 60 * KIB}, /* more than their share */
                 {114, 0, 0, KIB},
                 {1000, 64, 64, 64}};
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++)
        for (int count = 1; count <= 20; count += 19) {
            const bool users = i % 2 == 0;
            const unsigned expected = users ? cases[i / 2].users : cases[i / 2].librarys;
            const unsigned residents = cases[i / 2].residents, taken = expected + (users ? 2u : 1u) * KIB;
            if (residents > 0 && cases[i / 2].local == 0 &&
                residents < 114) { /* so many have room, and one more has not */
                assert_true(residents * taken <= 228 * KIB);
                assert_true((residents + 1) * taken > 228 * KIB);
            }
            record_residents(users ? "narrow" : "own_twice", cases[i / 2].residents, cases[i / 2].local, count);
            for (int commits = 0; commits < 2; commits++) {
                fake.last_local = 1;
                OK(mlxn_encoder_commit_and_wait(encoder));
                assert_int_equal(fake.last_local, expected);
            }
        }
    mlxn_cuda_state_of(device)->processor_local = 400 * KIB; /* more than a group may have */
    record_residents("narrow", 1, 0, 1);
    OK(mlxn_encoder_commit_and_wait(encoder));
    assert_int_equal(fake.last_local, 226 * KIB);
    record_residents("narrow", 2, 231425, 1);
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "of local memory, expected at most 231424", mlxn_encoder_commit(encoder));
}

/* A driver that does not tell what a kernel takes: too few arguments are then no crash, and right ones right. */
static void test_arguments_unknown(void **state) {
    (void)state;
    CUresult (*const known)(CUfunction, size_t, size_t *, size_t *) = mlxn_cuda.FuncGetParamInfo;
    mlxn_cuda.FuncGetParamInfo = NULL;
    teardown(NULL);
    setup(NULL);
    cuda_record(encoder, "add", (mlxn_buffer *[]){x, y}, 2, 7);
    OK(mlxn_encoder_commit_and_wait(encoder));
    cuda_expect(y, 7);
    mlxn_cuda.FuncGetParamInfo = known;
}

static void test_compile_errors(void **state) {
    (void)state;
    const fake_constants constants = {0, 1};
    const mlxn_binding binding = {x, MLXN_READ_WRITE};
    OK(mlxn_registry_add_source(device, "wrong", "extern \"C\" __global__ void wrong() { mistake }"));
    mlxn_dispatch dispatch = cuda_dispatch("wrong", &binding, 1, &constants);
    FAILS_WITH(MLXN_COMPILE_FAILED, "wrong: nvrtcCompileProgram: NVRTC_ERROR_COMPILATION\nkernel(1): error: this is",
               mlxn_encoder_dispatch(encoder, &dispatch));
    FAILS(MLXN_COMPILE_FAILED, mlxn_encoder_commit(encoder));
    OK(mlxn_encoder_reset(encoder));
    OK(mlxn_registry_add_source(device, "missing", "extern \"C\" __global__ void other() {}"));
    dispatch.kernel = "missing";
    FAILS_WITH(MLXN_COMPILE_FAILED, "no such entry point", mlxn_encoder_dispatch(encoder, &dispatch));
    OK(mlxn_encoder_reset(encoder));
    FAILS(MLXN_UNSUPPORTED, mlxn_registry_add_function(device, "f", (mlxn_function)0x10));
}

static void check_no_nvrtc(void) {
    fake.no_nvrtc = true;
    unsetenv("MLXN_NVRTC");
    setup(NULL);
    cuda_record(encoder, "twice", &x, 1, 0);
    FAILS_WITH(MLXN_COMPILE_FAILED, "NVRTC, which is not here: neither libnvrtc.so.13 nor .12 was found",
               mlxn_encoder_commit(encoder));
    OK(mlxn_encoder_reset(encoder));
    setenv("MLXN_NVRTC", "/nowhere/libnvrtc.so", 1);
    cuda_record(encoder, "add", (mlxn_buffer *[]){x, y}, 2, 0); /* the other's failure is kept */
    FAILS_WITH(MLXN_COMPILE_FAILED, "MLXN_NVRTC says is /nowhere/libnvrtc.so", mlxn_encoder_commit(encoder));
    close_all();
}

static void test_no_nvrtc(void **state) {
    (void)state;
    in_child(check_no_nvrtc);
}

/* A second device takes the kernel from the cache, and compiles it again where the driver refuses it. */
static void test_cache(void **state) {
    (void)state;
    char folder[] = "/tmp/mlxn-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    setenv("MLXN_CACHE", "on", 1);
    const mlxn_device_options options = {.size = sizeof options, .cache_folder = folder};
    for (int round = 0; round < 3; round++) {
        mlxn_device *cached;
        OK(mlxn_device_open("cuda:0", &options, &cached));
        OK(cuda_add_kernels(cached));
        mlxn_encoder *own = test_encoder(cached);
        mlxn_buffer *buffer = test_vector(cached, MLXN_F32, 8);
        const long before = fake.compilations;
        fake.refuse_image = round == 2;
        cuda_record(own, "twice", &buffer, 1, 3);
        OK(mlxn_encoder_commit_and_wait(own));
        cuda_expect(buffer, 3);
        assert_int_equal(fake.compilations - before, round == 1 ? 0 : 1);
        mlxn_buffer_destroy(buffer);
        mlxn_encoder_destroy(own);
        mlxn_device_destroy(cached);
    }
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void timing(bool graphs) {
    fake.no_graphs = !graphs;
    mlxn_encoder *timed;
    OK(mlxn_encoder_create(device, &(mlxn_encoder_options){.size = sizeof(mlxn_encoder_options), .timing = true},
                           &timed));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++)
            cuda_record(timed, "twice", &x, 1, 0);
        OK(mlxn_encoder_commit(timed));
        OK(mlxn_encoder_commit_and_wait(timed));
        for (size_t i = 0; i < 20; i++) {
            const char *name;
            uint64_t nanoseconds;
            OK(mlxn_encoder_timing(timed, i, &name, &nanoseconds));
            assert_string_equal(name, "twice");
            assert_int_equal(nanoseconds, 2000); /* the fake clock: a microsecond a step */
        }
        OK(mlxn_encoder_reset(timed));
    }
    mlxn_encoder_destroy(timed);
}

static void test_timing(void **state) {
    (void)state;
    const long launches = fake.calls[FAKE_LaunchKernel];
    timing(true);
    assert_int_equal(fake.calls[FAKE_LaunchKernel], launches);
    timing(false);
}

/* ---- errors ---- */

/* An error that the context does not survive: reported by the wait, then by everything, and the rest goes on. */
static void test_sticky_error(void **state) {
    (void)state;
    cuda_record(encoder, "trap", &x, 1, 0);
    OK(mlxn_encoder_commit(encoder));
    FAILS_WITH(MLXN_DEVICE_FAILED,
               "cuStreamSynchronize: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)",
               mlxn_encoder_wait(encoder));
    OK(mlxn_encoder_wait(encoder));
    const char *why = "an illegal memory access was encountered";
    float data[64] = {0};
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_buffer_read(x, 0, sizeof data, data));
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_buffer_write(x, 0, sizeof data, data));
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_encoder_commit(encoder));
    OK(mlxn_encoder_reset(encoder));
    cuda_record(encoder, "add", (mlxn_buffer *[]){x, y}, 2, 1);
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_encoder_commit(encoder));
    mlxn_buffer *more;
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){4}, &more));

    mlxn_device *cpu = test_device(1);
    mlxn_buffer *one = test_vector(cpu, MLXN_F32, 1);
    mlxn_encoder *other = test_encoder(cpu);
    OK(mlxn_exp(other, one, one));
    OK(mlxn_encoder_commit_and_wait(other));
    cuda_expect(one, 1);
    mlxn_encoder_destroy(other);
    mlxn_buffer_destroy(one);
    mlxn_device_destroy(cpu);
}

/* Everything once, until a call fails. The bits of `results` say which of the two sums could be read. */
static mlxn_status scenario(const mlxn_device_options *options, float results[2]) {
    mlxn_device *d = NULL;
    mlxn_buffer *b[3] = {NULL};
    mlxn_encoder *e = NULL, *timed = NULL;
    enum { LARGE = 40000 };
    float *data = malloc(LARGE * sizeof *data);
    for (int i = 0; i < LARGE; i++)
        data[i] = 1;
    mlxn_status status = mlxn_device_open("cuda:0", options, &d);
    if (status == MLXN_OK)
        status = cuda_add_kernels(d);
    for (int i = 0; status == MLXN_OK && i < 3; i++)
        status = mlxn_buffer_create(d, MLXN_F32, 1, (const int64_t[]){LARGE}, &b[i]);
    if (status == MLXN_OK)
        status = mlxn_buffer_write(b[0], 0, LARGE * sizeof *data, data);
    if (status == MLXN_OK)
        status = mlxn_encoder_create(d, NULL, &e);
    if (status == MLXN_OK)
        status = mlxn_encoder_create(d, &(mlxn_encoder_options){.size = sizeof(mlxn_encoder_options), .timing = true},
                                     &timed);
    if (status == MLXN_OK) {
        cuda_record(e, "add", b, 2, 1);
        for (int i = 0; i < 4; i++)
            cuda_record(e, i % 2 == 0 ? "own_sum" : "sum", b, 3, 0);
        cuda_record(timed, "twice", &b[2], 1, 0);
        status = mlxn_encoder_commit(e);
    }
    if (status == MLXN_OK)
        status = mlxn_encoder_commit(e);
    if (status == MLXN_OK)
        status = mlxn_encoder_commit_and_wait(timed);
    if (status == MLXN_OK)
        status = mlxn_buffer_read(b[2], 0, LARGE * sizeof *data, data);
    if (status == MLXN_OK)
        results[0] = data[LARGE - 1];
    if (status == MLXN_OK)
        status = mlxn_encoder_wait(e);
    if (status == MLXN_OK)
        status = mlxn_buffer_read(b[1], 0, sizeof(float), &results[1]);
    mlxn_buffer_destroy(b[0]);
    mlxn_encoder_destroy(timed);
    mlxn_encoder_destroy(e);
    mlxn_buffer_destroy(b[1]);
    mlxn_buffer_destroy(b[2]);
    mlxn_device_destroy(d);
    free(data);
    return status;
}

/* The same in a caller's floating-point environment of number `e`, which it keeps. */
static mlxn_status scenario_in(size_t e, const mlxn_device_options *options, float results[2]) {
    const environment plain = environment_get();
    environment_set(ENVIRONMENTS[e]);
    const mlxn_status status = scenario(options, results);
    const environment after = environment_get();
    environment_set(plain);
    assert_int_equal(after.control, ENVIRONMENTS[e].control);
    assert_int_equal(after.flags, ENVIRONMENTS[e].flags);
    return status;
}

/* Each call of the driver fails once, in each of these ways: the scenario then ends with a message, or well and with the
 * right numbers, and the host's memory is all given back, and the floating-point environment is what it was. */
static void test_every_call_fails(void **state) {
    (void)state;
    static const int results[] = {1, 2, 700, 801};
    fake.all_calls = 0;
    float sums[2] = {0};
    OK(scenario(NULL, sums));
    const long calls = fake.all_calls;
    assert_true(calls > 100);
    assert_true(sums[0] == 6 && sums[1] == 2);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        for (long at = 1; at <= calls; at++) {
            counting memory = {0};
            const mlxn_allocator allocator = counting_allocator(&memory);
            fake.all_calls = 0;
            fake.fail_at = at;
            fake.fail_with = results[i];
            sums[0] = sums[1] = 0;
            const mlxn_device_options options = {.size = sizeof options, .allocator = &allocator};
            const mlxn_status status = scenario_in((size_t)at % ENVIRONMENT_COUNT, &options, sums);
            if (status == MLXN_OK && (sums[0] != 6 || sums[1] != 2))
                fail_msg("call %ld gave %d, and the sums are %g and %g", at, results[i], (double)sums[0],
                         (double)sums[1]);
            if (status != MLXN_OK && status != MLXN_DEVICE_FAILED && status != MLXN_OUT_OF_MEMORY &&
                status != MLXN_NOT_FOUND && status != MLXN_COMPILE_FAILED &&
                !(status == MLXN_INVALID_ARGUMENT && results[i] == 1)) /* a kernel's argument that there is not */
                fail_msg("call %ld gave %d, and the status is %d", at, results[i], (int)status);
            if (memory.live != 0 || memory.wrong != 0)
                fail_msg("call %ld gave %d: %zu pieces of memory are left", at, results[i], (size_t)memory.live);
            if (fake.complaints > 0 || fake_current() != 0 || fake.contexts > 0)
                fail_msg("call %ld gave %d: complaints, or a context is left", at, results[i]);
            fake.fail_at = 0;
        }
    }
}

/* ---- threads and processes ---- */

static void *work(void *argument) {
    const int number = *(int *)argument;
    mlxn_encoder *own = test_encoder(device);
    mlxn_buffer *a = test_vector(device, MLXN_F32, 100), *b = test_vector(device, MLXN_F32, 100);
    for (int i = 1; i <= 200; i++) {
        cuda_record(own, "add", (mlxn_buffer *[]){a, b}, 2, (float)(number + i));
        cuda_record(own, "add", (mlxn_buffer *[]){b, a}, 2, 1);
        OK(mlxn_encoder_commit_and_wait(own));
        OK(mlxn_encoder_reset(own));
        mlxn_buffer *passing = test_vector(device, MLXN_F32, 100);
        mlxn_buffer_destroy(passing);
        cuda_expect(a, (float)(number + i + 1));
        OK(mlxn_buffer_write(a, 0, 400, (float[100]){0}));
    }
    mlxn_buffer_destroy(a);
    mlxn_buffer_destroy(b);
    mlxn_encoder_destroy(own);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t threads[6];
    int numbers[6];
    for (int i = 0; i < 6; i++) {
        numbers[i] = 1000 * i;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
}

/* What is 0 in the child where everything fails, nothing hangs, and the driver is not called. */
static void use_in_child(void) {
    const long calls = fake.all_calls;
    float data[64] = {0};
    mlxn_buffer *more;
    mlxn_device *again;
    const char *why = "forked";
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_buffer_read(y, 0, sizeof data, data));
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_buffer_write(y, 0, sizeof data, data));
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_encoder_wait(encoder));
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_encoder_commit(encoder));
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){4}, &more));
    FAILS_WITH(MLXN_NOT_FOUND, why, mlxn_device_open("cuda:0", NULL, &again));
    OK(mlxn_encoder_reset(encoder));
    cuda_record(encoder, "twice", &x, 1, 0);
    FAILS_WITH(MLXN_DEVICE_FAILED, why, mlxn_encoder_commit(encoder));
    close_all();
    assert_int_equal(fake.all_calls, calls);
}

static void test_fork(void **state) {
    (void)state;
    cuda_record(encoder, "add", (mlxn_buffer *[]){x, y}, 2, 2);
    for (int i = 0; i < 5; i++)
        cuda_record(encoder, "add", (mlxn_buffer *[]){x, y}, 2, 2);
    OK(mlxn_encoder_commit(encoder));
    OK(mlxn_encoder_commit(encoder));
    in_child(use_in_child);
    OK(mlxn_encoder_wait(encoder));
    cuda_expect(y, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_listing, cuda_teardown),
        cmocka_unit_test_teardown(test_no_nvrtc, cuda_teardown), /* before a driver is loaded here */
        cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reuse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_buffer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resident_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arguments_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compile_errors, setup, teardown),
        cmocka_unit_test_teardown(test_cache, cuda_teardown),
        cmocka_unit_test_setup_teardown(test_timing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sticky_error, setup, teardown),
        cmocka_unit_test_teardown(test_every_call_fails, cuda_teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
