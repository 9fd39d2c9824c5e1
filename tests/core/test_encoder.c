/* The encoder: recording, failing and staying failed, committing again, timing, destruction in any order. */
#include "support/test.h"

static mlxn_device *device;

static int open_device(void **state) {
    (void)state;
    device = test_device(0);
    return 0;
}

static int close_device(void **state) {
    (void)state;
    mlxn_device_destroy(device);
    return 0;
}

static mlxn_buffer *filled(int64_t count, float value) {
    mlxn_buffer *buffer = test_vector(device, MLXN_F32, count);
    float *data;
    OK(mlxn_buffer_map(buffer, (void **)&data));
    for (int64_t i = 0; i < count; i++)
        data[i] = value;
    return buffer;
}

static float first_of(const mlxn_buffer *buffer) {
    float value;
    OK(mlxn_buffer_read(buffer, 0, 4, &value));
    return value;
}

static void a_failure_sticks_until_reset(void **state) {
    (void)state;
    mlxn_buffer *x = filled(16, 2), *y = filled(16, 7), *wrong = filled(8, 7);
    mlxn_encoder *encoder = test_encoder(device);
    assert_string_equal(mlxn_encoder_message(encoder), "");
    OK(mlxn_mul(encoder, x, x, y));
    assert_int_equal(mlxn_encoder_dispatches(encoder), 1);
    FAILS(MLXN_SHAPE_MISMATCH, mlxn_exp(encoder, x, wrong));
    char first[256];
    snprintf(first, sizeof first, "%s", mlxn_last_error());
    assert_string_equal(first, "exp_f32: y has shape [8], expected [16]");
    assert_string_equal(mlxn_encoder_message(encoder), first);
    /* Others' failures do not replace the text, right calls do not clear it. */
    FAILS(MLXN_SHAPE_MISMATCH, mlxn_exp(encoder, NULL, y));
    FAILS(MLXN_SHAPE_MISMATCH, mlxn_exp(encoder, x, y));
    FAILS(MLXN_SHAPE_MISMATCH, mlxn_encoder_dispatch(encoder, &(mlxn_dispatch){.size = sizeof(mlxn_dispatch)}));
    FAILS(MLXN_SHAPE_MISMATCH, mlxn_encode(encoder, "no_such_op", NULL, 0, MLXN_OVERWRITE));
    FAILS(MLXN_SHAPE_MISMATCH, mlxn_encoder_commit(encoder));
    FAILS(MLXN_SHAPE_MISMATCH, mlxn_encoder_commit_and_wait(encoder));
    assert_string_equal(mlxn_last_error(), first);
    assert_string_equal(mlxn_encoder_message(encoder), first);
    OK(mlxn_encoder_wait(encoder));
    assert_true(first_of(y) == 7);
    OK(mlxn_encoder_reset(encoder));
    assert_string_equal(mlxn_encoder_message(encoder), "");
    assert_int_equal(mlxn_encoder_dispatches(encoder), 0);
    OK(mlxn_mul(encoder, x, x, y));
    OK(mlxn_encoder_commit_and_wait(encoder));
    assert_true(first_of(y) == 4);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
    mlxn_buffer_destroy(wrong);
}

static void other_encoders_are_not_affected(void **state) {
    (void)state;
    mlxn_buffer *x = filled(16, 3), *y = filled(16, 0);
    mlxn_encoder *bad = test_encoder(device), *good = test_encoder(device);
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_exp(bad, x, NULL));
    OK(mlxn_mul(good, x, x, y));
    OK(mlxn_encoder_commit_and_wait(good));
    assert_true(first_of(y) == 9);
    mlxn_encoder_destroy(bad);
    mlxn_encoder_destroy(good);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
}

static void committing_again_works_on_present_contents(void **state) {
    (void)state;
    static const int64_t counts[] = {16, 1 << 18};
    for (size_t i = 0; i < 2; i++) {
        mlxn_buffer *x = filled(counts[i], 2), *y = filled(counts[i], 0);
        mlxn_encoder *encoder = test_encoder(device);
        OK(mlxn_mul(encoder, x, x, y)); /* y = x², x = y·x */
        OK(mlxn_mul(encoder, y, x, x));
        OK(mlxn_encoder_commit(encoder));
        OK(mlxn_encoder_commit(encoder));
        OK(mlxn_encoder_wait(encoder));
        OK(mlxn_encoder_wait(encoder));
        assert_true(first_of(x) == 512);
        const float half = 0.5f;
        OK(mlxn_buffer_write(x, 0, 4, &half));
        OK(mlxn_encoder_commit_and_wait(encoder));
        assert_true(first_of(x) == 0.125f);
        assert_int_equal(mlxn_encoder_dispatches(encoder), 2);
        mlxn_encoder_destroy(encoder);
        mlxn_buffer_destroy(x);
        mlxn_buffer_destroy(y);
    }
}

static void a_committed_encoder_does_not_record(void **state) {
    (void)state;
    mlxn_buffer *x = filled(16, 2), *y = filled(16, 0);
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_mul(encoder, x, x, y));
    OK(mlxn_encoder_commit_and_wait(encoder));
    FAILS_WITH(MLXN_INVALID_STATE, "committed", mlxn_mul(encoder, x, x, y));
    OK(mlxn_encoder_reset(encoder));
    OK(mlxn_mul(encoder, x, y, y));
    OK(mlxn_encoder_commit_and_wait(encoder));
    assert_true(first_of(y) == 8);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
}

static void an_empty_list_is_fine(void **state) {
    (void)state;
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_encoder_wait(encoder));
    OK(mlxn_encoder_reset(encoder));
    OK(mlxn_encoder_commit(encoder));
    OK(mlxn_encoder_commit_and_wait(encoder));
    assert_int_equal(mlxn_encoder_dispatches(encoder), 0);
    mlxn_encoder_destroy(encoder);
}

static void buffers_may_go_before_the_work(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        const int64_t count = 50000;
        mlxn_buffer *x = filled(count, 3), *y = filled(count, 0), *z = filled(count, 0), *view;
        OK(mlxn_buffer_view(z, 1, 1, (const int64_t[]){count - 1}, &view));
        mlxn_encoder *encoder = test_encoder(device);
        OK(mlxn_mul(encoder, x, x, y));
        OK(mlxn_mul(encoder, y, x, z));
        mlxn_buffer_destroy(x);
        mlxn_buffer_destroy(y);
        mlxn_buffer_destroy(z);
        mlxn_buffer *churn[8]; /* would take over the memory, had it been freed */
        for (size_t i = 0; i < 8; i++)
            churn[i] = filled(count, -1);
        OK(mlxn_encoder_commit_and_wait(encoder));
        for (size_t i = 0; i < 8; i++) {
            const float *data;
            OK(mlxn_buffer_map(churn[i], (void **)&data));
            for (int64_t k = 0; k < count; k++)
                assert_true(data[k] == -1);
            mlxn_buffer_destroy(churn[i]);
        }
        const float *data;
        OK(mlxn_buffer_map(view, (void **)&data));
        for (int64_t k = 0; k < count - 1; k++)
            assert_true(data[k] == 27);
        mlxn_encoder_destroy(encoder);
        assert_true(first_of(view) == 27);
        mlxn_buffer_destroy(view);
    }
}

static void timing_on_request(void **state) {
    (void)state;
    mlxn_buffer *x = filled(1 << 18, 0.5f), *y = filled(1 << 18, 0);
    const mlxn_encoder_options options = {.size = sizeof options, .timing = true};
    mlxn_encoder *encoder;
    const char *kernel = NULL;
    uint64_t nanoseconds = 0;
    OK(mlxn_encoder_create(device, &options, &encoder));
    FAILS(MLXN_INVALID_STATE, mlxn_encoder_timing(encoder, 0, &kernel, &nanoseconds));
    OK(mlxn_exp(encoder, x, y));
    OK(mlxn_mul(encoder, x, y, y));
    FAILS(MLXN_INVALID_STATE, mlxn_encoder_timing(encoder, 0, &kernel, &nanoseconds));
    for (int commit = 0; commit < 2; commit++) {
        OK(mlxn_encoder_commit_and_wait(encoder));
        static const char *const names[] = {"exp_f32", "mul_f32"};
        for (size_t i = 0; i < 2; i++) {
            nanoseconds = 0;
            OK(mlxn_encoder_timing(encoder, i, &kernel, &nanoseconds));
            assert_string_equal(kernel, names[i]);
            assert_true(nanoseconds > 1000 && nanoseconds < UINT64_C(10000000000));
        }
    }
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_encoder_timing(encoder, 2, &kernel, &nanoseconds));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_encoder_timing(encoder, SIZE_MAX, &kernel, &nanoseconds));
    OK(mlxn_encoder_reset(encoder));
    assert_true(mlxn_encoder_timing(encoder, 0, &kernel, &nanoseconds) != MLXN_OK);
    mlxn_encoder_destroy(encoder);

    encoder = test_encoder(device);
    OK(mlxn_exp(encoder, x, y));
    OK(mlxn_encoder_commit_and_wait(encoder));
    FAILS_WITH(MLXN_INVALID_STATE, "timing", mlxn_encoder_timing(encoder, 0, &kernel, &nanoseconds));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
}

static void options_are_checked(void **state) {
    (void)state;
    mlxn_encoder *encoder = (mlxn_encoder *)8;
    mlxn_encoder_options options = {.size = sizeof options + 1};
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "size", mlxn_encoder_create(device, &options, &encoder));
    assert_null(encoder);
    options.size = 0;
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "size", mlxn_encoder_create(device, &options, &encoder));
}

/* Thousands of dispatches in one list, each on what the last one wrote. */
static void a_long_chain(void **state) {
    (void)state;
    mlxn_buffer *x = filled(64, 1.0009765625f), *y = filled(64, 1);
    mlxn_encoder *encoder = test_encoder(device);
    float expected = 1;
    for (int i = 0; i < 5000; i++) {
        mlxn_mul(encoder, x, y, y);
        expected = expected * 1.0009765625f;
    }
    assert_int_equal(mlxn_encoder_dispatches(encoder), 5000);
    OK(mlxn_encoder_commit_and_wait(encoder));
    assert_true(first_of(y) == expected);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
}

/* Lists that share memory run in the order of their commits. */
static void lists_run_in_commit_order(void **state) {
    (void)state;
    mlxn_buffer *x = filled(1 << 17, 2), *y = filled(1 << 17, 0), *z = filled(1 << 17, 0);
    mlxn_encoder *first = test_encoder(device), *second = test_encoder(device);
    OK(mlxn_mul(second, y, y, z)); /* recorded first, committed second */
    OK(mlxn_mul(first, x, x, y));
    OK(mlxn_encoder_commit(first));
    OK(mlxn_encoder_commit(second));
    OK(mlxn_encoder_wait(second));
    assert_true(first_of(z) == 16);
    mlxn_encoder_destroy(first);
    mlxn_encoder_destroy(second);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
    mlxn_buffer_destroy(z);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_sticks_until_reset),
        cmocka_unit_test(other_encoders_are_not_affected),
        cmocka_unit_test(committing_again_works_on_present_contents),
        cmocka_unit_test(a_committed_encoder_does_not_record),
        cmocka_unit_test(an_empty_list_is_fine),
        cmocka_unit_test(buffers_may_go_before_the_work),
        cmocka_unit_test(timing_on_request),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(a_long_chain),
        cmocka_unit_test(lists_run_in_commit_order),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
