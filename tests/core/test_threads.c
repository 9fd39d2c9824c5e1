/* Many threads on one device: each with its own encoder, some sharing memory, creating and destroying all the while. */
#include <pthread.h>

#include "support/test.h"

enum { MOST_THREADS = 8 };

static mlxn_device *device;

typedef struct worker {
    pthread_t thread;
    size_t index;
    int rounds;
    mlxn_buffer *shared_input, *shared_sum;
    mlxn_status status;
    const char *what;
} worker;

static bool failed(worker *w, mlxn_status status, const char *what) {
    if (status == MLXN_OK)
        return false;
    w->status = status;
    w->what = what;
    return true;
}

/* x = (2 * x) * x on memory of its own, checked; and the shared sum goes up by 1. */
static bool one_round(worker *w, mlxn_encoder *encoder, int64_t count) {
    mlxn_buffer *x = NULL, *y = NULL, *view = NULL, *one = NULL;
    const float value = (float)w->index + 1, unit = 1;
    float *data = NULL;
    bool bad = failed(w, mlxn_buffer_create(device, MLXN_F32, 1, &count, &x), "create x") ||
               failed(w, mlxn_buffer_create(device, MLXN_F32, 1, &count, &y), "create y") ||
               failed(w, mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){1}, &one), "create one") ||
               failed(w, mlxn_buffer_view(w->shared_input, (int64_t)w->index, 1, &count, &view), "view") ||
               failed(w, mlxn_buffer_map(x, (void **)&data), "map") ||
               failed(w, mlxn_buffer_write(one, 0, 4, &unit), "write");
    for (int64_t i = 0; !bad && i < count; i++)
        data[i] = value;
    if (!bad) {
        mlxn_encoder_reset(encoder);
        mlxn_mul(encoder, x, view, y); /* the shared input is 2 everywhere */
        mlxn_mul(encoder, y, x, x);
        mlxn_exp_backward(encoder, one, one, w->shared_sum, MLXN_ACCUMULATE);
        bad = failed(w, mlxn_encoder_commit_and_wait(encoder), "commit");
    }
    for (int64_t i = 0; !bad && i < count; i++)
        if (data[i] != 2 * value * value)
            bad = failed(w, MLXN_DEVICE_FAILED, "a wrong result");
    mlxn_buffer_destroy(view);
    mlxn_buffer_destroy(one);
    mlxn_buffer_destroy(y);
    mlxn_buffer_destroy(x);
    return bad;
}

static void *work(void *context) {
    worker *w = context;
    mlxn_encoder *encoder = NULL;
    if (failed(w, mlxn_encoder_create(device, NULL, &encoder), "create encoder"))
        return NULL;
    for (int round = 0; round < w->rounds; round++) {
        /* Small work runs in the calling thread, large work in the pool. */
        if (one_round(w, encoder, round % 4 == 0 ? 90000 : 100 + round))
            break;
    }
    mlxn_encoder_destroy(encoder);
    return NULL;
}

static void run_threads(size_t threads, int rounds) {
    worker workers[MOST_THREADS];
    mlxn_buffer *input = test_vector(device, MLXN_F32, 100000), *sum = test_vector(device, MLXN_F32, 1);
    float *data, got;
    OK(mlxn_buffer_map(input, (void **)&data));
    for (int i = 0; i < 100000; i++)
        data[i] = 2;
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (worker){.index = i, .rounds = rounds, .shared_input = input, .shared_sum = sum};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < threads; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (size_t i = 0; i < threads; i++)
        if (workers[i].what != NULL)
            fail_msg("thread %zu: %s: %s", i, workers[i].what, mlxn_status_text(workers[i].status));
    OK(mlxn_buffer_read(sum, 0, 4, &got));
    assert_true(got == (float)(threads * (size_t)rounds));
    mlxn_buffer_destroy(input);
    mlxn_buffer_destroy(sum);
}

static void threads_with_encoders_of_their_own(void **state) {
    (void)state;
    static const size_t pools[] = {1, 2, 3};
    for (size_t i = 0; i < 3; i++) {
        device = test_device(pools[i]);
        run_threads(2, test_is_slow_here() ? 20 : 300);
        run_threads(8, test_is_slow_here() ? 10 : 100);
        mlxn_device_destroy(device);
    }
}

static pthread_barrier_t all_are_there;

/* Adds 1 to all of the shared vector, again and again, by a list that is committed again and again. */
static void *add_ones(void *context) {
    worker *w = context;
    mlxn_encoder *encoder = NULL;
    pthread_barrier_wait(&all_are_there);
    if (failed(w, mlxn_encoder_create(device, NULL, &encoder), "create encoder")) {
        return NULL;
    }
    mlxn_exp_backward(encoder, w->shared_input, w->shared_input, w->shared_sum, MLXN_ACCUMULATE);
    for (int round = 0; round < w->rounds; round++) {
        if (failed(w, mlxn_encoder_commit_and_wait(encoder), "commit")) {
            break;
        }
    }
    mlxn_encoder_destroy(encoder);
    return NULL;
}

/* Lists that write the same memory run one after the other, whichever threads commit them; none gets lost. */
static void lists_on_shared_memory_take_turns(void **state) {
    (void)state;
    enum { ADDERS = 4, COUNT = 8192 };
    const int rounds = test_is_slow_here() ? 200 : 4000;
    worker workers[ADDERS];
    device = test_device(2);
    mlxn_buffer *ones = test_vector(device, MLXN_F32, COUNT), *sum = test_vector(device, MLXN_F32, COUNT);
    float *data;
    OK(mlxn_buffer_map(ones, (void **)&data));
    for (int i = 0; i < COUNT; i++) {
        data[i] = 1;
    }
    assert_int_equal(pthread_barrier_init(&all_are_there, NULL, ADDERS), 0);
    for (size_t i = 0; i < ADDERS; i++) {
        workers[i] = (worker){.index = i, .rounds = rounds, .shared_input = ones, .shared_sum = sum};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, add_ones, &workers[i]), 0);
    }
    for (size_t i = 0; i < ADDERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
    pthread_barrier_destroy(&all_are_there);
    OK(mlxn_buffer_map(sum, (void **)&data));
    for (int i = 0; i < COUNT; i++) {
        if (data[i] != (float)(ADDERS * rounds)) {
            fail_msg("sum[%d] is %.0f, expected %d", i, (double)data[i], ADDERS * rounds);
        }
    }
    mlxn_buffer_destroy(ones);
    mlxn_buffer_destroy(sum);
    mlxn_device_destroy(device);
}

static void nothing(const mlxn_call *call, uint64_t begin, uint64_t end) {
    (void)call;
    (void)begin;
    (void)end;
}

/* Adds kernels and looks all of them up, while others do the same. */
static void *add_kernels(void *context) {
    worker *w = context;
    char name[32];
    for (int i = 0; i < w->rounds; i++) {
        snprintf(name, sizeof name, "kernel %zu %d", w->index, i);
        if (failed(w, mlxn_registry_add_function(device, name, nothing), "add"))
            return NULL;
        if (mlxn_registry_add_function(device, name, nothing) != MLXN_ALREADY_EXISTS)
            w->what = "added twice";
        const size_t count = mlxn_registry_count(device);
        for (size_t k = 0; k < count; k += 17)
            if (mlxn_registry_name(device, k) == NULL)
                w->what = "a name is missing";
    }
    return NULL;
}

/* Opens and closes devices of its own, while the others do. */
static void *open_and_close(void *context) {
    worker *w = context;
    for (int i = 0; i < w->rounds; i++) {
        mlxn_device *own = NULL;
        mlxn_device_info info = {.size = sizeof info};
        const mlxn_device_options options = {.size = sizeof options, .threads = 1 + w->index % 3};
        if (failed(w, mlxn_device_open("cpu", &options, &own), "open") ||
            failed(w, mlxn_device_get_info(own, &info), "info") || failed(w, mlxn_device_at(0, &info), "list")) {
            return NULL;
        }
        mlxn_device_destroy(own);
    }
    return NULL;
}

static void run_plain(size_t threads, void *(*function)(void *), int rounds) {
    worker workers[MOST_THREADS];
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (worker){.index = i, .rounds = rounds};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, function, &workers[i]), 0);
    }
    for (size_t i = 0; i < threads; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (size_t i = 0; i < threads; i++)
        if (workers[i].what != NULL)
            fail_msg("thread %zu: %s", i, workers[i].what);
}

static void registry_from_many_threads(void **state) {
    (void)state;
    device = test_device(1);
    const size_t before = mlxn_registry_count(device);
    run_plain(8, add_kernels, 100);
    assert_int_equal(mlxn_registry_count(device), before + 800);
    mlxn_device_destroy(device);
}

static void devices_from_many_threads(void **state) {
    (void)state;
    run_plain(8, open_and_close, test_is_slow_here() ? 10 : 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_with_encoders_of_their_own),
        cmocka_unit_test(lists_on_shared_memory_take_turns),
        cmocka_unit_test(registry_from_many_threads),
        cmocka_unit_test(devices_from_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
