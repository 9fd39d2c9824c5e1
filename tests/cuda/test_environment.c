/* The caller's floating-point environment is not the driver's: whatever it is, the driver and the compiler are called in the
 * default one (the fake ones complain otherwise), and the caller finds its own again, to the bit, after every call. */
#include "support/environment.h"

#include "cuda_test.h"
#include "support/allocation.h"

static const environment *hostile;
static environment plain;

static mlxn_status hostile_end(mlxn_status status, const char *call) {
    const environment after = environment_get();
    environment_set(plain);
    if (after.control != hostile->control || after.flags != hostile->flags)
        fail_msg("%s: in \"%s\" the control word was 0x%llx and is 0x%llx, the flags 0x%llx and 0x%llx", call,
                 hostile->name, (unsigned long long)hostile->control, (unsigned long long)after.control,
                 (unsigned long long)hostile->flags, (unsigned long long)after.flags);
    if (fake.complaints > 0)
        fail_msg("%s: the driver complains in \"%s\"", call, hostile->name);
    return status;
}

/* The status of a call that is made in the hostile environment. */
#define HOSTILE(call) (environment_set(*hostile), hostile_end((call), #call))
/* One that has none. */
#define HOSTILE_VOID(call) (void)HOSTILE(((call), MLXN_OK))

enum { LARGE = 40000 };

static mlxn_device *device;
static mlxn_buffer *x, *y;
static counting memory;

static void open_device(void) {
    const mlxn_allocator allocator = counting_allocator(&memory);
    const mlxn_device_options options = {.size = sizeof options, .allocator = &allocator};
    size_t count = 0;
    HOSTILE_VOID(count = mlxn_device_count());
    for (size_t i = 0; i < count; i++) {
        mlxn_device_info info = {.size = sizeof info};
        OK(HOSTILE(mlxn_device_at(i, &info)));
    }
    mlxn_device *none;
    FAILS(MLXN_NOT_FOUND, HOSTILE(mlxn_device_open("cuda:7", NULL, &none)));
    OK(HOSTILE(mlxn_device_open("cuda:0", &options, &device)));
    OK(HOSTILE(cuda_add_kernels(device)));
}

static void use_buffers(void) {
    static const int64_t shape[] = {LARGE};
    static float data[LARGE];
    mlxn_buffer *view, *more;
    OK(HOSTILE(mlxn_buffer_create(device, MLXN_F32, 1, shape, &x)));
    OK(HOSTILE(mlxn_buffer_create(device, MLXN_F32, 1, shape, &y)));
    OK(HOSTILE(mlxn_buffer_write(x, 0, sizeof data, data)));
    OK(HOSTILE(mlxn_buffer_read(x, 0, sizeof data, data)));
    OK(HOSTILE(mlxn_buffer_view(x, 100, 1, (const int64_t[]){100}, &view)));
    OK(HOSTILE(mlxn_buffer_write(view, 4, 100, data)));
    OK(HOSTILE(mlxn_buffer_read(view, 4, 100, data)));
    HOSTILE_VOID(mlxn_buffer_destroy(view));
    FAILS(MLXN_OUT_OF_MEMORY, HOSTILE(mlxn_buffer_create(device, MLXN_U8, 1, (const int64_t[]){INT64_MAX}, &more)));
    /* Too large to be kept for reuse. */
    OK(HOSTILE(mlxn_buffer_create(device, MLXN_U8, 1, (const int64_t[]){(int64_t)fake.memory / 3}, &more)));
    HOSTILE_VOID(mlxn_buffer_destroy(more));
    /* Where the host's memory ends: the device's is there already, and goes back. */
    for (size_t i = 1; i <= 4; i++) {
        memory.fail_at = memory.allocations + i;
        if (HOSTILE(mlxn_buffer_create(device, MLXN_F32, 1, shape, &more)) == MLXN_OK)
            HOSTILE_VOID(mlxn_buffer_destroy(more));
    }
    memory.fail_at = 0;
}

static mlxn_encoder *recorded(bool timing) {
    const mlxn_encoder_options options = {.size = sizeof options, .timing = timing};
    mlxn_encoder *encoder;
    OK(HOSTILE(mlxn_encoder_create(device, &options, &encoder)));
    for (int i = 0; i < 3; i++) {
        HOSTILE_VOID(cuda_record(encoder, "add", (mlxn_buffer *[]){x, y}, 2, 1));
        HOSTILE_VOID(cuda_record(encoder, "own_twice", &y, 1, 0));
    }
    return encoder;
}

static void use_encoders(void) {
    mlxn_encoder *encoder = recorded(false);
    for (int i = 0; i < 4; i++) { /* launches, then a graph */
        OK(HOSTILE(mlxn_encoder_commit(encoder)));
        OK(HOSTILE(mlxn_encoder_wait(encoder)));
    }
    OK(HOSTILE(mlxn_encoder_commit_and_wait(encoder)));
    cuda_expect(y, 2);
    OK(HOSTILE(mlxn_encoder_commit(encoder)));
    OK(HOSTILE(mlxn_encoder_reset(encoder)));
    mlxn_buffer *passing;
    OK(HOSTILE(mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){LARGE}, &passing)));
    HOSTILE_VOID(cuda_record(encoder, "twice", &passing, 1, 0));
    OK(HOSTILE(mlxn_encoder_commit(encoder)));
    HOSTILE_VOID(mlxn_buffer_destroy(passing));
    HOSTILE_VOID(mlxn_encoder_destroy(encoder));

    encoder = recorded(true);
    OK(HOSTILE(mlxn_encoder_commit_and_wait(encoder)));
    const char *kernel;
    uint64_t nanoseconds;
    OK(HOSTILE(mlxn_encoder_timing(encoder, 5, &kernel, &nanoseconds)));
    assert_int_equal(nanoseconds, 2000);
    HOSTILE_VOID(mlxn_encoder_destroy(encoder));
}

static void use_wrong_kernels(void) {
    OK(HOSTILE(mlxn_registry_add_source(device, "wrong", "extern \"C\" __global__ void wrong() { mistake }")));
    mlxn_encoder *encoder;
    OK(HOSTILE(mlxn_encoder_create(device, NULL, &encoder)));
    HOSTILE_VOID(cuda_record(encoder, "wrong", &x, 1, 0));
    FAILS(MLXN_COMPILE_FAILED, HOSTILE(mlxn_encoder_commit(encoder)));
    OK(HOSTILE(mlxn_encoder_reset(encoder)));
    HOSTILE_VOID(cuda_record(encoder, "trap", &x, 1, 0));
    OK(HOSTILE(mlxn_encoder_commit(encoder)));
    FAILS(MLXN_DEVICE_FAILED, HOSTILE(mlxn_encoder_wait(encoder)));
    HOSTILE_VOID(mlxn_encoder_destroy(encoder));
}

/* The last handle closes the device, whichever it is. */
static void close_all(bool device_last) {
    if (!device_last)
        HOSTILE_VOID(mlxn_device_destroy(device));
    HOSTILE_VOID(mlxn_buffer_destroy(x));
    HOSTILE_VOID(mlxn_buffer_destroy(y));
    if (device_last)
        HOSTILE_VOID(mlxn_device_destroy(device));
    assert_int_equal(fake.contexts, 0);
    assert_int_equal(memory.live, 0);
}

static void test_whole_life(void **state) {
    (void)state;
    setenv("MLXN_CACHE", "off", 1);
    plain = environment_get();
    for (size_t i = 0; i < ENVIRONMENT_COUNT; i++) {
        hostile = &ENVIRONMENTS[i];
        open_device();
        use_buffers();
        use_encoders();
        use_wrong_kernels();
        close_all(i % 2 == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_whole_life, cuda_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
