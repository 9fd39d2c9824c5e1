/* Work on the fake driver, which does only what the backend has ordered: whatever lists, copies and buffers come in
 * whichever order, the results are as if each had been done when it was committed. */
#include "cuda_test.h"
#include "support/allocation.h"
#include "support/random.h"

enum { BUFFERS = 6, ENCODERS = 7, COUNT = 64, MOST = 12 };

typedef struct recorded {
    int buffer[3]; /* each a window: the buffer, and which half of it, or all */
    int kernel;
    float by;
} recorded;

/* What is on the device, and what it should be. */
typedef struct world {
    mlxn_device *device;
    mlxn_buffer *buffer[BUFFERS], *view[BUFFERS][2];
    float model[BUFFERS][COUNT];
    mlxn_encoder *encoder[ENCODERS];
    recorded list[ENCODERS][MOST];
    int count[ENCODERS];
} world;

static uint64_t below(uint64_t *state, uint64_t limit) {
    return random_next(state) % limit;
}

static void make_buffer(world *w, int b) {
    w->buffer[b] = test_vector(w->device, MLXN_F32, COUNT);
    for (int half = 0; half < 2; half++)
        OK(mlxn_buffer_view(w->buffer[b], half * COUNT / 2, 1, (const int64_t[]){COUNT / 2}, &w->view[b][half]));
    memset(w->model[b], 0, sizeof w->model[b]);
}

static void drop_buffer(world *w, int b) {
    mlxn_buffer_destroy(w->view[b][0]);
    mlxn_buffer_destroy(w->view[b][1]);
    mlxn_buffer_destroy(w->buffer[b]);
}

/* A dispatch on halves of different buffers, on the device's list and in the model's. */
static void record(world *w, int e, uint64_t *state) {
    static const char *const names[2][3] = {{"twice", "add", "sum"}, {"own_twice", "own_add", "own_sum"}};
    recorded *r = &w->list[e][w->count[e]++];
    r->kernel = (int)below(state, 3);
    r->by = (float)below(state, 8);
    mlxn_buffer *buffers[3];
    for (int i = 0; i <= r->kernel; i++) {
        bool again;
        do {
            r->buffer[i] = (int)below(state, 2 * BUFFERS);
            again = false;
            for (int k = 0; k < i; k++)
                again |= r->buffer[k] == r->buffer[i];
        } while (again);
        buffers[i] = w->view[r->buffer[i] / 2][r->buffer[i] % 2];
    }
    cuda_record(w->encoder[e], names[below(state, 4) > 0][r->kernel], buffers, (size_t)r->kernel + 1, r->by);
}

static void compute(world *w, int e) {
    for (int i = 0; i < w->count[e]; i++) {
        const recorded *r = &w->list[e][i];
        float *b[3];
        for (int k = 0; k <= r->kernel; k++)
            b[k] = &w->model[r->buffer[k] / 2][r->buffer[k] % 2 * COUNT / 2];
        for (int k = 0; k < COUNT / 2; k++) {
            if (r->kernel == 0)
                b[0][k] = 2 * b[0][k] + r->by;
            else if (r->kernel == 1)
                b[1][k] = b[0][k] + r->by;
            else
                b[2][k] = b[0][k] + b[1][k] + r->by;
        }
    }
}

static void commit(world *w, int e, uint64_t *state) {
    if (w->count[e] == 0 || below(state, 3) == 0) {
        OK(mlxn_encoder_reset(w->encoder[e]));
        w->count[e] = 0;
        for (uint64_t left = 1 + below(state, MOST); left > 0; left--)
            record(w, e, state);
    }
    OK(mlxn_encoder_commit(w->encoder[e]));
    compute(w, e);
}

static void check(world *w, int b, uint64_t seed) {
    float data[COUNT];
    const int from = b % 3 * 16;
    OK(mlxn_buffer_read(w->buffer[b], (size_t)from * 4, (size_t)(COUNT - from) * 4, data));
    for (int i = from; i < COUNT; i++)
        if (memcmp(&data[i - from], &w->model[b][i], 4) != 0)
            test_fail(seed, "element %d of buffer %d is %g, expected %g", i, b, (double)data[i - from],
                      (double)w->model[b][i]);
}

static void write(world *w, int b, uint64_t *state) {
    const int from = (int)below(state, COUNT), count = 1 + (int)below(state, (uint64_t)(COUNT - from));
    float data[COUNT];
    for (int i = 0; i < count; i++)
        data[i] = w->model[b][from + i] = (float)below(state, 100);
    OK(mlxn_buffer_write(w->buffer[b], (size_t)from * 4, (size_t)count * 4, data));
    memset(data, 0xff, sizeof data);
}

/* A buffer goes and another comes, which may get its memory. Lists that have it keep it, so they are reset. */
static void replace(world *w, int b) {
    for (int e = 0; e < ENCODERS; e++) {
        w->count[e] = 0;
    }
    drop_buffer(w, b);
    make_buffer(w, b);
}

static void one_world(uint64_t seed) {
    uint64_t state = seed;
    world w = {.device = cuda_device()};
    for (int b = 0; b < BUFFERS; b++)
        make_buffer(&w, b);
    for (int e = 0; e < ENCODERS; e++)
        w.encoder[e] = test_encoder(w.device);
    for (int step = 0; step < 120; step++) {
        const int e = (int)below(&state, ENCODERS), b = (int)below(&state, BUFFERS);
        switch (below(&state, 12)) {
        case 0:
            check(&w, b, seed);
            break;
        case 1:
            write(&w, b, &state);
            break;
        case 2:
            OK(mlxn_encoder_wait(w.encoder[e]));
            break;
        case 3:
            replace(&w, b);
            break;
        default:
            commit(&w, e, &state);
            break;
        }
        /* Values stay small enough to be exact. */
        if (step % 10 == 9)
            for (int i = 0; i < BUFFERS; i++)
                write(&w, i, &state);
    }
    for (int b = 0; b < BUFFERS; b++)
        check(&w, b, seed);
    for (int e = 0; e < ENCODERS; e++)
        mlxn_encoder_destroy(w.encoder[e]);
    for (int b = 0; b < BUFFERS; b++)
        drop_buffer(&w, b);
    mlxn_device_destroy(w.device);
}

static void test_worlds(void **state) {
    (void)state;
    if (getenv("MLXN_TEST_SEED") != NULL) {
        one_world(test_seed(0));
        return;
    }
    for (uint64_t seed = 1; seed <= (test_is_slow_here() ? 50 : 400); seed++) {
        fake.no_graphs = seed % 5 == 0;
        fake.no_early = seed % 7 == 0;
        fake.no_early_graphs = seed % 11 == 0;
        fake.capability = fake.newest = seed % 13 == 0 ? 80 : 90;
        one_world(seed);
        if (fake.complaints > 0)
            test_fail(seed, "the driver complained");
    }
}

/* Lists that share nothing run side by side: no stream waits for another. */
static void test_independent_lists_do_not_wait(void **state) {
    (void)state;
    mlxn_device *device = cuda_device();
    mlxn_buffer *buffer[8];
    mlxn_encoder *encoder[4];
    for (int i = 0; i < 8; i++)
        buffer[i] = test_vector(device, MLXN_F32, 64);
    for (int i = 0; i < 8; i++)
        cuda_expect(buffer[i], 0);
    const long before = fake.calls[FAKE_EventRecord];
    for (int i = 0; i < 4; i++) {
        encoder[i] = test_encoder(device);
        cuda_record(encoder[i], "add", &buffer[2 * i], 2, (float)i);
        OK(mlxn_encoder_commit(encoder[i]));
    }
    assert_int_equal(fake.calls[FAKE_EventRecord], before);
    for (int i = 0; i < 4; i++) {
        OK(mlxn_encoder_wait(encoder[i]));
        mlxn_encoder_destroy(encoder[i]);
        cuda_expect(buffer[2 * i + 1], (float)i);
    }
    for (int i = 0; i < 8; i++)
        mlxn_buffer_destroy(buffer[i]);
    mlxn_device_destroy(device);
}

/* A warm loop of one op calls the driver for what the op needs alone, and allocates nothing. */
static void test_one_op_costs_a_launch_and_a_wait(void **state) {
    (void)state;
    counting memory = {0};
    const mlxn_allocator allocator = counting_allocator(&memory);
    mlxn_device *device;
    OK(mlxn_device_open("cuda:0", &(mlxn_device_options){.size = sizeof(mlxn_device_options), .allocator = &allocator},
                        &device));
    OK(cuda_add_kernels(device));
    mlxn_buffer *buffer[] = {test_vector(device, MLXN_F32, 64), test_vector(device, MLXN_F32, 64)};
    mlxn_encoder *encoder = test_encoder(device);
    for (int round = 0; round < 4; round++) {
        const fake_driver before = fake;
        const size_t allocations = memory.allocations;
        OK(mlxn_encoder_reset(encoder));
        cuda_record(encoder, "add", buffer, 2, 1);
        OK(mlxn_encoder_commit_and_wait(encoder));
        if (round == 0)
            cuda_expect(buffer[0], 0); /* the fills are done */
        if (round < 2)
            continue;
        assert_int_equal(fake.calls[FAKE_LaunchKernel] - before.calls[FAKE_LaunchKernel], 1);
        assert_int_equal(fake.calls[FAKE_StreamSynchronize] - before.calls[FAKE_StreamSynchronize], 1);
        assert_int_equal(fake.calls[FAKE_CtxPushCurrent] - before.calls[FAKE_CtxPushCurrent], 2);
        assert_int_equal(fake.all_calls - before.all_calls, 6);
        assert_int_equal(memory.allocations, allocations);
    }
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(buffer[0]);
    mlxn_buffer_destroy(buffer[1]);
    mlxn_device_destroy(device);
}

/* The second commit makes a graph, the third launches it again; where there are no graphs all is launched. */
static void replay(bool graphs) {
    fake.no_graphs = !graphs;
    mlxn_device *device = cuda_device();
    mlxn_buffer *buffer[] = {test_vector(device, MLXN_F32, 64)};
    mlxn_encoder *encoder = test_encoder(device);
    const fake_driver before = fake;
    for (int i = 0; i < 10; i++)
        cuda_record(encoder, "twice", buffer, 1, i == 0 ? 1 : 0);
    float expected = 0;
    for (int i = 0; i < 3; i++) {
        OK(mlxn_encoder_commit(encoder));
        expected = (2 * expected + 1) * 512;
    }
    OK(mlxn_encoder_wait(encoder));
    cuda_expect(buffer[0], expected);
    assert_int_equal(fake.calls[FAKE_GraphInstantiate] - before.calls[FAKE_GraphInstantiate], 1);
    assert_int_equal(fake.calls[FAKE_GraphLaunch] - before.calls[FAKE_GraphLaunch], graphs ? 2 : 0);
    assert_int_equal(fake.calls[FAKE_LaunchKernel] - before.calls[FAKE_LaunchKernel], graphs ? 10 : 30);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(buffer[0]);
    mlxn_device_destroy(device);
}

static void test_replay(void **state) {
    (void)state;
    replay(true);
    replay(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_worlds, cuda_teardown),
        cmocka_unit_test_teardown(test_independent_lists_do_not_wait, cuda_teardown),
        cmocka_unit_test_teardown(test_one_op_costs_a_launch_and_a_wait, cuda_teardown),
        cmocka_unit_test_teardown(test_replay, cuda_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
