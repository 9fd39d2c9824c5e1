/* Memory: every allocation may fail, and each failure is an error return that leaves all as it was; nothing leaks; a
 * warm loop allocates nothing, neither through the device's allocator nor through malloc. */
#include "support/allocation.h"
#include "support/op_case.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define OWN_MALLOC 0
#endif
#endif
#ifndef OWN_MALLOC
#define OWN_MALLOC 1
#endif

static atomic_size_t mallocs; /* of this process; stays 0 where a sanitizer has malloc for itself */

#if OWN_MALLOC
/* The C library's own functions under their other names. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    atomic_fetch_add(&mallocs, 1);
    *memory = __libc_memalign(alignment, size);
    return *memory != NULL ? 0 : 12;
}
#endif

static void nothing(const mlxn_call *call, uint64_t begin, uint64_t end) {
    (void)call;
    (void)begin;
    (void)end;
}

/* Everything a scenario holds, so that it can be given up from anywhere. */
typedef struct scenario {
    mlxn_device *device;
    mlxn_encoder *encoder;
    mlxn_buffer *buffer[3 * MLXN_MAX_ARGUMENTS];
    size_t buffers;
} scenario;

static mlxn_status keep(scenario *s, mlxn_status status, mlxn_buffer *buffer) {
    if ((status == MLXN_OK) != (buffer != NULL))
        return MLXN_DEVICE_FAILED; /* a failure must set the result to NULL */
    if (status == MLXN_OK)
        s->buffer[s->buffers++] = buffer;
    return status;
}

static float memory_of_the_caller[64];

static mlxn_status make_views(scenario *s) {
    mlxn_buffer *made = NULL;
    mlxn_status status = mlxn_buffer_create(s->device, MLXN_F32, 1, (const int64_t[]){64}, &made);
    if (keep(s, status, made) != MLXN_OK)
        return status;
    mlxn_buffer *first = made;
    made = NULL;
    status = mlxn_buffer_view(first, 3, 1, (const int64_t[]){5}, &made);
    if (keep(s, status, made) != MLXN_OK)
        return status;
    made = NULL;
    status = mlxn_buffer_reshape(first, 2, (const int64_t[]){8, 8}, &made);
    if (keep(s, status, made) != MLXN_OK)
        return status;
    made = NULL;
    status = mlxn_buffer_wrap(s->device, MLXN_F32, 1, (const int64_t[]){64}, memory_of_the_caller, NULL, &made);
    return keep(s, status, made);
}

/* Records one op with arguments of its own: for the sums a shape with partial sums, so that scratch memory is needed. */
static mlxn_status record_op(scenario *s, const mlxn_op_info *op) {
    const op_case c = {.op = op,
                       .dtype = MLXN_F32,
                       .lead_rank = 1,
                       .lead = {op->elementwise ? 100 : 1},
                       .n = op->elementwise ? 1 : 3000,
                       .m = op->elementwise ? 1 : 40};
    mlxn_buffer *arguments[MLXN_MAX_ARGUMENTS];
    const size_t kept = s->buffers;
    mlxn_status status = MLXN_OK;
    for (size_t k = 0; k < op_case_arguments(&c) && status == MLXN_OK; k++) {
        int64_t shape[MLXN_MAX_RANK];
        const size_t rank = op_case_shape(&c, k, shape);
        arguments[k] = NULL;
        status = mlxn_buffer_create(s->device, MLXN_F32, rank, shape, &arguments[k]);
        status = keep(s, status, arguments[k]);
    }
    const size_t recorded = mlxn_encoder_dispatches(s->encoder);
    if (status == MLXN_OK)
        status = mlxn_encode(s->encoder, op->name, arguments, op_case_arguments(&c), MLXN_OVERWRITE);
    if (status != MLXN_OK && mlxn_encoder_dispatches(s->encoder) != recorded)
        status = MLXN_DEVICE_FAILED; /* half an op was left in the list */
    while (s->buffers > kept)
        mlxn_buffer_destroy(s->buffer[--s->buffers]);
    return status;
}

static mlxn_status record_all(scenario *s) {
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; i < mlxn_op_count() && status == MLXN_OK; i++)
        status = record_op(s, mlxn_op_at(i));
    const mlxn_dispatch dispatch = {
        .size = sizeof dispatch, .kernel = "nothing", .grid = {1, 1, 1}, .group = {1, 1, 1}};
    /* An op of two dispatches, at odd and at even places, so that the list must grow between the two. */
    for (int i = 0; i < 10 && status == MLXN_OK; i++) {
        status = record_op(s, mlxn_op_find("outer_product_backward_rhs"));
        if (i == 5 && status == MLXN_OK)
            status = mlxn_encoder_dispatch(s->encoder, &dispatch);
    }
    /* Enough for the list and its arena to grow several times. */
    for (int i = 0; i < 600 && status == MLXN_OK; i++)
        status = mlxn_encoder_dispatch(s->encoder, &dispatch);
    return status;
}

static mlxn_status play(scenario *s, const mlxn_allocator *allocator, size_t threads) {
    const mlxn_device_options options = {.size = sizeof options, .threads = threads, .allocator = allocator};
    mlxn_status status = mlxn_device_open("cpu", &options, &s->device);
    if (status != MLXN_OK)
        return s->device == NULL ? status : MLXN_DEVICE_FAILED;
    status = mlxn_registry_add_function(s->device, "nothing", nothing);
    if (status == MLXN_OK)
        status = mlxn_encoder_create(s->device, NULL, &s->encoder);
    if (status == MLXN_OK)
        status = make_views(s);
    if (status == MLXN_OK)
        status = record_all(s);
    if (status != MLXN_OK && s->encoder != NULL) {
        /* A list that could not be recorded whole does not run, and a reset makes the encoder good again. */
        if (mlxn_encoder_message(s->encoder)[0] != '\0' && mlxn_encoder_commit(s->encoder) != status)
            return MLXN_DEVICE_FAILED;
        if (mlxn_encoder_reset(s->encoder) != MLXN_OK || record_all(s) != MLXN_OK)
            return MLXN_DEVICE_FAILED;
        if (mlxn_encoder_commit_and_wait(s->encoder) != MLXN_OK)
            return MLXN_DEVICE_FAILED;
    }
    if (status == MLXN_OK)
        status = mlxn_encoder_commit_and_wait(s->encoder);
    if (status == MLXN_OK)
        status = mlxn_encoder_commit_and_wait(s->encoder);
    if (status == MLXN_OK)
        status = mlxn_encoder_reset(s->encoder);
    if (status == MLXN_OK)
        status = record_all(s);
    if (status == MLXN_OK)
        status = mlxn_encoder_commit_and_wait(s->encoder);
    return status;
}

static void give_up(scenario *s) {
    while (s->buffers > 0)
        mlxn_buffer_destroy(s->buffer[--s->buffers]);
    mlxn_encoder_destroy(s->encoder);
    mlxn_device_destroy(s->device);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    size_t failures = 0;
    for (size_t k = 1;; k++) {
        counting c = {0};
        const mlxn_allocator allocator = counting_allocator(&c);
        atomic_store(&c.fail_at, k);
        scenario s = {0};
        const mlxn_status status = play(&s, &allocator, k % 8 == 0 ? 2 : 1);
        give_up(&s);
        const size_t allocations = atomic_load(&c.allocations);
        if (atomic_load(&c.wrong) != 0)
            fail_msg("allocation %zu fails: fault %d of alignment, size or bounds", k, atomic_load(&c.wrong));
        if (atomic_load(&c.live) != 0)
            fail_msg("allocation %zu fails: %zu blocks of %zu bytes leak", k, atomic_load(&c.live),
                     atomic_load(&c.live_bytes));
        if (status == MLXN_OK) {
            assert_true(allocations < k); /* it was never reached: all others have failed once */
            break;
        }
        if (status != MLXN_OUT_OF_MEMORY)
            fail_msg("allocation %zu fails: \"%s\" (%s)", k, mlxn_status_text(status), mlxn_last_error());
        assert_non_null(strstr(mlxn_last_error(), "memory"));
        failures++;
    }
    print_message("%zu allocations failed, each once\n", failures);
    assert_true(failures > 30);
}

/* One warm turn of an application's loop. */
static void turn(mlxn_encoder *encoder, mlxn_buffer *const *b, mlxn_buffer *const *large) {
    mlxn_encoder_reset(encoder);
    mlxn_exp(encoder, b[0], b[1]);
    mlxn_exp_backward(encoder, b[1], b[0], b[0], MLXN_OVERWRITE);
    mlxn_mul(encoder, b[0], b[1], b[2]);
    mlxn_outer_product(encoder, large[1], large[2], large[0]);
    mlxn_outer_product_backward(encoder, large[0], large[1], large[2], large[3], large[4], MLXN_ACCUMULATE);
    for (int i = 0; i < 100; i++)
        mlxn_mul(encoder, b[0], b[1], b[2]);
    OK(mlxn_encoder_commit_and_wait(encoder));
    OK(mlxn_encoder_commit_and_wait(encoder));
}

static void a_warm_loop_allocates_nothing(void **state) {
    (void)state;
    counting c = {0};
    const mlxn_allocator allocator = counting_allocator(&c);
    const mlxn_device_options options = {.size = sizeof options, .threads = 2, .allocator = &allocator};
    mlxn_device *device;
    mlxn_buffer *b[3], *large[5];
    OK(mlxn_device_open("cpu", &options, &device));
    for (size_t i = 0; i < 3; i++)
        b[i] = test_vector(device, MLXN_F32, 64);
    large[0] = test_matrix(device, MLXN_F32, 3000, 300);
    large[1] = test_vector(device, MLXN_F32, 3000);
    large[2] = test_vector(device, MLXN_F32, 300);
    large[3] = test_vector(device, MLXN_F32, 3000);
    large[4] = test_vector(device, MLXN_F32, 300);
    mlxn_encoder *encoder = test_encoder(device);
    for (int i = 0; i < 3; i++)
        turn(encoder, b, large);
    const size_t before = atomic_load(&c.allocations), mallocs_before = atomic_load(&mallocs);
    for (int i = 0; i < 20; i++)
        turn(encoder, b, large);
    assert_int_equal(atomic_load(&c.allocations), before);
    assert_int_equal(atomic_load(&mallocs), mallocs_before);
#if OWN_MALLOC
    assert_true(mallocs_before > 0); /* the count is a count */
#endif
    mlxn_encoder_destroy(encoder);
    for (size_t i = 0; i < 3; i++)
        mlxn_buffer_destroy(b[i]);
    for (size_t i = 0; i < 5; i++)
        mlxn_buffer_destroy(large[i]);
    mlxn_device_destroy(device);
    assert_int_equal(atomic_load(&c.live), 0);
}

/* An encoder that sees ever other shapes does not pile up memory. */
static void changing_shapes_do_not_pile_up(void **state) {
    (void)state;
    counting c = {0};
    const mlxn_allocator allocator = counting_allocator(&c);
    const mlxn_device_options options = {.size = sizeof options, .threads = 1, .allocator = &allocator};
    mlxn_device *device;
    OK(mlxn_device_open("cpu", &options, &device));
    mlxn_encoder *encoder = test_encoder(device);
    size_t most = 0;
    for (int64_t i = 0; i < 60; i++) {
        const int64_t n = 2000 + 37 * (i * 7 % 20), m = 40 + 3 * (i * 3 % 20);
        mlxn_buffer *dy = test_matrix(device, MLXN_F32, n, m), *lhs = test_vector(device, MLXN_F32, n),
                    *rhs = test_vector(device, MLXN_F32, m);
        mlxn_buffer *dlhs = test_vector(device, MLXN_F32, n), *drhs = test_vector(device, MLXN_F32, m);
        OK(mlxn_encoder_reset(encoder));
        mlxn_outer_product_backward(encoder, dy, lhs, rhs, dlhs, drhs, MLXN_OVERWRITE);
        OK(mlxn_encoder_commit_and_wait(encoder));
        OK(mlxn_encoder_reset(encoder));
        mlxn_buffer *const all[] = {dy, lhs, rhs, dlhs, drhs};
        for (size_t k = 0; k < 5; k++)
            mlxn_buffer_destroy(all[k]);
        if (i == 20)
            most = atomic_load(&c.live_bytes);
        if (i > 20)
            assert_true(atomic_load(&c.live_bytes) <= most + (1 << 20));
    }
    mlxn_encoder_destroy(encoder);
    mlxn_device_destroy(device);
    assert_int_equal(atomic_load(&c.live), 0);
}

/* The device is closed by the last of its handles; its allocator is used until then, a copy of the caller's struct. */
static void the_allocator_is_copied(void **state) {
    (void)state;
    counting c = {0};
    mlxn_allocator allocator = counting_allocator(&c);
    const mlxn_device_options options = {.size = sizeof options, .threads = 1, .allocator = &allocator};
    mlxn_device *device;
    OK(mlxn_device_open("cpu", &options, &device));
    memset(&allocator, 0, sizeof allocator);
    mlxn_buffer *x = test_vector(device, MLXN_F32, 1000);
    unsigned char *data;
    OK(mlxn_buffer_map(x, (void **)&data));
    for (size_t i = 0; i < 4000; i++)
        assert_int_equal(data[i], 0);
    assert_int_equal((uintptr_t)data % 64, 0);
    mlxn_device_destroy(device);
    assert_true(atomic_load(&c.live) > 0);
    mlxn_buffer_destroy(x);
    assert_int_equal(atomic_load(&c.live), 0);
    assert_int_equal(atomic_load(&c.wrong), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_warm_loop_allocates_nothing),
        cmocka_unit_test(changing_shapes_do_not_pile_up),
        cmocka_unit_test(the_allocator_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
