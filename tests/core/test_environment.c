/* The caller's floating-point environment neither changes a result nor is changed: flush-to-zero, other roundings, enabled
 * traps, raised flags; for small work, which runs in the calling thread, and for large work, which the pool shares. */
#include "support/environment.h"

#include "core/environment.h"
#include "support/op_case.h"

/* The outputs of a case whose every library call is made in the environment `e`. */
static char *outputs_in(mlxn_device *device, const op_case *c, const op_arrays *a, const environment *e,
                        size_t *bytes) {
    const size_t arguments = op_case_arguments(c), size = mlxn_dtype_size(c->dtype);
    mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
    mlxn_encoder *encoder = NULL;
    int64_t shape[MLXN_MAX_ARGUMENTS][MLXN_MAX_RANK];
    size_t rank[MLXN_MAX_ARGUMENTS];
    mlxn_status worst = MLXN_OK;
    for (size_t k = 0; k < arguments; k++)
        rank[k] = op_case_shape(c, k, shape[k]);

    const environment before = environment_get();
    environment_set(*e);
    for (size_t k = 0; k < arguments; k++) {
        worst |= mlxn_buffer_create(device, c->dtype, rank[k], shape[k], &buffers[k]);
        worst |= mlxn_buffer_write(buffers[k], 0, a->count[k] * size, a->array[k]);
    }
    worst |= mlxn_encoder_create(device, NULL, &encoder);
    worst |= mlxn_encode(encoder, c->op->name, buffers, arguments, c->mode);
    worst |= mlxn_encoder_commit(encoder);
    worst |= mlxn_encoder_wait(encoder);
    mlxn_encoder_destroy(encoder);
    const environment after = environment_get();
    environment_set(before);

    assert_int_equal(worst, MLXN_OK);
    if (after.control != e->control || after.flags != e->flags)
        fail_msg("%s: in \"%s\" the control word was 0x%llx and is 0x%llx, the flags 0x%llx and 0x%llx",
                 op_case_text(c), e->name, (unsigned long long)e->control, (unsigned long long)after.control,
                 (unsigned long long)e->flags, (unsigned long long)after.flags);
    *bytes = 0;
    char *outputs = malloc((a->count[arguments - 1] + a->count[arguments - 2]) * size);
    assert_non_null(outputs);
    for (size_t k = 0; k < arguments; k++) {
        if (k >= c->op->input_count) {
            OK(mlxn_buffer_read(buffers[k], 0, mlxn_buffer_bytes(buffers[k]), outputs + *bytes));
            *bytes += mlxn_buffer_bytes(buffers[k]);
        }
        mlxn_buffer_destroy(buffers[k]);
    }
    return outputs;
}

static void compare_environments(mlxn_device *device, const op_case *c) {
    op_arrays a = op_arrays_create(c);
    size_t bytes, other_bytes;
    const environment plain = environment_get();
    char *expected = outputs_in(device, c, &a, &plain, &bytes);
    for (size_t e = 0; e < ENVIRONMENT_COUNT; e++) {
        char *got = outputs_in(device, c, &a, &ENVIRONMENTS[e], &other_bytes);
        if (memcmp(expected, got, bytes) != 0)
            fail_msg("%s: other bits in \"%s\"", op_case_text(c), ENVIRONMENTS[e].name);
        free(got);
    }
    free(expected);
    op_arrays_destroy(&a);
}

static void results_and_environment_are_kept(void **state) {
    (void)state;
    const int64_t large = test_is_slow_here() ? 70000 : 300000;
    for (size_t isa = 0; isa < test_isa_count; isa++) {
        mlxn_device *device = test_device_isa(test_isas[isa], 3);
        for (size_t i = 0; i < mlxn_op_count(); i++) {
            const mlxn_op_info *op = mlxn_op_at(i);
            for (int dtype = 0; dtype < 3; dtype++)
                for (int size = 0; size < 2; size++) {
                    op_case c = {.op = op,
                                 .dtype = (mlxn_dtype)dtype,
                                 .values = OP_VALUES_BITS,
                                 .lead_rank = 1,
                                 .lead = {size != 0 ? large : 333},
                                 .n = 1,
                                 .m = 1,
                                 .seed = 21,
                                 .mode = op->accumulates && dtype % 2 ? MLXN_ACCUMULATE : MLXN_OVERWRITE};
                    if (!op->elementwise) {
                        c.lead[0] = 1;
                        c.n = size != 0 ? large / 200 : 37;
                        c.m = size != 0 ? 200 : 45;
                        c.values = dtype == 0 && size == 0 ? OP_VALUES_WIDE : OP_VALUES_UNIT;
                    }
                    compare_environments(device, &c);
                }
        }
        mlxn_device_destroy(device);
    }
}

static uint64_t seen[8];

static void look(const mlxn_call *call, uint64_t begin, uint64_t end) {
    (void)call;
    const environment e = environment_get();
    for (uint64_t group = begin; group < end; group++)
        seen[group] = e.control | e.flags << 32;
}

/* A user's kernel, too, runs in the default environment, on whatever thread. */
static void kernels_run_in_the_default_environment(void **state) {
    (void)state;
    for (size_t threads = 1; threads <= 4; threads += 3) {
        mlxn_device *device = test_device(threads);
        OK(mlxn_registry_add_function(device, "look", look));
        static const int64_t counts[] = {1, 1 << 20};
        for (size_t s = 0; s < 2; s++) {
            mlxn_buffer *buffer = test_vector(device, MLXN_F32, counts[s]);
            const mlxn_binding binding = {buffer, MLXN_READ_WRITE};
            const mlxn_dispatch dispatch = {.size = sizeof dispatch,
                                            .kernel = "look",
                                            .bindings = &binding,
                                            .binding_count = 1,
                                            .grid = {8, 1, 1},
                                            .group = {1, 1, 1}};
            mlxn_encoder *encoder = test_encoder(device);
            OK(mlxn_encoder_dispatch(encoder, &dispatch));
            for (size_t e = 0; e < ENVIRONMENT_COUNT; e++) {
                memset(seen, 0xff, sizeof seen);
                const environment before = environment_get();
                environment_set(ENVIRONMENTS[e]);
                const mlxn_status status = mlxn_encoder_commit_and_wait(encoder);
                environment_set(before);
                assert_int_equal(status, MLXN_OK);
#if defined(__x86_64__)
                for (size_t i = 0; i < 8; i++)
                    assert_int_equal(seen[i] & 0xffc0, 0x1f80);
#else
                for (size_t i = 0; i < 8; i++)
                    assert_int_equal(seen[i] & 0xffffffff, 0);
#endif
            }
            mlxn_encoder_destroy(encoder);
            mlxn_buffer_destroy(buffer);
        }
        mlxn_device_destroy(device);
    }
}

/* The standard library's view of it: feenableexcept and fesetround, as a caller would use them. */
static void standard_environment_is_kept(void **state) {
    (void)state;
    mlxn_device *device = test_device(2);
    mlxn_buffer *x = test_vector(device, MLXN_F32, 64), *y = test_vector(device, MLXN_F32, 64);
    const uint32_t hard[] = {0xff800000u, 0x7fc00000u, 0xc2b40000u, 0x7f800001u, 0x00000001u}; /* −inf, NaN, −90, … */
    OK(mlxn_buffer_write(x, 0, sizeof hard, hard));
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_exp(encoder, x, y));
    fenv_t kept;
    assert_int_equal(fegetenv(&kept), 0);
    feclearexcept(FE_ALL_EXCEPT);
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    feenableexcept(FE_ALL_EXCEPT);
#endif
    const mlxn_status status = mlxn_encoder_commit_and_wait(encoder);
    const int raised = fetestexcept(FE_ALL_EXCEPT), rounding = fegetround();
#if defined(__x86_64__)
    const int enabled = fegetexcept();
#endif
    fesetenv(&kept);
    assert_int_equal(status, MLXN_OK);
    assert_int_equal(raised, 0);
    assert_int_equal(rounding, FE_UPWARD);
#if defined(__x86_64__)
    assert_int_equal(enabled, FE_ALL_EXCEPT);
#endif
    uint32_t got[5];
    OK(mlxn_buffer_read(y, 0, sizeof got, got));
    const uint32_t expected[5] = {0, 0x7fc00000u, 0x0008ec28u, 0x7fc00000u, 0x3f800000u}; /* the third a subnormal */
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(got[i], expected[i]);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
    mlxn_device_destroy(device);
}

#if defined(__x86_64__)
static void divide_in_x87(void) {
    __asm__ volatile("fld1\n\tfldpi\n\tfdivrp\n\tfstp %%st(0)" : : : "st");
}

/* What a driver gets, and what the caller has afterwards, whatever either does to SSE and to x87. */
static void both_halves_are_kept(void **state) {
    (void)state;
    fenv_t before, within, after, test;
    fegetenv(&test);
    for (unsigned kind = 0; kind < 32; kind++) {
        fesetenv(FE_DFL_ENV);
        if (kind & 1)
            fesetround(FE_UPWARD);
        if (kind & 2)
            feraiseexcept(FE_INEXACT | FE_DIVBYZERO);
        if (kind & 4)
            divide_in_x87();
        if (kind & 8)
            feenableexcept(FE_OVERFLOW | FE_INVALID);
        fegetenv(&before);
        const mlxn_environment_kept kept = mlxn_enter_drivers();
        fegetenv(&within);
        if (kind & 16) {
            const uint16_t to_double = 0x027f;
            feraiseexcept(FE_UNDERFLOW);
            divide_in_x87();
            __asm__ volatile("fldcw %0" : : "m"(to_double));
        }
        mlxn_leave_driver(&kept);
        fegetenv(&after);
        fesetenv(&test);
        if (within.__mxcsr != 0x1f80 || within.__control_word != 0x37f || (within.__status_word & 0x7f) != 0)
            fail_msg("kind %u: a driver gets 0x%x, 0x%x, 0x%x", kind, within.__mxcsr, within.__control_word,
                     within.__status_word);
        if (after.__mxcsr != before.__mxcsr || after.__control_word != before.__control_word ||
            ((after.__status_word ^ before.__status_word) & 0x7f) != 0)
            fail_msg("kind %u: 0x%x, 0x%x, 0x%x became 0x%x, 0x%x, 0x%x", kind, before.__mxcsr, before.__control_word,
                     before.__status_word, after.__mxcsr, after.__control_word, after.__status_word);
    }
}
#endif

/* The whole life of a device, as a program with traps and another rounding would go through it. */
static mlxn_status whole_life(const char *name, const uint32_t *in, uint32_t *out, int64_t n) {
    const size_t bytes = (size_t)n * sizeof *in;
    mlxn_device *device = NULL;
    mlxn_encoder *encoder = NULL;
    mlxn_buffer *x = NULL, *y = NULL;
    mlxn_status worst = mlxn_device_open(name, NULL, &device);
    worst |= mlxn_buffer_create(device, MLXN_F32, 1, &n, &x);
    worst |= mlxn_buffer_create(device, MLXN_F32, 1, &n, &y);
    worst |= mlxn_buffer_write(x, 0, bytes, in);
    worst |= mlxn_encoder_create(device, NULL, &encoder);
    worst |= mlxn_exp(encoder, x, y);
    for (int i = 0; i < 2; i++) {
        worst |= mlxn_encoder_commit(encoder);
        worst |= mlxn_encoder_wait(encoder);
    }
    worst |= mlxn_buffer_read(y, 0, bytes, out);
    worst |= mlxn_encoder_reset(encoder);
    worst |= mlxn_exp(encoder, x, y);
    worst |= mlxn_encoder_commit(encoder);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
    mlxn_device_destroy(device);
    return worst;
}

/* Drivers and their compilers compute, too, and enabled traps must not stop them wherever they are called. */
static void drivers_see_the_default_environment(void **state) {
    (void)state;
    fenv_t kept;
    assert_int_equal(fegetenv(&kept), 0);
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    feenableexcept(FE_ALL_EXCEPT);
#endif
    const size_t count = mlxn_device_count();
    const int rounding = fegetround();
    fesetenv(&kept);
    assert_int_equal(rounding, FE_UPWARD);
    for (size_t i = 0; i < count; i++) {
        mlxn_device_info info = {.size = sizeof info};
        OK(mlxn_device_at(i, &info));
        if (!info.available)
            continue;
        const uint32_t hard[] = {0xff800000u, 0x7fc00000u, 0xc2b40000u, 0x7f800001u, 0x00000001u};
        const uint32_t expected[] = {0, 0x7fc00000u, 0x0008ec28u, 0x7fc00000u, 0x3f800000u};
        uint32_t got[5];
        print_message("%s\n", info.name); /* what a trap stops is not said otherwise */
        feclearexcept(FE_ALL_EXCEPT);
        fesetround(FE_UPWARD);
#if defined(__x86_64__)
        feenableexcept(FE_ALL_EXCEPT);
#endif
        const environment before = environment_get();
        const mlxn_status status = whole_life(info.name, hard, got, 5);
        const environment after = environment_get();
        fesetenv(&kept);
        assert_int_equal(status, MLXN_OK);
        assert_int_equal(after.control, before.control);
        assert_int_equal(after.flags, before.flags);
        assert_memory_equal(got, expected, sizeof expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_and_environment_are_kept),
        cmocka_unit_test(kernels_run_in_the_default_environment),
        cmocka_unit_test(standard_environment_is_kept),
#if defined(__x86_64__)
        cmocka_unit_test(both_halves_are_kept),
#endif
        cmocka_unit_test(drivers_see_the_default_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
