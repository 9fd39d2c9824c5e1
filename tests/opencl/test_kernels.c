/* Kernels of the user's on an OpenCL device: what they get, and what is refused. */
#include "opencl_test.h"

static mlxn_device *device;

static int open_device(void **state) {
    (void)state;
    device = NULL;
    return 0;
}

static int close_device(void **state) {
    (void)state;
    mlxn_device_destroy(device);
    return 0;
}

static mlxn_buffer *numbers(int64_t count) {
    mlxn_buffer *buffer = test_vector(device, MLXN_I32, count);
    int32_t *values = malloc((size_t)count * 4);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (int32_t)i;
    OK(mlxn_buffer_write(buffer, 0, (size_t)count * 4, values));
    free(values);
    return buffer;
}

static int32_t at(const mlxn_buffer *buffer, size_t index) {
    int32_t value = -1;
    OK(mlxn_buffer_read(buffer, 4 * index, 4, &value));
    return value;
}

/* Two views and constants: y[i] = a x[i] + b, for i below count. */
static void buffers_offsets_and_constants(void **state) {
    (void)state;
    device = opencl_device(NULL);
    opencl_kernel(device,
                  "typedef struct { int a, b; ulong count; } constants;\n"
                  "kernel void k(global const uchar *x, ulong x_at, global uchar *y, ulong y_at, constants c) {\n"
                  "    global const int *in = (global const int *)(x + x_at);\n"
                  "    global int *out = (global int *)(y + y_at);\n"
                  "    const ulong i = get_global_id(0);\n"
                  "    if (i < c.count) out[i] = c.a * in[i] + c.b;\n"
                  "}\n");
    mlxn_buffer *x = numbers(1000), *y = numbers(1000), *x_view, *y_view;
    const int64_t hundred = 100;
    OK(mlxn_buffer_view(x, 11, 1, &hundred, &x_view));
    OK(mlxn_buffer_view(y, 501, 1, &hundred, &y_view));
    const struct {
        int32_t a, b;
        uint64_t count;
    } constants = {3, 7, 100};
    opencl_run(device,
               &(opencl_dispatch){.bindings = (const mlxn_binding[]){{x_view, MLXN_READ}, {y_view, MLXN_WRITE}, {0}},
                                  .constants = &constants,
                                  .constant_bytes = sizeof constants,
                                  .grid = {4},
                                  .group = {32}});
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(at(y, i), i >= 501 && i < 601 ? 3 * ((int)i - 501 + 11) + 7 : (int)i);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
    mlxn_buffer_destroy(x_view);
    mlxn_buffer_destroy(y_view);
}

/* Every thread of a grid in three directions writes where it is. */
static void grids_and_groups(void **state) {
    (void)state;
    device = opencl_device(NULL);
    opencl_kernel(device,
                  "kernel void k(global int *y, ulong at) {\n"
                  "    ulong i = (get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) +\n"
                  "              get_group_id(0);\n"
                  "    ulong t = (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) +\n"
                  "              get_local_id(0);\n"
                  "    y[at / 4 + i * 24 + t] = (int)(i * 100 + t);\n"
                  "}\n");
    static const struct {
        uint64_t grid[3];
        uint32_t group[3];
    } cases[] = {{{5, 3, 2}, {2, 3, 4}}, {{30, 1, 1}, {24, 1, 1}}, {{1, 30, 1}, {1, 24, 1}}, {{1, 1, 30}, {4, 1, 6}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mlxn_buffer *y = test_vector(device, MLXN_I32, 30 * 24);
        opencl_dispatch dispatch = {.bindings = (const mlxn_binding[]){{y, MLXN_WRITE}, {0}}};
        memcpy(dispatch.grid, cases[c].grid, sizeof dispatch.grid);
        memcpy(dispatch.group, cases[c].group, sizeof dispatch.group);
        opencl_run(device, &dispatch);
        for (int i = 0; i < 30; i++)
            for (int t = 0; t < 24; t++)
                assert_int_equal(at(y, (size_t)(i * 24 + t)), i * 100 + t);
        mlxn_buffer_destroy(y);
    }
}

/* A group reverses its numbers by way of local memory, its own declaration and the dispatch's. */
static void local_memory(void **state) {
    (void)state;
    device = opencl_device(NULL);
    opencl_kernel(device, "kernel void k(global int *y, ulong at, local int *given) {\n"
                          "    local int own[64];\n"
                          "    const int t = (int)get_local_id(0), i = (int)get_global_id(0);\n"
                          "    given[t] = y[i];\n"
                          "    own[t] = 2 * y[i];\n"
                          "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                          "    y[i] = given[63 - t] + own[63 - t];\n"
                          "}\n");
    mlxn_buffer *y = numbers(640);
    opencl_run(device, &(opencl_dispatch){.bindings = (const mlxn_binding[]){{y, MLXN_READ_WRITE}, {0}},
                                          .grid = {10},
                                          .group = {64},
                                          .local_bytes = 256});
    for (int i = 0; i < 640; i++)
        assert_int_equal(at(y, (size_t)i), 3 * (i / 64 * 64 + 63 - i % 64));

    /* Together with the kernel's own it may not be more than there is. */
    mlxn_encoder *encoder = test_encoder(device);
    OK(opencl_record(encoder, &(opencl_dispatch){.bindings = (const mlxn_binding[]){{y, MLXN_READ_WRITE}, {0}},
                                                 .group = {64},
                                                 .local_bytes = 1u << 30}));
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "1073741824 bytes of local memory", mlxn_encoder_commit(encoder));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
}

/* 16 buffers, the most that a dispatch has, and 128 bytes of constants. */
static void as_many_arguments_as_there_can_be(void **state) {
    (void)state;
    device = opencl_device(NULL);
    char source[4096], *to = source;
    to += sprintf(to, "typedef struct { int v[32]; } constants;\nkernel void k(");
    for (int i = 0; i < MLXN_MAX_BINDINGS; i++)
        to += sprintf(to, "global int *b%d, ulong at%d, ", i, i);
    to += sprintf(to, "constants c) {\n");
    for (int i = 0; i < MLXN_MAX_BINDINGS; i++)
        to += sprintf(to, "b%d[at%d / 4] = c.v[%d] + c.v[%d];\n", i, i, i, i + 16);
    strcpy(to, "}\n");
    opencl_kernel(device, source);
    mlxn_buffer *all = numbers(16), *views[16];
    mlxn_binding bindings[17] = {{0}};
    int32_t constants[32];
    const int64_t one = 1;
    for (int i = 0; i < 16; i++) {
        OK(mlxn_buffer_view(all, i, 1, &one, &views[i]));
        bindings[i] = (mlxn_binding){views[i], MLXN_WRITE};
        constants[i] = i;
        constants[i + 16] = 1000 * i;
    }
    mlxn_dispatch dispatch = {.size = sizeof dispatch,
                              .kernel = "k",
                              .bindings = bindings,
                              .binding_count = 16,
                              .constants = constants,
                              .constant_bytes = sizeof constants,
                              .grid = {1, 1, 1},
                              .group = {1, 1, 1}};
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_encoder_dispatch(encoder, &dispatch));
    OK(mlxn_encoder_commit_and_wait(encoder));
    for (int i = 0; i < 16; i++) {
        assert_int_equal(at(all, (size_t)i), 1001 * i);
        mlxn_buffer_destroy(views[i]);
    }
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(all);
}

/* The library's own kernels rely on these. */
static void arithmetic_is_exact(void **state) {
    (void)state;
    device = opencl_device(NULL);
    opencl_kernel(device, "kernel void k(global float *y, ulong at) {\n"
                          "    y[3] = y[0] * y[1] + y[2];\n"
                          "    y[4] = fma(y[0], y[1], y[2]);\n"
                          "    y[5] = y[1] / 3.0f;\n"
                          "    y[6] = sqrt(y[1]);\n"
                          "    y[7] = y[8] * 0.5f;\n"
                          "}\n");
    mlxn_buffer *y = test_vector(device, MLXN_F32, 9);
    const volatile float a = 1 + 0x1p-12f, product = a * a;
    float values[9] = {a, a, -product, 9, 9, 9, 9, 9, 0x1p-126f};
    OK(mlxn_buffer_write(y, 0, sizeof values, values));
    opencl_run(device, &(opencl_dispatch){.bindings = (const mlxn_binding[]){{y, MLXN_READ_WRITE}, {0}}});
    OK(mlxn_buffer_read(y, 0, sizeof values, values));
    assert_true(values[3] == 0);        /* not fused */
    assert_true(values[4] == 0x1p-24f); /* fused */
    assert_true(values[5] == (float)((double)a / 3));
    assert_true(values[6] == 0x1.0008p0f); /* sqrt(1 + 2^-12) = 1 + 2^-13 - 2^-27 + ..., rounded */
    assert_true(values[7] == 0x1p-127f);   /* subnormal */
    mlxn_buffer_destroy(y);
}

static void a_compile_error_carries_the_log(void **state) {
    (void)state;
    device = opencl_device(NULL);
    opencl_kernel(device, "kernel void k(global int *y, ulong at) {\n    y[0] = an_unknown_name;\n}\n");
    mlxn_buffer *y = numbers(1);
    mlxn_encoder *encoder = test_encoder(device);
    const opencl_dispatch dispatch = {.bindings = (const mlxn_binding[]){{y, MLXN_WRITE}, {0}}};
    for (int i = 0; i < 2; i++) {
        FAILS_WITH(MLXN_COMPILE_FAILED, "an_unknown_name", opencl_record(encoder, &dispatch));
        assert_non_null(strstr(mlxn_last_error(), "kernel \"k\""));
        FAILS_WITH(MLXN_COMPILE_FAILED, "an_unknown_name", mlxn_encoder_commit(encoder));
        assert_non_null(strstr(mlxn_encoder_message(encoder), "an_unknown_name"));
        OK(mlxn_encoder_reset(encoder));
    }
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
}

static void a_wrong_entry_point(void **state) {
    (void)state;
    device = opencl_device(NULL);
    opencl_kernel(device, "kernel void another(global int *y, ulong at) { y[0] = 1; }\n");
    mlxn_buffer *y = numbers(1);
    mlxn_encoder *encoder = test_encoder(device);
    FAILS_WITH(MLXN_COMPILE_FAILED, "\"k\"",
               opencl_record(encoder, &(opencl_dispatch){.bindings = (const mlxn_binding[]){{y, MLXN_WRITE}, {0}}}));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
}

static void do_nothing(const mlxn_call *call, uint64_t begin, uint64_t end) {
    (void)call;
    (void)begin;
    (void)end;
}

static void what_the_registry_refuses(void **state) {
    (void)state;
    device = opencl_device(NULL);
    opencl_kernel(device, "kernel void k(global int *y, ulong at) { y[0] = 1; }\n");
    FAILS(MLXN_ALREADY_EXISTS, mlxn_registry_add_source(device, "k", "kernel void k() {}"));
    FAILS(MLXN_ALREADY_EXISTS, mlxn_registry_add_source(device, mlxn_registry_name(device, 0), "kernel void k() {}"));
    FAILS(MLXN_UNSUPPORTED, mlxn_registry_add_function(device, "f", do_nothing));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_registry_add_source(device, "g", NULL));
}

/* Nothing runs of a list of which a dispatch does not suit its kernel. */
static void arguments_and_groups_that_do_not_suit(void **state) {
    (void)state;
    device = opencl_device(NULL);
    opencl_kernel(device, "typedef struct { int a, b; } constants;\n"
                          "kernel void k(global int *y, ulong at, constants c) { y[at / 4] += c.a; }\n");
    OK(mlxn_registry_add_source(
        device, "eight",
        "kernel __attribute__((reqd_work_group_size(8, 1, 1))) void eight(global int *y, ulong at) { y[0] = 1; }\n"));
    mlxn_buffer *y = numbers(2);
    const mlxn_binding bindings[] = {{y, MLXN_READ_WRITE}, {0}};
    const int32_t constants[2] = {1, 2};
    const opencl_dispatch right = {.bindings = bindings, .constants = constants, .constant_bytes = 8};
    const struct {
        const char *message;
        opencl_dispatch dispatch;
    } cases[] = {
        {"takes 3 arguments, and the dispatch gives 2", {.bindings = bindings}},
        {"takes 3 arguments, and the dispatch gives 1", {.constants = constants, .constant_bytes = 8}},
        {"takes 3 arguments, and the dispatch gives 4",
         {.bindings = bindings, .constants = constants, .constant_bytes = 8, .local_bytes = 4}},
        {"extent 0 of the group is 4000000000",
         {.bindings = bindings, .constants = constants, .constant_bytes = 8, .group = {4000000000u}}},
        {"a group of 1024 x 1024 x 1 threads",
         {.bindings = bindings, .constants = constants, .constant_bytes = 8, .group = {1024, 1024, 1}}},
        {"extent 1 of the grid, 9223372036854775808 groups of 2",
         {.bindings = bindings, .constants = constants, .constant_bytes = 8, .grid = {1, 1ull << 63}, .group = {1, 2}}},
        {"a grid of 4294967296 x 1 x 1 groups, expected at most 4294967295",
         {.bindings = bindings, .constants = constants, .constant_bytes = 8, .grid = {1ull << 32}}},
        {"a grid of 65536 x 256 x 256 groups, expected at most 4294967295",
         {.bindings = bindings, .constants = constants, .constant_bytes = 8, .grid = {65536, 256, 256}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mlxn_encoder *encoder = test_encoder(device);
        int32_t before = at(y, 0);
        OK(opencl_record(encoder, &right));
        OK(opencl_record(encoder, &cases[i].dispatch));
        FAILS_WITH(MLXN_INVALID_ARGUMENT, cases[i].message, mlxn_encoder_commit(encoder));
        OK(mlxn_encoder_wait(encoder));
        assert_int_equal(at(y, 0), before);
        mlxn_encoder_destroy(encoder);
        before = at(y, 0);
        opencl_run(device, &right); /* and all is well afterwards */
        assert_int_equal(at(y, 0), before + 1);
    }
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_encoder_dispatch(encoder, &(mlxn_dispatch){.size = sizeof(mlxn_dispatch),
                                                       .kernel = "eight",
                                                       .bindings = bindings,
                                                       .binding_count = 1,
                                                       .grid = {1, 1, 1},
                                                       .group = {16, 1, 1}}));
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "extent 0 of the group is 16, expected the kernel's 8",
               mlxn_encoder_commit(encoder));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
}

/* As many arguments as the dispatch gives, but others: not for a driver to see. */
static void arguments_of_another_kind(void **state) {
    (void)state;
    device = opencl_device(NULL);
    mlxn_buffer *y = numbers(64);
    const int32_t constants[2] = {1, 2};
    const struct {
        const char *arguments;
        bool constants, local;
        const char *message; /* NULL: it suits */
    } cases[] = {
        {"global float *a, global float *b", false, false, "argument 1 of k1 is __global float*, expected a ulong"},
        {"ulong a, global float *b", false, false, "argument 0 of k2 is ulong, expected a __global pointer"},
        {"local float *a, ulong b", false, false, "argument 0 of k3 is __local float*, expected a __global pointer"},
        {"global float *a, uint b", false, false, "argument 1 of k4 is uint, expected a ulong"},
        {"global float *a, double b", false, false, "argument 1 of k5 is double, expected a ulong"},
        {"global float *a, int2 b", false, false, "argument 1 of k6 is int2, expected a ulong"},
        {"global float *a, local int *b", false, false, "argument 1 of k7 is __local int*, expected a ulong"},
        {"global float *a, sampler_t b", false, false, "argument 1 of k8 is sampler_t, expected a ulong"},
        {"read_only image2d_t a, ulong b", false, false, "argument 0 of k9 is image2d_t, expected a __global pointer"},
        {"global float *a, ulong b, global int *c", true, false,
         "argument 2 of k10 is __global int*, expected the constants"},
        {"global float *a, ulong b, local int *c", true, false,
         "argument 2 of k11 is __local int*, expected the constants"},
        {"global float *a, ulong b, sampler_t c", true, false,
         "argument 2 of k12 is sampler_t, expected the constants"},
        {"global float *a, ulong b, int2 c", false, true, "argument 2 of k13 is int2, expected a __local pointer"},
        {"global float *a, ulong b, local int *c, int2 d", true, true,
         "argument 2 of k14 is __local int*, expected the constants"},
        {"global const float *restrict a, const ulong b, pair c, local int *d", true, true, NULL},
        {"pointer a, unsigned long b, int2 c", true, false, NULL},
        {"constant float *a, word b, struct two c", true, false, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[8], source[512];
        snprintf(name, sizeof name, "k%zu", i + 1);
        snprintf(source, sizeof source,
                 "typedef struct two { int v[2]; } pair;\ntypedef global int *pointer;\ntypedef ulong word;\n"
                 "kernel void %s(%s) {}\n",
                 name, cases[i].arguments);
        OK(mlxn_registry_add_source(device, name, source));
        mlxn_encoder *encoder = test_encoder(device);
        OK(mlxn_encoder_dispatch(encoder, &(mlxn_dispatch){.size = sizeof(mlxn_dispatch),
                                                           .kernel = name,
                                                           .bindings = &(mlxn_binding){y, MLXN_READ},
                                                           .binding_count = 1,
                                                           .constants = cases[i].constants ? constants : NULL,
                                                           .constant_bytes = cases[i].constants ? 8 : 0,
                                                           .grid = {1, 1, 1},
                                                           .group = {1, 1, 1},
                                                           .local_bytes = cases[i].local ? 64 : 0}));
        if (cases[i].message != NULL)
            FAILS_WITH(MLXN_INVALID_ARGUMENT, cases[i].message, mlxn_encoder_commit(encoder));
        else
            OK(mlxn_encoder_commit_and_wait(encoder));
        mlxn_encoder_destroy(encoder);
    }
    mlxn_buffer_destroy(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(buffers_offsets_and_constants, open_device, close_device),
        cmocka_unit_test_setup_teardown(grids_and_groups, open_device, close_device),
        cmocka_unit_test_setup_teardown(local_memory, open_device, close_device),
        cmocka_unit_test_setup_teardown(as_many_arguments_as_there_can_be, open_device, close_device),
        cmocka_unit_test_setup_teardown(arithmetic_is_exact, open_device, close_device),
        cmocka_unit_test_setup_teardown(a_compile_error_carries_the_log, open_device, close_device),
        cmocka_unit_test_setup_teardown(a_wrong_entry_point, open_device, close_device),
        cmocka_unit_test_setup_teardown(what_the_registry_refuses, open_device, close_device),
        cmocka_unit_test_setup_teardown(arguments_and_groups_that_do_not_suit, open_device, close_device),
        cmocka_unit_test_setup_teardown(arguments_of_another_kind, open_device, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
