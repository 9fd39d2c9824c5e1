/* A driver that fails, and a process that forks: every call returns an error, and what can work afterwards does. */
#include <sys/wait.h>
#include <unistd.h>

#include "opencl_test.h"

static mlxn_device *device;
static mlxn_buffer *y;
static mlxn_encoder *encoder;

/* The function that fails next, so many times, and what with. */
static const char *failing;
static int failures, code;

static bool fails(const char *name) {
    return failing != NULL && strcmp(failing, name) == 0 && failures-- > 0;
}

/* The replaced functions have at most ten arguments, all of the size of a pointer or less; the calling conventions of the
 * processors that the tests run on pass them on as they came. */
typedef void *word;
typedef int (*ten)(word, word, word, word, word, word, word, word, word, word);

#define FAKE_INT(name)                                                                                       \
    static int fake_##name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j) { \
        ten real;                                                                                            \
        *(void **)&real = real_function("cl" #name);                                                         \
        return fails("cl" #name) ? code : real(a, b, c, d, e, f, g, h, i, j);                                \
    }
FAKE_INT(EnqueueReadBuffer)
FAKE_INT(EnqueueWriteBuffer)
FAKE_INT(EnqueueFillBuffer)
FAKE_INT(Flush)
FAKE_INT(Finish)

static int arguments_set;

static int fake_SetKernelArg(word kernel, unsigned index, size_t bytes, word value) {
    int (*real)(word, unsigned, size_t, word);
    *(void **)&real = real_function("clSetKernelArg");
    arguments_set++;
    return fails("clSetKernelArg") ? code : real(kernel, index, bytes, value);
}

static unsigned events_waited_for; /* by the last dispatch */

static int fake_EnqueueNDRangeKernel(word queue, word kernel, unsigned dimensions, word offset, word global, word local,
                                     unsigned event_count, word events, word event) {
    int (*real)(word, word, unsigned, word, word, word, unsigned, word, word);
    *(void **)&real = real_function("clEnqueueNDRangeKernel");
    events_waited_for = event_count;
    return fails("clEnqueueNDRangeKernel")
               ? code
               : real(queue, kernel, dimensions, offset, global, local, event_count, events, event);
}

static char options_seen[512]; /* by the compiler */
static int builds;

static int fake_BuildProgram(word program, unsigned count, word devices, const char *options, word notify,
                             word context) {
    int (*real)(word, unsigned, word, const char *, word, word);
    *(void **)&real = real_function("clBuildProgram");
    snprintf(options_seen, sizeof options_seen, "%s", options);
    builds++;
    return fails("clBuildProgram") ? code : real(program, count, devices, options, notify, context);
}

static void *fake_create_buffer(void *context, uint64_t flags, size_t bytes, void *host, int *error) {
    void *(*real)(void *, uint64_t, size_t, void *, int *);
    *(void **)&real = real_function("clCreateBuffer");
    if (!fails("clCreateBuffer"))
        return real(context, flags, bytes, host, error);
    *error = code;
    return NULL;
}

/* The work itself fails: its event says so. */
static int fake_get_event_info(void *event, unsigned what, size_t bytes, void *value, size_t *needed) {
    int (*real)(void *, unsigned, size_t, void *, size_t *);
    *(void **)&real = real_function("clGetEventInfo");
    const int error = real(event, what, bytes, value, needed);
    if (error == 0 && bytes == sizeof code && fails("execution"))
        memcpy(value, &code, sizeof code);
    return error;
}

static int prepare(void **state) {
    (void)state;
    failing = NULL;
    device = NULL;
    encoder = NULL;
    y = NULL;
    return 0;
}

static void open_and_record(void) {
    device = opencl_device(NULL);
    opencl_kernel(device, "kernel void k(global int *y, ulong at) { y[0] += 1; }\n");
    y = test_vector(device, MLXN_I32, 1);
    encoder = test_encoder(device);
    OK(opencl_record(encoder, &(opencl_dispatch){.bindings = (const mlxn_binding[]){{y, MLXN_READ_WRITE}, {0}}}));
}

static int clean(void **state) {
    (void)state;
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
    mlxn_device_destroy(device);
    return 0;
}

static int value(void) {
    int32_t found = -1;
    OK(mlxn_buffer_read(y, 0, 4, &found));
    return found;
}

static void fail_next(const char *name, int with) {
    failing = name;
    failures = 1;
    code = with;
}

static void commits_that_fail(void **state) {
    (void)state;
    open_and_record();
    static const struct {
        const char *name;
        int code;
        mlxn_status status;
        const char *text;
    } cases[] = {
        {"clEnqueueNDRangeKernel", -5, MLXN_DEVICE_FAILED, "CL_OUT_OF_RESOURCES (-5)"},
        {"clEnqueueNDRangeKernel", -6, MLXN_OUT_OF_MEMORY, "CL_OUT_OF_HOST_MEMORY (-6)"},
        {"clEnqueueNDRangeKernel", -9999, MLXN_DEVICE_FAILED, "an unknown error (-9999)"},
        {"clEnqueueNDRangeKernel", -54, MLXN_INVALID_ARGUMENT, "CL_INVALID_WORK_GROUP_SIZE (-54)"},
        {"clSetKernelArg", -51, MLXN_INVALID_ARGUMENT, "CL_INVALID_ARG_SIZE (-51)"},
        {"clSetKernelArg", -38, MLXN_DEVICE_FAILED, "CL_INVALID_MEM_OBJECT (-38)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int before = value();
        fail_next(cases[i].name, cases[i].code);
        FAILS_WITH(cases[i].status, cases[i].text, mlxn_encoder_commit(encoder));
        assert_non_null(strstr(mlxn_last_error(), cases[i].name));
        assert_non_null(strstr(mlxn_last_error(), "opencl:"));
        OK(mlxn_encoder_wait(encoder));
        assert_int_equal(value(), before);
        OK(mlxn_encoder_commit_and_wait(encoder));
        assert_int_equal(value(), before + 1);
    }
    fail_next("clFlush", -36);
    FAILS_WITH(MLXN_DEVICE_FAILED, "clFlush", mlxn_encoder_commit(encoder));
    OK(mlxn_encoder_wait(encoder));
}

/* The driver finds out that constants are of a wrong size: before anything of the list has run, with timing or without. And
 * what it has taken once it is not asked about again. */
static void constants_of_a_wrong_size(void **state) {
    (void)state;
    device = opencl_device(NULL);
    opencl_kernel(device, "kernel void k(global int *y, ulong at, int2 c) { y[0] += c.x; }\n");
    y = test_vector(device, MLXN_I32, 1);
    const int32_t constants[4] = {1};
    for (int timing = 0; timing < 2; timing++) {
        OK(mlxn_encoder_create(
            device, &(mlxn_encoder_options){.size = sizeof(mlxn_encoder_options), .timing = timing > 0}, &encoder));
        const int before = value();
        opencl_dispatch dispatch = {
            .bindings = (const mlxn_binding[]){{y, MLXN_READ_WRITE}, {0}}, .constants = constants, .constant_bytes = 8};
        OK(opencl_record(encoder, &dispatch));
        dispatch.constant_bytes = 16;
        OK(opencl_record(encoder, &dispatch));
        for (int i = 0; i < 2; i++) {
            FAILS_WITH(MLXN_INVALID_ARGUMENT, "clSetKernelArg for k gave CL_INVALID_ARG_SIZE",
                       mlxn_encoder_commit(encoder));
            OK(mlxn_encoder_wait(encoder));
            assert_int_equal(value(), before);
        }
        OK(mlxn_encoder_reset(encoder));
        dispatch.constant_bytes = 8;
        OK(opencl_record(encoder, &dispatch));
        OK(opencl_record(encoder, &dispatch));
        OK(mlxn_encoder_commit_and_wait(encoder));
        arguments_set = 0;
        OK(mlxn_encoder_commit_and_wait(encoder));
        assert_int_equal(arguments_set, 2 * 3);
        assert_int_equal(value(), before + 4);
        mlxn_encoder_destroy(encoder);
        encoder = NULL;
    }
}

static void compilations_that_fail(void **state) {
    (void)state;
    open_and_record();
    assert_non_null(strstr(options_seen, "-cl-fp32-correctly-rounded-divide-sqrt"));
    assert_null(strstr(options_seen, "-cl-fast"));
    assert_null(strstr(options_seen, "-cl-mad"));
    assert_null(strstr(options_seen, "-cl-unsafe"));
    OK(mlxn_registry_add_source(device, "other", "kernel void other(global int *y, ulong at) { y[0] += 1; }\n"));
    const mlxn_dispatch dispatch = {.size = sizeof dispatch,
                                    .kernel = "other",
                                    .bindings = &(mlxn_binding){y, MLXN_READ_WRITE},
                                    .binding_count = 1,
                                    .grid = {1, 1, 1},
                                    .group = {1, 1, 1}};
    mlxn_encoder *other = test_encoder(device);
    fail_next("clBuildProgram", -6);
    FAILS_WITH(MLXN_OUT_OF_MEMORY, "CL_OUT_OF_HOST_MEMORY (-6)", mlxn_encoder_dispatch(other, &dispatch));
    OK(mlxn_encoder_reset(other));
    OK(mlxn_encoder_dispatch(other, &dispatch)); /* tried again */
    OK(mlxn_encoder_commit_and_wait(other));
    assert_int_equal(value(), 1);

    /* A text that is wrong is compiled once, and its failure kept. */
    OK(mlxn_registry_add_source(device, "wrong", "kernel void wrong(global int *y, ulong at) { y[0] = unknown; }\n"));
    mlxn_dispatch refused = dispatch;
    refused.kernel = "wrong";
    const int before = builds;
    for (int i = 0; i < 3; i++) {
        OK(mlxn_encoder_reset(other));
        FAILS_WITH(MLXN_COMPILE_FAILED, "unknown", mlxn_encoder_dispatch(other, &refused));
        FAILS(MLXN_INVALID_ARGUMENT, mlxn_encoder_dispatch(NULL, NULL)); /* another message between */
    }
    assert_int_equal(builds, before + 1);
    OK(mlxn_encoder_reset(other));
    OK(mlxn_encoder_dispatch(other, &dispatch)); /* and other kernels work */
    OK(mlxn_encoder_commit_and_wait(other));
    assert_int_equal(value(), 2);
    mlxn_encoder_destroy(other);
}

/* wait returns the failure of the work, once. */
static void work_that_fails(void **state) {
    (void)state;
    open_and_record();
    OK(mlxn_encoder_commit(encoder));
    fail_next("execution", -5);
    FAILS_WITH(MLXN_DEVICE_FAILED, "executing k gave CL_OUT_OF_RESOURCES (-5)", mlxn_encoder_wait(encoder));
    OK(mlxn_encoder_wait(encoder));
    OK(mlxn_encoder_commit_and_wait(encoder));

    /* Committed again meanwhile: by waiting for the earlier commit the later one fails with it. */
    assert_int_equal(events_waited_for, 0);
    OK(mlxn_encoder_commit(encoder));
    OK(mlxn_encoder_commit(encoder));
    assert_int_equal(events_waited_for, 1);
    fail_next("execution", -14);
    FAILS_WITH(MLXN_DEVICE_FAILED, "CL_EXEC_STATUS_ERROR", mlxn_encoder_wait(encoder));
}

static void copies_and_memory_that_fail(void **state) {
    (void)state;
    open_and_record();
    int32_t number = 5;
    fail_next("clEnqueueReadBuffer", -5);
    FAILS_WITH(MLXN_DEVICE_FAILED, "clEnqueueReadBuffer", mlxn_buffer_read(y, 0, 4, &number));
    fail_next("clEnqueueWriteBuffer", -5);
    FAILS_WITH(MLXN_DEVICE_FAILED, "clEnqueueWriteBuffer", mlxn_buffer_write(y, 0, 4, &number));
    mlxn_buffer *other = NULL;
    static const int codes[] = {-4, -5, -6, -61};
    for (size_t i = 0; i < 4; i++)
        for (int fill = 0; fill < 2; fill++) { /* drivers find out that memory is lacking at its first use */
            fail_next(fill != 0 ? "clEnqueueFillBuffer" : "clCreateBuffer", codes[i]);
            FAILS(MLXN_OUT_OF_MEMORY, mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){7}, &other));
            assert_null(other);
        }
    fail_next("execution", -4);
    FAILS(MLXN_OUT_OF_MEMORY, mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){7}, &other));
    fail_next("clCreateBuffer", -34);
    FAILS_WITH(MLXN_DEVICE_FAILED, "CL_INVALID_CONTEXT",
               mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){7}, &other));
    OK(mlxn_buffer_write(y, 0, 4, &number));
    OK(mlxn_encoder_commit_and_wait(encoder));
    assert_int_equal(value(), 6);
}

static void timing_that_fails(void **state) {
    (void)state;
    open_and_record();
    mlxn_encoder *timed = NULL;
    OK(mlxn_encoder_create(device, &(mlxn_encoder_options){.size = sizeof(mlxn_encoder_options), .timing = true},
                           &timed));
    OK(opencl_record(timed, &(opencl_dispatch){.bindings = (const mlxn_binding[]){{y, MLXN_READ_WRITE}, {0}}}));
    fail_next("clFinish", -36);
    FAILS_WITH(MLXN_DEVICE_FAILED, "clFinish", mlxn_encoder_commit(timed));
    fail_next("clEnqueueNDRangeKernel", -5);
    FAILS(MLXN_DEVICE_FAILED, mlxn_encoder_commit(timed));
    fail_next("execution", -5);
    FAILS(MLXN_DEVICE_FAILED, mlxn_encoder_commit(timed));
    OK(mlxn_encoder_commit_and_wait(timed));
    mlxn_encoder_destroy(timed);
}

/* What a child can do with its parent's device: nothing, without a hang. The step that went wrong, or 0. */
static int in_child(void) {
    alarm(60);
    int32_t number = 0;
    mlxn_buffer *other = NULL;
    mlxn_device *again = NULL;
    mlxn_encoder *new_encoder = NULL;
    mlxn_device_info info = {.size = sizeof info};
    static const char text[] = "has forked";
    if (mlxn_encoder_wait(encoder) != MLXN_DEVICE_FAILED || strstr(mlxn_last_error(), text) == NULL)
        return 1;
    if (mlxn_encoder_commit(encoder) != MLXN_DEVICE_FAILED || strstr(mlxn_last_error(), text) == NULL)
        return 2;
    if (mlxn_buffer_read(y, 0, 4, &number) != MLXN_DEVICE_FAILED ||
        mlxn_buffer_write(y, 0, 4, &number) != MLXN_DEVICE_FAILED)
        return 3;
    if (mlxn_buffer_create(device, MLXN_F32, 0, NULL, &other) != MLXN_DEVICE_FAILED || other != NULL)
        return 4;
    if (mlxn_encoder_create(device, NULL, &new_encoder) != MLXN_OK ||
        mlxn_mul(new_encoder, y, y, y) == MLXN_OK) /* i32; compiles nothing */
        return 5;
    if (mlxn_registry_add_source(device, "new", "kernel void new(global int *y, ulong at) {}") != MLXN_OK ||
        mlxn_encoder_reset(new_encoder) != MLXN_OK ||
        mlxn_encoder_dispatch(new_encoder, &(mlxn_dispatch){.size = sizeof(mlxn_dispatch),
                                                            .kernel = "new",
                                                            .bindings = &(mlxn_binding){y, MLXN_READ},
                                                            .binding_count = 1,
                                                            .grid = {1, 1, 1},
                                                            .group = {1, 1, 1}}) != MLXN_DEVICE_FAILED)
        return 6;
    if (mlxn_device_get_info(device, &info) != MLXN_OK || mlxn_device_open(info.name, NULL, &again) != MLXN_NOT_FOUND ||
        strstr(mlxn_last_error(), text) == NULL)
        return 7;
    if (mlxn_device_open("cpu", NULL, &again) != MLXN_OK)
        return 8;
    mlxn_device_destroy(again);
    mlxn_encoder_destroy(new_encoder);
    return clean(NULL);
}

static void expect_success(pid_t child) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("step %d, signal %d", WEXITSTATUS(status), WTERMSIG(status));
}

static void forks(void **state) {
    (void)state;
    open_and_record();
    for (int round = 0; round < 4; round++) {
        if (round > 0)
            OK(mlxn_encoder_commit(encoder)); /* in flight, or not started yet */
        const pid_t child = fork();
        if (child == 0)
            _exit(in_child());
        expect_success(child);
        OK(mlxn_encoder_wait(encoder));
        assert_int_equal(value(), round);
    }
}

/* A child of a process that has only looked at the list. */
static void forks_before_the_device_is_open(void **state) {
    (void)state;
    if (!opencl_is_here())
        skip();
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        mlxn_device *opened = NULL;
        if (mlxn_device_open("opencl:0", NULL, &opened) == MLXN_OK || strstr(mlxn_last_error(), "has forked") == NULL)
            _exit(1);
        _exit(mlxn_device_open("cpu", NULL, &opened) == MLXN_OK ? 0 : 2);
    }
    expect_success(child);
}

int main(void) {
#define FAKE(name) fake_function("cl" #name, (void *)(uintptr_t)fake_##name)
    FAKE(EnqueueNDRangeKernel);
    FAKE(EnqueueReadBuffer);
    FAKE(EnqueueWriteBuffer);
    FAKE(EnqueueFillBuffer);
    FAKE(SetKernelArg);
    FAKE(BuildProgram);
    FAKE(Flush);
    FAKE(Finish);
    fake_function("clCreateBuffer", (void *)(uintptr_t)fake_create_buffer);
    fake_function("clGetEventInfo", (void *)(uintptr_t)fake_get_event_info);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(commits_that_fail, prepare, clean),
        cmocka_unit_test_setup_teardown(constants_of_a_wrong_size, prepare, clean),
        cmocka_unit_test_setup_teardown(compilations_that_fail, prepare, clean),
        cmocka_unit_test_setup_teardown(work_that_fails, prepare, clean),
        cmocka_unit_test_setup_teardown(copies_and_memory_that_fail, prepare, clean),
        cmocka_unit_test_setup_teardown(timing_that_fails, prepare, clean),
        cmocka_unit_test_setup_teardown(forks, prepare, clean),
        cmocka_unit_test_setup_teardown(forks_before_the_device_is_open, prepare, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
