/* The device list, opening devices, environment variables, threads. */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static int clear_environment(void **state) {
    (void)state;
    return unsetenv("MLXN_DEVICE") | unsetenv("MLXN_MAX_ISA");
}

static void list_of_devices(void **state) {
    (void)state;
    const size_t count = mlxn_device_count();
    assert_true(count >= 1);
    size_t defaults = 0, cpus = 0;
    for (size_t i = 0; i < count; i++) {
        mlxn_device_info info = {.size = sizeof info};
        OK(mlxn_device_at(i, &info));
        assert_int_equal(info.size, sizeof info);
        assert_true(info.name[0] != '\0');
        defaults += info.is_default;
        if (strcmp(info.name, "cpu") == 0) {
            cpus++;
            assert_true(info.available);
            assert_true(info.threads >= 1);
            assert_true(info.cache_bytes > 0);
            assert_true(info.description[0] != '\0');
            assert_true(info.detail[0] != '\0');
        }
        mlxn_device *device = NULL;
        if (info.available) {
            OK(mlxn_device_open(info.name, NULL, &device));
            mlxn_device_info opened = {.size = sizeof opened};
            OK(mlxn_device_get_info(device, &opened));
            assert_string_equal(opened.name, info.name);
            assert_true(opened.available);
            mlxn_device_destroy(device);
        } else {
            assert_true(info.reason[0] != '\0');
            assert_false(info.is_default);
            FAILS(MLXN_NOT_FOUND, mlxn_device_open(info.name, NULL, &device));
            assert_null(device);
        }
    }
    assert_int_equal(defaults, 1);
    assert_int_equal(cpus, 1);
    mlxn_device_info info = {.size = sizeof info};
    FAILS(MLXN_NOT_FOUND, mlxn_device_at(count, &info));
    FAILS(MLXN_NOT_FOUND, mlxn_device_at(SIZE_MAX, &info));
}

/* Every kind of device has its place in the list, its devices together and numbered from 0, or one entry that says why
 * there is none; a backend is not forgotten because its driver is. */
static void every_kind_is_listed(void **state) {
    (void)state;
    static const char *const kinds[] = {"cpu", "cuda", "opencl"};
    size_t index = 0;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        const size_t length = strlen(kinds[kind]), first = index;
        for (; index < mlxn_device_count(); index++) {
            mlxn_device_info info = {.size = sizeof info};
            OK(mlxn_device_at(index, &info));
            if (strncmp(info.name, kinds[kind], length) != 0)
                break;
            char numbered[32];
            snprintf(numbered, sizeof numbered, "%s:%zu", kinds[kind], index - first);
            if (strcmp(info.name, kinds[kind]) == 0)
                assert_true(kind == 0 || !info.available);
            else
                assert_string_equal(info.name, numbered);
            if (info.available)
                assert_true(info.description[0] != '\0');
            else
                print_message("%s: %s\n", info.name, info.reason);
        }
        if (index == first)
            fail_msg("no %s in the list", kinds[kind]);
    }
    assert_int_equal(index, mlxn_device_count());
}

/* The first graphics processor, else the CPU, not something that a processor stands in for. */
static void the_default_is_the_best(void **state) {
    (void)state;
    mlxn_device_info best = {.size = sizeof best};
    OK(mlxn_device_at(0, &best));
    assert_string_equal(best.name, "cpu");
    for (size_t i = 1; i < mlxn_device_count() && !best.gpu; i++) {
        mlxn_device_info info = {.size = sizeof info};
        OK(mlxn_device_at(i, &info));
        if (info.available && info.gpu)
            best = info;
    }
    mlxn_device *device;
    mlxn_device_info opened = {.size = sizeof opened};
    OK(mlxn_device_open(NULL, NULL, &device));
    OK(mlxn_device_get_info(device, &opened));
    assert_string_equal(opened.name, best.name);
    mlxn_device_destroy(device);
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"", "CPU", "cpu ", "cpu:1", "tpu", "cuda:99", "opencl:-1", "cuda:"};
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        mlxn_device *device = (mlxn_device *)8;
        FAILS(MLXN_NOT_FOUND, mlxn_device_open(names[i], NULL, &device));
        assert_null(device);
        assert_non_null(strstr(mlxn_last_error(), names[i]));
    }
    char endless[5000];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    mlxn_device *device = NULL;
    FAILS(MLXN_NOT_FOUND, mlxn_device_open(endless, NULL, &device));
}

static void variable_names_the_device(void **state) {
    (void)state;
    mlxn_device *device = NULL;
    mlxn_device_info info = {.size = sizeof info};
    static const char *const values[] = {"cpu", ""};
    for (size_t i = 0; i < 2; i++) {
        setenv("MLXN_DEVICE", values[i], 1);
        OK(mlxn_device_open(NULL, NULL, &device));
        OK(mlxn_device_get_info(device, &info));
        assert_true(values[i][0] == '\0' || strcmp(info.name, "cpu") == 0);
        mlxn_device_destroy(device);
    }
    setenv("MLXN_DEVICE", "cuda:77", 1);
    FAILS_WITH(MLXN_NOT_FOUND, "cuda:77", mlxn_device_open(NULL, NULL, &device));
    assert_null(device);
    assert_non_null(strstr(mlxn_last_error(), "MLXN_DEVICE"));
    OK(mlxn_device_open("cpu", NULL, &device)); /* a name given goes before the variable */
    mlxn_device_destroy(device);
    unsetenv("MLXN_DEVICE");
}

static void variable_caps_the_instruction_set(void **state) {
    (void)state;
    mlxn_device *device = NULL;
    static const char *const wrong[] = {"sse9", "AVX2", "avx2 ", "avx"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("MLXN_MAX_ISA", wrong[i], 1);
        FAILS_WITH(MLXN_INVALID_ARGUMENT, "MLXN_MAX_ISA", mlxn_device_open("cpu", NULL, &device));
        assert_null(device);
        assert_non_null(strstr(mlxn_last_error(), wrong[i]));
    }
    /* The list is still readable, and a call that succeeds leaves the message alone. */
    mlxn_dtype dtype;
    FAILS(MLXN_NOT_FOUND, mlxn_dtype_from_name("kept", &dtype));
    for (size_t i = 0; i < mlxn_device_count(); i++) {
        mlxn_device_info info = {.size = sizeof info};
        OK(mlxn_device_at(i, &info));
    }
    assert_non_null(strstr(mlxn_last_error(), "kept"));
    for (size_t i = 0; i < test_isa_count; i++) {
        mlxn_device_info info = {.size = sizeof info};
        device = test_device_isa(test_isas[i], 1);
        OK(mlxn_device_get_info(device, &info));
        assert_true(i > 0 || strstr(info.detail, test_isas[0]) != NULL);
        mlxn_device_destroy(device);
    }
    unsetenv("MLXN_MAX_ISA");
}

static void options_are_checked(void **state) {
    (void)state;
    mlxn_device *device = NULL;
    mlxn_device_options options = {.size = 0};
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "size", mlxn_device_open("cpu", &options, &device));
    options.size = sizeof options + 8;
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "size", mlxn_device_open("cpu", &options, &device));
    options.size = sizeof options;
    const mlxn_allocator broken = {0};
    options.allocator = &broken;
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "allocator", mlxn_device_open("cpu", &options, &device));
    options.allocator = NULL;
    options.threads = SIZE_MAX;
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "threads", mlxn_device_open("cpu", &options, &device));
    mlxn_device_info info = {.size = sizeof info - 1};
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "size", mlxn_device_at(0, &info));
    info.size = 0;
    device = test_device(1);
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "size", mlxn_device_get_info(device, &info));
    mlxn_device_destroy(device);
}

static void threads_as_asked(void **state) {
    (void)state;
    for (size_t threads = 1; threads <= 9; threads += 2) {
        mlxn_device *device = test_device(threads);
        mlxn_device_info info = {.size = sizeof info};
        OK(mlxn_device_get_info(device, &info));
        assert_int_equal(info.threads, threads);
        mlxn_device_destroy(device);
    }
}

/* Default threads of a child that may run on `processors` processors. */
static size_t threads_on(size_t processors) {
    const pid_t child = fork();
    if (child == 0) {
        cpu_set_t old, set;
        sched_getaffinity(0, sizeof old, &old);
        CPU_ZERO(&set);
        for (size_t i = 0; i < CPU_SETSIZE && (size_t)CPU_COUNT(&set) < processors; i++)
            if (CPU_ISSET(i, &old))
                CPU_SET(i, &set);
        sched_setaffinity(0, sizeof set, &set);
        mlxn_device *device = NULL;
        mlxn_device_info info = {.size = sizeof info};
        if (mlxn_device_open("cpu", NULL, &device) != MLXN_OK || mlxn_device_get_info(device, &info) != MLXN_OK)
            _exit(99);
        _exit((int)info.threads);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (size_t)WEXITSTATUS(status);
}

static void threads_follow_affinity(void **state) {
    (void)state;
    assert_int_equal(threads_on(1), 1);
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_true(threads_on((size_t)CPU_COUNT(&set)) <= (size_t)CPU_COUNT(&set));
}

static size_t resident_pages(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    size_t total = 0, resident = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu", &total, &resident), 2);
    fclose(file);
    return resident;
}

static void cycle(size_t threads) {
    mlxn_device *device = test_device(threads);
    mlxn_buffer *x = test_vector(device, MLXN_F32, 4096), *y = test_vector(device, MLXN_F32, 4096);
    mlxn_buffer *view;
    OK(mlxn_buffer_view(x, 0, 1, (const int64_t[]){4096}, &view));
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_exp(encoder, view, y);
    OK(mlxn_encoder_commit_and_wait(encoder));
    mlxn_buffer_destroy(view);
    mlxn_buffer_destroy(x);
    mlxn_device_destroy(device);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
}

static void a_thousand_cycles_leave_memory_flat(void **state) {
    (void)state;
    const int cycles = test_is_slow_here() ? 100 : 1000;
    for (int i = 0; i < 50; i++)
        cycle(1);
    const size_t before = resident_pages();
    for (int i = 0; i < cycles; i++)
        cycle(1);
    const size_t after = resident_pages();
    /* A leak of one buffer a cycle would be 4000 pages. The sanitizers keep freed memory for a while. */
    if (!test_is_slow_here())
        assert_true(after < before + 100);
}

/* The device lives as long as what was made on it. */
static void destroyed_before_its_buffers(void **state) {
    (void)state;
    mlxn_device *device = test_device(2);
    mlxn_buffer *x = test_vector(device, MLXN_F32, 1 << 20), *y = test_vector(device, MLXN_F32, 1 << 20);
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_device_destroy(device);
    mlxn_exp(encoder, x, y);
    OK(mlxn_encoder_commit_and_wait(encoder));
    float value = 0;
    OK(mlxn_buffer_read(y, 4, 4, &value));
    assert_true(value == 1.0f);
    mlxn_buffer_destroy(x);
    mlxn_encoder_destroy(encoder);
    OK(mlxn_buffer_read(y, 8, 4, &value));
    mlxn_buffer_destroy(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(list_of_devices, clear_environment),
        cmocka_unit_test_setup(every_kind_is_listed, clear_environment),
        cmocka_unit_test_setup(the_default_is_the_best, clear_environment),
        cmocka_unit_test_setup(unknown_names_are_refused, clear_environment),
        cmocka_unit_test_setup(variable_names_the_device, clear_environment),
        cmocka_unit_test_setup(variable_caps_the_instruction_set, clear_environment),
        cmocka_unit_test_setup(options_are_checked, clear_environment),
        cmocka_unit_test_setup(threads_as_asked, clear_environment),
        cmocka_unit_test_setup(threads_follow_affinity, clear_environment),
        cmocka_unit_test_setup(destroyed_before_its_buffers, clear_environment),
        cmocka_unit_test_setup(a_thousand_cycles_leave_memory_flat, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
