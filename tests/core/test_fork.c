/* fork after use: the CPU device works in the child and goes on working in the parent. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

/* Neither ThreadSanitizer nor qemu-user allows threads in a forked child. */
static bool threads_after_fork(void) {
#if defined(__SANITIZE_THREAD__)
    return false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    return false;
#endif
#endif
    return !test_is_emulated();
}

static mlxn_device *device;
static mlxn_buffer *x, *y;
static mlxn_encoder *encoder;
enum { COUNT = 1 << 18 };

static void prepare(size_t threads) {
    device = test_device(threads);
    x = test_vector(device, MLXN_F32, COUNT);
    y = test_vector(device, MLXN_F32, COUNT);
    encoder = test_encoder(device);
    float *data;
    OK(mlxn_buffer_map(x, (void **)&data));
    for (int i = 0; i < COUNT; i++)
        data[i] = 3;
    OK(mlxn_mul(encoder, x, x, y));
}

static void finish(void) {
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
    mlxn_device_destroy(device);
}

/* 0 if the list, committed once more, gives the right result everywhere; else the number of the step that failed. */
static int use(void) {
    float *data;
    if (mlxn_buffer_map(y, (void **)&data) != MLXN_OK)
        return 1;
    memset(data, 0, COUNT * sizeof *data);
    if (mlxn_encoder_commit_and_wait(encoder) != MLXN_OK)
        return 2;
    for (int i = 0; i < COUNT; i++)
        if (data[i] != 9)
            return 3;
    return 0;
}

/* What a child does: all that the parent could, on the parent's device and on one of its own. */
static int in_child(void) {
    alarm(60); /* a hang is a failure */
    int step = use();
    if (step != 0)
        return step;
    mlxn_device *own = NULL;
    mlxn_buffer *a = NULL;
    mlxn_encoder *other = NULL;
    if (mlxn_device_open("cpu", NULL, &own) != MLXN_OK)
        return 4;
    if (mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){COUNT}, &a) != MLXN_OK)
        return 5;
    if (mlxn_encoder_create(device, NULL, &other) != MLXN_OK)
        return 6;
    mlxn_mul(other, y, x, a);
    if (mlxn_encoder_commit_and_wait(other) != MLXN_OK)
        return 7;
    float value = 0;
    if (mlxn_buffer_read(a, 4 * (COUNT - 1), 4, &value) != MLXN_OK || value != 27)
        return 8;
    mlxn_encoder_destroy(other);
    mlxn_buffer_destroy(a);
    mlxn_device_destroy(own);
    finish();
    return 0;
}

static void expect_success(pid_t child) {
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child ended with %s %d", WIFEXITED(status) ? "step" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static void child_and_parent_work(void **state) {
    (void)state;
    if (!threads_after_fork())
        skip();
    for (size_t threads = 1; threads <= 4; threads++)
        for (int used = 0; used < 2; used++) { /* with the pool started before the fork, or not yet */
            prepare(threads);
            if (used != 0)
                assert_int_equal(use(), 0);
            for (int round = 0; round < 3; round++) {
                const pid_t child = fork();
                if (child == 0)
                    _exit(in_child());
                assert_int_equal(use(), 0);
                expect_success(child);
            }
            assert_int_equal(use(), 0);
            finish();
        }
}

static void grandchildren_work(void **state) {
    (void)state;
    if (!threads_after_fork())
        skip();
    prepare(3);
    assert_int_equal(use(), 0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        if (use() != 0)
            _exit(1);
        const pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(in_child());
        int status = 1;
        waitpid(grandchild, &status, 0);
        _exit(status == 0 && use() == 0 ? 0 : 2);
    }
    expect_success(child);
    finish();
}

static atomic_bool stop, broken;

static void *commit_all_the_time(void *context) {
    (void)context;
    mlxn_buffer *z = NULL;
    mlxn_encoder *own = NULL;
    if (mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){COUNT}, &z) != MLXN_OK ||
        mlxn_encoder_create(device, NULL, &own) != MLXN_OK) {
        atomic_store(&broken, true);
        return NULL;
    }
    mlxn_mul(own, x, x, z);
    while (!atomic_load(&stop))
        if (mlxn_encoder_commit_and_wait(own) != MLXN_OK)
            atomic_store(&broken, true);
    mlxn_encoder_destroy(own);
    mlxn_buffer_destroy(z);
    return NULL;
}

static void *register_all_the_time(void *context) {
    (void)context;
    mlxn_dtype dtype;
    while (!atomic_load(&stop)) {
        mlxn_device *own = NULL;
        if (mlxn_device_open("cpu", NULL, &own) != MLXN_OK)
            atomic_store(&broken, true);
        mlxn_device_destroy(own);
        if (mlxn_dtype_from_name("none", &dtype) == MLXN_OK)
            atomic_store(&broken, true);
    }
    return NULL;
}

static void fork_while_others_work(void **state) {
    (void)state;
    if (!threads_after_fork())
        skip();
    prepare(2);
    atomic_store(&stop, false);
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, commit_all_the_time, NULL), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, register_all_the_time, NULL), 0);
    for (int round = 0; round < (test_is_slow_here() ? 5 : 40); round++) {
        const pid_t child = fork();
        if (child == 0)
            _exit(in_child());
        expect_success(child);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_false(atomic_load(&broken));
    assert_int_equal(use(), 0);
    finish();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child_and_parent_work),
        cmocka_unit_test(grandchildren_work),
        cmocka_unit_test(fork_while_others_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
