/* Lists on an OpenCL device: their order, replay, threads, timing, and what may be destroyed while they run. */
#include <pthread.h>

#include "opencl_test.h"

static mlxn_device *device;

/* y = 3 y + 1, modulo 2^32, by one thread a number; `rounds` makes it last. */
static const char step[] = "kernel void k(global uint *y, ulong at, uint rounds) {\n"
                           "    global uint *p = y + at / 4 + get_global_id(0);\n"
                           "    uint v = *p;\n"
                           "    for (uint i = 0; i < rounds; i++) v = 3 * v + 1;\n"
                           "    *p = v;\n"
                           "}\n";
enum { COUNT = 1024 };

static uint32_t after(uint32_t value, uint64_t rounds) {
    while (rounds-- > 0)
        value = 3 * value + 1;
    return value;
}

static void open_with_step(void) {
    device = opencl_device(NULL);
    opencl_kernel(device, step);
}

static int close_device(void **state) {
    (void)state;
    mlxn_device_destroy(device);
    device = NULL;
    return 0;
}

static void record_step(mlxn_encoder *encoder, mlxn_buffer *y, uint32_t rounds) {
    OK(opencl_record(encoder, &(opencl_dispatch){.bindings = (const mlxn_binding[]){{y, MLXN_READ_WRITE}, {0}},
                                                 .constants = &rounds,
                                                 .constant_bytes = 4,
                                                 .grid = {COUNT / 64},
                                                 .group = {64}}));
}

static void expect(const mlxn_buffer *y, uint32_t value) {
    uint32_t found[COUNT];
    OK(mlxn_buffer_read(y, 0, sizeof found, found));
    for (int i = 0; i < COUNT; i++)
        if (found[i] != value)
            fail_msg("number %d is %u, expected %u", i, found[i], value);
}

static void in_order_and_again(void **state) {
    (void)state;
    open_with_step();
    mlxn_buffer *y = test_vector(device, MLXN_U32, COUNT);
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_encoder_commit_and_wait(encoder)); /* an empty list */
    OK(mlxn_encoder_wait(encoder));
    OK(mlxn_encoder_reset(encoder));
    for (uint32_t i = 1; i <= 40; i++)
        record_step(encoder, y, i);
    OK(mlxn_encoder_commit(encoder));
    OK(mlxn_encoder_wait(encoder));
    OK(mlxn_encoder_wait(encoder));
    expect(y, after(0, 820));
    for (int i = 0; i < 30; i++) /* while the earlier ones are in flight */
        OK(mlxn_encoder_commit(encoder));
    OK(mlxn_encoder_wait(encoder));
    expect(y, after(0, 31 * 820));
    OK(mlxn_encoder_reset(encoder));
    record_step(encoder, y, 5);
    OK(mlxn_encoder_commit(encoder));
    expect(y, after(0, 31 * 820 + 5)); /* reading waits by itself */
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
}

static void a_sticky_encoder_runs_nothing(void **state) {
    (void)state;
    open_with_step();
    mlxn_buffer *y = test_vector(device, MLXN_U32, COUNT);
    mlxn_encoder *encoder = test_encoder(device);
    record_step(encoder, y, 1);
    FAILS(MLXN_INVALID_ARGUMENT,
          opencl_record(encoder, &(opencl_dispatch){.bindings = (const mlxn_binding[]){{y, 0}, {0}}}));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_encoder_commit(encoder));
    expect(y, 0);
    OK(mlxn_encoder_reset(encoder));
    record_step(encoder, y, 1);
    OK(mlxn_encoder_commit_and_wait(encoder));
    expect(y, 1);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
}

/* Encoders that share memory run in the order of their commits. */
static void encoders_in_the_order_of_their_commits(void **state) {
    (void)state;
    open_with_step();
    enum { ENCODERS = 8 };
    mlxn_buffer *y = test_vector(device, MLXN_U32, COUNT);
    mlxn_encoder *encoders[ENCODERS];
    uint64_t rounds = 0;
    for (uint32_t i = 0; i < ENCODERS; i++) {
        encoders[i] = test_encoder(device);
        record_step(encoders[i], y, 1000 * i + 1);
    }
    for (int round = 0; round < 5; round++)
        for (uint32_t i = ENCODERS; i-- > 0;) {
            OK(mlxn_encoder_commit(encoders[i]));
            rounds += 1000 * i + 1;
        }
    for (int i = 0; i < ENCODERS; i++)
        OK(mlxn_encoder_wait(encoders[i]));
    expect(y, after(0, rounds));
    for (int i = 0; i < ENCODERS; i++)
        mlxn_encoder_destroy(encoders[i]);
    mlxn_buffer_destroy(y);
}

static void destroyed_in_flight(void **state) {
    (void)state;
    open_with_step();
    mlxn_buffer *y = test_vector(device, MLXN_U32, COUNT), *view;
    OK(mlxn_buffer_view(y, 0, 1, (const int64_t[]){COUNT}, &view));
    mlxn_encoder *encoder = test_encoder(device), *kept = test_encoder(device);
    record_step(encoder, y, 1000000);
    record_step(kept, view, 1);
    OK(mlxn_encoder_commit(encoder));
    mlxn_buffer_destroy(y);
    OK(mlxn_encoder_commit(kept));
    mlxn_encoder_destroy(encoder); /* waits */
    mlxn_device_destroy(device);   /* the buffer and the encoder keep it */
    device = NULL;
    OK(mlxn_encoder_wait(kept));
    expect(view, after(0, 1000001));
    mlxn_buffer_destroy(view);
    mlxn_encoder_destroy(kept);
}

static void *work_in_a_thread(void *context) {
    const uint32_t self = *(const uint32_t *)context;
    mlxn_buffer *y = test_vector(device, MLXN_U32, COUNT);
    mlxn_encoder *encoder = test_encoder(device);
    uint32_t value = 0;
    for (uint32_t round = 0; round < 30; round++) {
        record_step(encoder, y, round + self);
        record_step(encoder, y, 2 * round);
        if (mlxn_encoder_commit(encoder) != MLXN_OK)
            return NULL;
        if (round % 3 == 0 && mlxn_encoder_commit(encoder) != MLXN_OK)
            return NULL;
        value = after(value, (round % 3 == 0 ? 2 : 1) * (3 * round + self));
        uint32_t found = 0;
        if (round % 2 == 0 && (mlxn_buffer_read(y, 4 * (size_t)round, 4, &found) != MLXN_OK || found != value))
            return NULL;
        if (mlxn_encoder_reset(encoder) != MLXN_OK)
            return NULL;
    }
    uint32_t found = 0;
    const bool right = mlxn_buffer_read(y, 0, 4, &found) == MLXN_OK && found == value;
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
    return right ? context : NULL;
}

static void many_threads(void **state) {
    (void)state;
    open_with_step();
    pthread_t threads[4];
    uint32_t numbers[4];
    for (uint32_t i = 0; i < 4; i++) {
        numbers[i] = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, work_in_a_thread, &numbers[i]), 0);
    }
    bool right = true;
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        right &= result != NULL;
    }
    assert_true(right);
}

static void timing(void **state) {
    (void)state;
    open_with_step();
    mlxn_buffer *y = test_vector(device, MLXN_U32, COUNT);
    mlxn_encoder *encoder = NULL, *before = test_encoder(device);
    OK(mlxn_encoder_create(device, &(mlxn_encoder_options){.size = sizeof(mlxn_encoder_options), .timing = true},
                           &encoder));
    record_step(before, y, 200000);
    record_step(encoder, y, 1);
    record_step(encoder, y, 400000);
    record_step(encoder, y, 1);
    for (int round = 0; round < 2; round++) {
        OK(mlxn_encoder_commit(before));
        OK(mlxn_encoder_commit(encoder));
        OK(mlxn_encoder_wait(encoder));
    }
    OK(mlxn_encoder_wait(before));
    expect(y, after(0, 2 * 600002));
    uint64_t nanoseconds[3];
    for (size_t i = 0; i < 3; i++) {
        const char *name = NULL;
        OK(mlxn_encoder_timing(encoder, i, &name, &nanoseconds[i]));
        assert_string_equal(name, "k");
        assert_true(nanoseconds[i] < 100000000000u);
    }
    assert_true(nanoseconds[1] > 100000); /* 400,000 dependent steps: by no processor in less */
    assert_true(nanoseconds[1] > nanoseconds[2]);
    mlxn_encoder_destroy(encoder);
    mlxn_encoder_destroy(before);
    mlxn_buffer_destroy(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(in_order_and_again, close_device),
        cmocka_unit_test_teardown(a_sticky_encoder_runs_nothing, close_device),
        cmocka_unit_test_teardown(encoders_in_the_order_of_their_commits, close_device),
        cmocka_unit_test_teardown(destroyed_in_flight, close_device),
        cmocka_unit_test_teardown(many_threads, close_device),
        cmocka_unit_test_teardown(timing, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
