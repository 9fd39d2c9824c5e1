/* Memory of an OpenCL device. */
#include "opencl_test.h"

static mlxn_device *device;

static int close_device(void **state) {
    (void)state;
    mlxn_device_destroy(device);
    device = NULL;
    return 0;
}

static void new_memory_is_zero(void **state) {
    (void)state;
    device = opencl_device(NULL);
    for (int round = 0; round < 20; round++) { /* also where a driver gives the same memory again */
        const int64_t count = 1 + round * 777;
        mlxn_buffer *buffer = test_vector(device, MLXN_U8, count);
        uint8_t *bytes = malloc((size_t)count);
        assert_non_null(bytes);
        memset(bytes, 0xff, (size_t)count);
        OK(mlxn_buffer_read(buffer, 0, (size_t)count, bytes));
        for (int64_t i = 0; i < count; i++)
            assert_int_equal(bytes[i], 0);
        memset(bytes, 0xff, (size_t)count);
        OK(mlxn_buffer_write(buffer, 0, (size_t)count, bytes));
        free(bytes);
        mlxn_buffer_destroy(buffer);
    }
}

static void ranges_and_views(void **state) {
    (void)state;
    device = opencl_device(NULL);
    mlxn_buffer *all = test_vector(device, MLXN_U8, 1000), *view, *inner;
    uint8_t expected[1000] = {0}, found[1000];
    OK(mlxn_buffer_view(all, 301, 1, (const int64_t[]){500}, &view));
    OK(mlxn_buffer_view(view, 99, 1, (const int64_t[]){7}, &inner));
    const uint8_t written[] = {1, 2, 3, 4, 5, 6, 7};
    OK(mlxn_buffer_write(all, 13, 7, written));
    OK(mlxn_buffer_write(view, 1, 7, written));
    OK(mlxn_buffer_write(inner, 2, 3, written));
    OK(mlxn_buffer_write(inner, 7, 0, NULL));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_write(inner, 2, 6, written));
    memcpy(expected + 13, written, 7);
    memcpy(expected + 302, written, 7);
    memcpy(expected + 402, written, 3);
    OK(mlxn_buffer_read(all, 0, 1000, found));
    assert_memory_equal(found, expected, 1000);
    OK(mlxn_buffer_read(view, 1, 5, found));
    assert_memory_equal(found, written, 5);
    OK(mlxn_buffer_read(inner, 2, 3, found));
    assert_memory_equal(found, written, 3);
    mlxn_buffer_destroy(all); /* the views keep the memory */
    mlxn_buffer_destroy(view);
    OK(mlxn_buffer_read(inner, 2, 3, found));
    mlxn_buffer_destroy(inner);
}

static void nothing_has_no_bytes(void **state) {
    (void)state;
    device = opencl_device(NULL);
    mlxn_buffer *empty = test_matrix(device, MLXN_F32, 0, 1000), *view;
    assert_int_equal(mlxn_buffer_bytes(empty), 0);
    OK(mlxn_buffer_read(empty, 0, 0, NULL));
    OK(mlxn_buffer_view(empty, 0, 1, (const int64_t[]){0}, &view));
    mlxn_encoder *encoder = test_encoder(device);
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_mul(encoder, empty, empty, empty));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(view);
    mlxn_buffer_destroy(empty);
}

static void host_memory_is_refused(void **state) {
    (void)state;
    device = opencl_device(NULL);
    float data[4] = {1, 2, 3, 4};
    void *mapped = data;
    mlxn_buffer *buffer = NULL, *own = test_vector(device, MLXN_F32, 4);
    FAILS(MLXN_UNSUPPORTED, mlxn_buffer_wrap(device, MLXN_F32, 1, (const int64_t[]){4}, data, NULL, &buffer));
    assert_null(buffer);
    FAILS(MLXN_UNSUPPORTED, mlxn_buffer_map(own, &mapped));
    mlxn_buffer_destroy(own);
}

/* Ops refuse an overlap, which they see by the addresses that the backend makes up. */
static void memories_are_told_apart(void **state) {
    (void)state;
    device = opencl_device(NULL);
    mlxn_buffer *x[8], *view;
    for (int i = 0; i < 8; i++)
        x[i] = test_vector(device, MLXN_F32, 64);
    OK(mlxn_buffer_view(x[0], 1, 1, (const int64_t[]){63}, &view));
    mlxn_encoder *encoder = test_encoder(device);
    for (int i = 4; i < 8; i++) /* whose outputs must not be one memory */
        OK(mlxn_mul_backward(encoder, x[i - 4], x[i - 3], x[i - 2], x[i - 1], x[i], MLXN_OVERWRITE));
    mlxn_buffer *first;
    OK(mlxn_buffer_view(x[0], 0, 1, (const int64_t[]){63}, &first));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_mul(encoder, view, view, first));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(first);
    mlxn_buffer_destroy(view);
    for (int i = 0; i < 8; i++)
        mlxn_buffer_destroy(x[i]);
}

static void no_memory_is_an_error_and_the_next_call_works(void **state) {
    (void)state;
    device = opencl_device(NULL);
    mlxn_buffer *large = NULL;
    for (int bits = 45; bits < 63; bits += 3) {
        const int64_t count = (int64_t)1 << bits;
        FAILS_WITH(MLXN_OUT_OF_MEMORY, "bytes of memory free", mlxn_buffer_create(device, MLXN_U8, 1, &count, &large));
        assert_null(large);
    }
    FAILS(MLXN_OUT_OF_MEMORY, mlxn_buffer_create(device, MLXN_U8, 1, (const int64_t[]){INT64_MAX}, &large));
    mlxn_buffer *x = test_vector(device, MLXN_F32, 100);
    float values[100], found[100];
    for (int i = 0; i < 100; i++)
        values[i] = (float)i;
    OK(mlxn_buffer_write(x, 0, sizeof values, values));
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_mul(encoder, x, x, x));
    OK(mlxn_encoder_commit_and_wait(encoder));
    OK(mlxn_buffer_read(x, 0, sizeof found, found));
    for (int i = 0; i < 100; i++)
        assert_true(found[i] == (float)(i * i));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(new_memory_is_zero, close_device),
        cmocka_unit_test_teardown(ranges_and_views, close_device),
        cmocka_unit_test_teardown(nothing_has_no_bytes, close_device),
        cmocka_unit_test_teardown(host_memory_is_refused, close_device),
        cmocka_unit_test_teardown(memories_are_told_apart, close_device),
        cmocka_unit_test_teardown(no_memory_is_an_error_and_the_next_call_works, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
