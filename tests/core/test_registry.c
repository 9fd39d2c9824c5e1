/* Kernels of one's own: adding, finding, dispatching, and what is refused. */
#include <stdatomic.h>

#include "support/test.h"

static mlxn_device *device;

static int open_device(void **state) {
    (void)state;
    device = test_device(3);
    return 0;
}

static int close_device(void **state) {
    (void)state;
    mlxn_device_destroy(device);
    return 0;
}

typedef struct scale_constants {
    float factor;
    int32_t shift;
    int64_t count;
} scale_constants;

/* y[i] = factor * x[i + shift], 100 elements a group. */
static void scale(const mlxn_call *call, uint64_t begin, uint64_t end) {
    const scale_constants *c = call->constants;
    const float *x = call->buffers[0];
    float *y = call->buffers[1];
    for (uint64_t group = begin; group < end; group++)
        for (int64_t i = (int64_t)group * 100; i < (int64_t)(group + 1) * 100 && i < c->count; i++)
            y[i] = c->factor * x[i + c->shift];
}

static atomic_uint runs[4096];
static atomic_int wrong_grid, misaligned;

/* Counts how often each group runs. */
static void count_groups(const mlxn_call *call, uint64_t begin, uint64_t end) {
    const uint64_t *grid = call->constants;
    if (memcmp(grid, call->grid, sizeof call->grid) != 0)
        atomic_store(&wrong_grid, 1);
    if ((uintptr_t)call->constants % 16 != 0)
        atomic_store(&misaligned, 1);
    for (uint64_t group = begin; group < end; group++)
        atomic_fetch_add(&runs[group], 1);
}

static void fill_one(const mlxn_call *call, uint64_t begin, uint64_t end) {
    float *y = call->buffers[0];
    for (uint64_t group = begin; group < end; group++)
        y[group] += 1;
}

static void nothing(const mlxn_call *call, uint64_t begin, uint64_t end) {
    (void)call;
    (void)begin;
    (void)end;
}

static void adding_and_finding(void **state) {
    (void)state;
    const size_t before = mlxn_registry_count(device);
    assert_true(before > 0);
    assert_non_null(mlxn_registry_name(device, 0));
    assert_null(mlxn_registry_name(device, before));
    assert_null(mlxn_registry_name(device, SIZE_MAX));
    char name[16] = "mine";
    OK(mlxn_registry_add_function(device, name, nothing));
    memset(name, 'x', sizeof name - 1); /* the name was copied */
    assert_int_equal(mlxn_registry_count(device), before + 1);
    assert_string_equal(mlxn_registry_name(device, before), "mine");
    FAILS_WITH(MLXN_ALREADY_EXISTS, "mine", mlxn_registry_add_function(device, "mine", nothing));
    for (size_t i = 0; i < before; i++)
        FAILS(MLXN_ALREADY_EXISTS, mlxn_registry_add_function(device, mlxn_registry_name(device, i), nothing));
    assert_int_equal(mlxn_registry_count(device), before + 1);
    FAILS(MLXN_UNSUPPORTED, mlxn_registry_add_source(device, "other", "kernel void other() {}"));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_registry_add_function(device, "", nothing));
    assert_int_equal(mlxn_registry_count(device), before + 1);
    mlxn_device *second = test_device(1); /* a registry is its device's own */
    assert_int_equal(mlxn_registry_count(second), before);
    mlxn_device_destroy(second);
}

/* Every op's kernels are there, called like the op and the dtype. */
static void built_in_names(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++)
        for (mlxn_dtype dtype = MLXN_F32; dtype <= MLXN_BF16; dtype = (mlxn_dtype)(dtype + 1)) {
            char name[64];
            snprintf(name, sizeof name, "%s_%s", mlxn_op_at(i)->name, mlxn_dtype_name(dtype));
            size_t k = 0;
            while (mlxn_registry_name(device, k) != NULL && strcmp(mlxn_registry_name(device, k), name) != 0)
                k++;
            if (mlxn_registry_name(device, k) == NULL)
                fail_msg("no kernel is called %s", name);
        }
}

static void many_names(void **state) {
    (void)state;
    mlxn_device *own = test_device(1);
    const size_t before = mlxn_registry_count(own);
    char name[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "kernel %d", i);
        OK(mlxn_registry_add_function(own, name, nothing));
    }
    mlxn_encoder *encoder = test_encoder(own);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "kernel %d", i);
        assert_string_equal(mlxn_registry_name(own, before + (size_t)i), name);
        OK(mlxn_encoder_dispatch(
            encoder,
            &(mlxn_dispatch){.size = sizeof(mlxn_dispatch), .kernel = name, .grid = {1, 1, 1}, .group = {1, 1, 1}}));
    }
    OK(mlxn_encoder_commit_and_wait(encoder));
    mlxn_encoder_destroy(encoder);
    mlxn_device_destroy(own);
}

static void constants_and_bindings_arrive(void **state) {
    (void)state;
    OK(mlxn_registry_add_function(device, "scale", scale));
    const int64_t count = 100000;
    mlxn_buffer *x = test_vector(device, MLXN_F32, count + 3), *y = test_vector(device, MLXN_F32, count);
    float *data;
    OK(mlxn_buffer_map(x, (void **)&data));
    for (int64_t i = 0; i < count + 3; i++)
        data[i] = (float)i;
    scale_constants constants = {.factor = 0.5f, .shift = 3, .count = count};
    mlxn_binding bindings[] = {{x, MLXN_READ}, {y, MLXN_WRITE}};
    mlxn_dispatch dispatch = {.size = sizeof dispatch,
                              .kernel = "scale",
                              .bindings = bindings,
                              .binding_count = 2,
                              .constants = &constants,
                              .constant_bytes = sizeof constants,
                              .grid = {(uint64_t)count / 100, 1, 1},
                              .group = {1, 1, 1}};
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_encoder_dispatch(encoder, &dispatch));
    assert_int_equal(mlxn_encoder_dispatches(encoder), 1);
    memset(&constants, 0xff, sizeof constants); /* all was copied */
    memset(bindings, 0, sizeof bindings);
    OK(mlxn_encoder_commit_and_wait(encoder));
    OK(mlxn_buffer_map(y, (void **)&data));
    for (int64_t i = 0; i < count; i++)
        assert_true(data[i] == 0.5f * (float)(i + 3));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
}

static void each_group_runs_once(void **state) {
    (void)state;
    OK(mlxn_registry_add_function(device, "count_groups", count_groups));
    static const uint64_t grids[][3] = {{1, 1, 1}, {4096, 1, 1}, {7, 11, 13}, {1, 64, 64}, {3, 1, 5}, {1, 1, 997}};
    mlxn_buffer *large = test_vector(device, MLXN_F32, 1 << 20), *small = test_vector(device, MLXN_F32, 1);
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++)
        for (int size = 0; size < 2; size++) {
            for (size_t i = 0; i < 4096; i++)
                atomic_store(&runs[i], 0);
            const uint64_t groups = grids[g][0] * grids[g][1] * grids[g][2];
            const mlxn_binding binding = {size != 0 ? large : small, MLXN_READ_WRITE};
            mlxn_encoder *encoder = test_encoder(device);
            OK(mlxn_encoder_dispatch(encoder, &(mlxn_dispatch){.size = sizeof(mlxn_dispatch),
                                                               .kernel = "count_groups",
                                                               .bindings = &binding,
                                                               .binding_count = 1,
                                                               .constants = grids[g],
                                                               .constant_bytes = sizeof grids[g],
                                                               .grid = {grids[g][0], grids[g][1], grids[g][2]},
                                                               .group = {32, 2, 1}}));
            OK(mlxn_encoder_commit_and_wait(encoder));
            for (uint64_t i = 0; i < 4096; i++)
                assert_int_equal(atomic_load(&runs[i]), i < groups);
            mlxn_encoder_destroy(encoder);
        }
    assert_int_equal(atomic_load(&wrong_grid), 0);
    assert_int_equal(atomic_load(&misaligned), 0);
    mlxn_buffer_destroy(large);
    mlxn_buffer_destroy(small);
}

/* Declared accesses order a user's kernels among each other and among ops. */
static void accesses_order_the_work(void **state) {
    (void)state;
    OK(mlxn_registry_add_function(device, "add_one", fill_one));
    const int64_t count = 100000;
    mlxn_buffer *y = test_vector(device, MLXN_F32, count), *z = test_vector(device, MLXN_F32, count);
    const mlxn_binding binding = {y, MLXN_READ_WRITE};
    const mlxn_dispatch dispatch = {.size = sizeof dispatch,
                                    .kernel = "add_one",
                                    .bindings = &binding,
                                    .binding_count = 1,
                                    .grid = {(uint64_t)count, 1, 1},
                                    .group = {1, 1, 1}};
    mlxn_encoder *encoder = test_encoder(device);
    for (int i = 0; i < 5; i++)
        OK(mlxn_encoder_dispatch(encoder, &dispatch)); /* 5 */
    OK(mlxn_mul(encoder, y, y, z));                    /* z = 25 */
    OK(mlxn_encoder_dispatch(encoder, &dispatch));     /* y = 6 */
    OK(mlxn_mul(encoder, y, z, z));                    /* z = 150 */
    OK(mlxn_encoder_commit_and_wait(encoder));
    const float *data;
    OK(mlxn_buffer_map(z, (void **)&data));
    for (int64_t i = 0; i < count; i++)
        assert_true(data[i] == 150);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(y);
    mlxn_buffer_destroy(z);
}

static void refused(mlxn_status status, const char *text, const mlxn_dispatch *dispatch) {
    mlxn_encoder *encoder = test_encoder(device);
    FAILS_WITH(status, text, mlxn_encoder_dispatch(encoder, dispatch));
    assert_int_equal(mlxn_encoder_dispatches(encoder), 0);
    FAILS_WITH(status, text, mlxn_encoder_commit(encoder));
    mlxn_encoder_destroy(encoder);
}

static void what_is_refused(void **state) {
    (void)state;
    OK(mlxn_registry_add_function(device, "nothing", nothing));
    float memory[8] = {0};
    const mlxn_wrap_options read_only = {.size = sizeof read_only, .read_only = true};
    mlxn_device *other = test_device(1);
    mlxn_buffer *x = test_vector(device, MLXN_F32, 64), *constant, *foreign = test_vector(other, MLXN_F32, 8);
    mlxn_buffer *low, *high, *same;
    OK(mlxn_buffer_wrap(device, MLXN_F32, 1, (const int64_t[]){8}, memory, &read_only, &constant));
    OK(mlxn_buffer_view(x, 0, 1, (const int64_t[]){32}, &low));
    OK(mlxn_buffer_view(x, 31, 1, (const int64_t[]){32}, &high));
    OK(mlxn_buffer_view(x, 0, 2, (const int64_t[]){4, 8}, &same));
    const mlxn_dispatch good = {.size = sizeof good, .kernel = "nothing", .grid = {1, 1, 1}, .group = {1, 1, 1}};
    mlxn_dispatch d = good;
    d.size--;
    refused(MLXN_INVALID_ARGUMENT, "size", &d);
    d = good;
    d.kernel = NULL;
    refused(MLXN_INVALID_ARGUMENT, "kernel is NULL", &d);
    d.kernel = "no such kernel";
    refused(MLXN_NOT_FOUND, "no such kernel", &d);
    d.kernel = "exp_f32";
    refused(MLXN_UNSUPPORTED, "exp_f32 is built in", &d);
    for (int i = 0; i < 3; i++) {
        d = good;
        d.grid[i] = 0;
        refused(MLXN_INVALID_ARGUMENT, "grid", &d);
        d = good;
        d.group[i] = 0;
        refused(MLXN_INVALID_ARGUMENT, "group", &d);
    }
    d = good;
    d.grid[0] = d.grid[1] = UINT64_C(1) << 33;
    refused(MLXN_INVALID_ARGUMENT, "grid", &d);
    d = good;
    d.binding_count = 1;
    refused(MLXN_INVALID_ARGUMENT, "bindings", &d);
    mlxn_binding bindings[MLXN_MAX_BINDINGS + 1];
    for (size_t i = 0; i <= MLXN_MAX_BINDINGS; i++)
        bindings[i] = (mlxn_binding){x, MLXN_READ};
    d.bindings = bindings;
    d.binding_count = MLXN_MAX_BINDINGS + 1;
    refused(MLXN_INVALID_ARGUMENT, "16 bindings", &d);
    char constants[MLXN_MAX_CONSTANT_BYTES + 1] = {0};
    d = good;
    d.constants = constants;
    d.constant_bytes = sizeof constants;
    refused(MLXN_INVALID_ARGUMENT, "128 bytes", &d);
    d.constants = NULL;
    d.constant_bytes = 1;
    refused(MLXN_INVALID_ARGUMENT, "constants", &d);

    const struct {
        mlxn_binding a, b;
        const char *text;
    } pairs[] = {
        {{NULL, MLXN_READ}, {x, MLXN_READ}, "NULL"},
        {{x, MLXN_READ}, {foreign, MLXN_READ}, "device"},
        {{x, (mlxn_access)0}, {constant, MLXN_READ}, "access 0"},
        {{x, (mlxn_access)4}, {constant, MLXN_READ}, "access 4"},
        {{x, MLXN_READ}, {constant, MLXN_WRITE}, "read-only"},
        {{x, MLXN_READ}, {constant, MLXN_READ_WRITE}, "read-only"},
        {{low, MLXN_READ}, {high, MLXN_WRITE}, "overlap"},
        {{low, MLXN_WRITE}, {high, MLXN_READ}, "overlap"},
        {{low, MLXN_READ_WRITE}, {high, MLXN_READ_WRITE}, "overlap"},
        {{low, MLXN_READ}, {same, MLXN_WRITE}, "overlap"},
        {{low, MLXN_WRITE}, {same, MLXN_WRITE}, "overlap"},
    };
    d = good;
    d.bindings = bindings;
    d.binding_count = 2;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        bindings[0] = pairs[i].a;
        bindings[1] = pairs[i].b;
        refused(MLXN_INVALID_ARGUMENT, pairs[i].text, &d);
    }
    const mlxn_binding fine[][2] = {{{low, MLXN_READ}, {high, MLXN_READ}},
                                    {{low, MLXN_READ_WRITE}, {same, MLXN_READ_WRITE}},
                                    {{constant, MLXN_READ}, {x, MLXN_WRITE}}};
    mlxn_encoder *encoder = test_encoder(device);
    for (size_t i = 0; i < 3; i++) {
        d.bindings = fine[i];
        OK(mlxn_encoder_dispatch(encoder, &d));
    }
    d = good;
    for (size_t i = 0; i < MLXN_MAX_BINDINGS; i++)
        bindings[i] = (mlxn_binding){x, MLXN_READ};
    d.bindings = bindings;
    d.binding_count = MLXN_MAX_BINDINGS;
    d.constants = constants;
    d.constant_bytes = MLXN_MAX_CONSTANT_BYTES;
    OK(mlxn_encoder_dispatch(encoder, &d));
    OK(mlxn_encoder_commit_and_wait(encoder));
    FAILS(MLXN_INVALID_STATE, mlxn_encoder_dispatch(encoder, &good));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer *const all[] = {x, constant, foreign, low, high, same};
    for (size_t i = 0; i < 6; i++)
        mlxn_buffer_destroy(all[i]);
    mlxn_device_destroy(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adding_and_finding),   cmocka_unit_test(built_in_names),
        cmocka_unit_test(many_names),           cmocka_unit_test(constants_and_bindings_arrive),
        cmocka_unit_test(each_group_runs_once), cmocka_unit_test(accesses_order_the_work),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
