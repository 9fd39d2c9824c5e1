/* Buffers: creating, wrapping, views, reshaping, copying. */
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

static void created_buffers_are_zero_and_aligned(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 3, 16, 63, 1000, 1 << 16, 3 << 20};
    for (int dtype = MLXN_F32; dtype <= MLXN_I64; dtype++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            for (int again = 0; again < 2; again++) { /* the second time the memory is likely a used one */
                mlxn_buffer *buffer = test_vector(device, (mlxn_dtype)dtype, counts[i]);
                unsigned char *data;
                OK(mlxn_buffer_map(buffer, (void **)&data));
                assert_int_equal((uintptr_t)data % 64, 0);
                const size_t bytes = (size_t)counts[i] * mlxn_dtype_size((mlxn_dtype)dtype);
                assert_int_equal(mlxn_buffer_bytes(buffer), bytes);
                for (size_t k = 0; k < bytes; k++)
                    if (data[k] != 0)
                        fail_msg("byte %zu of %zu is not 0", k, bytes);
                memset(data, 0xff, bytes);
                mlxn_buffer_destroy(buffer);
            }
}

static void what_a_buffer_is(void **state) {
    (void)state;
    const int64_t shape[8] = {2, 3, 1, 4, 1, 1, 5, 2};
    for (size_t rank = 0; rank <= 8; rank++) {
        mlxn_buffer *buffer = test_buffer(device, MLXN_BF16, rank, rank == 0 ? NULL : shape);
        int64_t count = 1;
        for (size_t i = 0; i < rank; i++)
            count *= shape[i];
        assert_int_equal(mlxn_buffer_dtype(buffer), MLXN_BF16);
        assert_int_equal(mlxn_buffer_rank(buffer), rank);
        assert_int_equal(mlxn_buffer_count(buffer), count);
        assert_int_equal(mlxn_buffer_bytes(buffer), 2 * count);
        assert_false(mlxn_buffer_read_only(buffer));
        assert_true(mlxn_buffer_shape(buffer) != shape);
        if (rank > 0)
            assert_memory_equal(mlxn_buffer_shape(buffer), shape, rank * sizeof *shape);
        mlxn_buffer_destroy(buffer);
    }
    assert_int_equal(mlxn_buffer_dtype(NULL), MLXN_F32);
    assert_int_equal(mlxn_buffer_rank(NULL), 0);
    assert_null(mlxn_buffer_shape(NULL));
    assert_int_equal(mlxn_buffer_count(NULL), 0);
    assert_int_equal(mlxn_buffer_bytes(NULL), 0);
    assert_false(mlxn_buffer_read_only(NULL));
}

static void refused(mlxn_status status, int dtype, size_t rank, const int64_t *shape, const char *text) {
    mlxn_buffer *buffer = (mlxn_buffer *)8;
    FAILS_WITH(status, text, mlxn_buffer_create(device, (mlxn_dtype)dtype, rank, shape, &buffer));
    assert_null(buffer);
    static double memory[2];
    buffer = (mlxn_buffer *)8;
    if (status == MLXN_INVALID_ARGUMENT) {
        FAILS_WITH(status, text, mlxn_buffer_wrap(device, (mlxn_dtype)dtype, rank, shape, memory, NULL, &buffer));
        assert_null(buffer);
    }
}

static void wrong_shapes_are_refused(void **state) {
    (void)state;
    const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    refused(MLXN_INVALID_ARGUMENT, MLXN_F32, 9, nine, "rank is 9");
    refused(MLXN_INVALID_ARGUMENT, MLXN_F32, SIZE_MAX, nine, "rank");
    refused(MLXN_INVALID_ARGUMENT, MLXN_F32, 1, NULL, "shape is NULL");
    refused(MLXN_INVALID_ARGUMENT, MLXN_F32, 2, (const int64_t[]){3, -1}, "[3,-1]");
    refused(MLXN_INVALID_ARGUMENT, MLXN_F32, 2, (const int64_t[]){INT64_MIN, -1}, "negative");
    refused(MLXN_INVALID_ARGUMENT, MLXN_F32, 2, (const int64_t[]){0, -1}, "negative");
    refused(MLXN_INVALID_ARGUMENT, 99, 1, (const int64_t[]){1}, "dtype");
    refused(MLXN_INVALID_ARGUMENT, -1, 1, (const int64_t[]){1}, "dtype");
    refused(MLXN_INVALID_ARGUMENT, MLXN_I64 + 1, 1, (const int64_t[]){1}, "dtype");
}

static void sizes_beyond_64_bits_are_refused(void **state) {
    (void)state;
    const int64_t half = INT64_C(1) << 32, most = INT64_MAX;
    refused(MLXN_INVALID_ARGUMENT, MLXN_F32, 2, (const int64_t[]){half, half}, "bytes");
    refused(MLXN_INVALID_ARGUMENT, MLXN_U8, 2, (const int64_t[]){half, half}, "bytes");
    refused(MLXN_INVALID_ARGUMENT, MLXN_F32, 1, (const int64_t[]){most}, "bytes");
    refused(MLXN_INVALID_ARGUMENT, MLXN_F64, 1, (const int64_t[]){INT64_C(1) << 61}, "bytes");
    refused(MLXN_INVALID_ARGUMENT, MLXN_U16, 2, (const int64_t[]){half, half / 4}, "bytes");
    refused(MLXN_INVALID_ARGUMENT, MLXN_U8, 3, (const int64_t[]){most, 3, most}, "bytes");
    /* A product that wraps around to a small number. */
    refused(MLXN_INVALID_ARGUMENT, MLXN_U8, 3, (const int64_t[]){half, half, 5}, "bytes");
    refused(MLXN_INVALID_ARGUMENT, MLXN_F32, 3, (const int64_t[]){INT64_C(1) << 31, INT64_C(1) << 31, 1}, "bytes");
    /* Countable, but nobody has it. */
    refused(MLXN_OUT_OF_MEMORY, MLXN_U8, 1, (const int64_t[]){most}, "memory");
    refused(MLXN_OUT_OF_MEMORY, MLXN_F32, 2, (const int64_t[]){INT64_C(1) << 30, INT64_C(1) << 28}, "memory");
    refused(MLXN_OUT_OF_MEMORY, MLXN_U8, 1, (const int64_t[]){most - 63}, "memory");
}

static void extent_zero_holds_nothing(void **state) {
    (void)state;
    mlxn_buffer *buffer = test_matrix(device, MLXN_F32, 3, 0), *view, *reshaped;
    assert_int_equal(mlxn_buffer_count(buffer), 0);
    assert_int_equal(mlxn_buffer_bytes(buffer), 0);
    assert_int_equal(mlxn_buffer_rank(buffer), 2);
    OK(mlxn_buffer_read(buffer, 0, 0, NULL));
    OK(mlxn_buffer_write(buffer, 0, 0, NULL));
    char byte = 0;
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_read(buffer, 0, 1, &byte));
    OK(mlxn_buffer_view(buffer, 0, 1, (const int64_t[]){0}, &view));
    OK(mlxn_buffer_reshape(buffer, 1, (const int64_t[]){0}, &reshaped));
    mlxn_buffer_destroy(view);
    mlxn_buffer_destroy(reshaped);
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_view(buffer, 1, 1, (const int64_t[]){0}, &view));
    void *data = NULL;
    OK(mlxn_buffer_map(buffer, &data));
    mlxn_buffer_destroy(buffer);
}

typedef struct released {
    int times;
    void *memory;
} released;

static void on_release(void *context, void *memory) {
    released *r = context;
    r->times++;
    r->memory = memory;
}

static void wrapped_memory_is_used_in_place_and_released_once(void **state) {
    (void)state;
    float memory[64] = {0};
    released r = {0};
    const mlxn_wrap_options options = {.size = sizeof options, .release = on_release, .context = &r};
    mlxn_buffer *buffer, *view, *reshaped;
    OK(mlxn_buffer_wrap(device, MLXN_F32, 1, (const int64_t[]){64}, memory, &options, &buffer));
    void *data;
    OK(mlxn_buffer_map(buffer, &data));
    assert_ptr_equal(data, memory);
    OK(mlxn_buffer_view(buffer, 8, 1, (const int64_t[]){16}, &view));
    OK(mlxn_buffer_reshape(view, 2, (const int64_t[]){4, 4}, &reshaped));
    mlxn_buffer_destroy(buffer);
    mlxn_buffer_destroy(view);
    assert_int_equal(r.times, 0);
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_exp(encoder, reshaped, reshaped);
    mlxn_buffer_destroy(reshaped);
    assert_int_equal(r.times, 0); /* recorded work keeps it */
    OK(mlxn_encoder_commit_and_wait(encoder));
    for (int i = 0; i < 64; i++)
        assert_true(memory[i] == (i >= 8 && i < 24 ? 1.0f : 0.0f));
    assert_int_equal(r.times, 0); /* the list may be replayed */
    OK(mlxn_encoder_reset(encoder));
    assert_int_equal(r.times, 1);
    assert_ptr_equal(r.memory, memory);
    mlxn_encoder_destroy(encoder);
    assert_int_equal(r.times, 1);
}

static void wrap_refuses(void **state) {
    (void)state;
    static _Alignas(8) char memory[64];
    released r = {0};
    mlxn_wrap_options options = {.size = sizeof options, .release = on_release, .context = &r};
    mlxn_buffer *buffer = (mlxn_buffer *)8;
    const int64_t four = 4;
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "align",
               mlxn_buffer_wrap(device, MLXN_F32, 1, &four, memory + 1, &options, &buffer));
    assert_null(buffer);
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_wrap(device, MLXN_F32, 1, &four, memory + 2, &options, &buffer));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_wrap(device, MLXN_F64, 1, &four, memory + 4, &options, &buffer));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_wrap(device, MLXN_F16, 1, &four, memory + 1, &options, &buffer));
    OK(mlxn_buffer_wrap(device, MLXN_U8, 1, &four, memory + 1, NULL, &buffer));
    mlxn_buffer_destroy(buffer);
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_wrap(device, MLXN_F32, 1, &four, NULL, &options, &buffer));
    const int64_t most = INT64_MAX;
    FAILS(MLXN_INVALID_ARGUMENT,
          mlxn_buffer_wrap(device, MLXN_U8, 1, &most, (void *)(UINTPTR_MAX - 63), &options, &buffer));
    options.size = 3;
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "size", mlxn_buffer_wrap(device, MLXN_F32, 1, &four, memory, &options, &buffer));
    assert_int_equal(r.times, 0);
}

static void read_only_memory(void **state) {
    (void)state;
    float memory[8] = {1, 2, 3, 4, 5, 6, 7, 8}, value = 9;
    const mlxn_wrap_options options = {.size = sizeof options, .read_only = true};
    mlxn_buffer *buffer, *view, *y = test_vector(device, MLXN_F32, 8);
    OK(mlxn_buffer_wrap(device, MLXN_F32, 1, (const int64_t[]){8}, memory, &options, &buffer));
    OK(mlxn_buffer_view(buffer, 0, 1, (const int64_t[]){8}, &view));
    assert_true(mlxn_buffer_read_only(buffer));
    assert_true(mlxn_buffer_read_only(view));
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "read-only", mlxn_buffer_write(buffer, 0, 4, &value));
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "read-only", mlxn_buffer_write(view, 4, 4, &value));
    mlxn_encoder *encoder = test_encoder(device);
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "read-only", mlxn_exp(encoder, y, view));
    OK(mlxn_encoder_reset(encoder));
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "read-only", mlxn_exp(encoder, view, view));
    OK(mlxn_encoder_reset(encoder));
    OK(mlxn_exp(encoder, view, y));
    OK(mlxn_encoder_commit_and_wait(encoder));
    OK(mlxn_buffer_read(view, 28, 4, &value));
    assert_true(value == 8 && memory[0] == 1);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(buffer);
    mlxn_buffer_destroy(view);
    mlxn_buffer_destroy(y);
}

static void view_refused(const mlxn_buffer *of, int64_t offset, size_t rank, const int64_t *shape) {
    mlxn_buffer *view = (mlxn_buffer *)8;
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_view(of, offset, rank, shape, &view));
    assert_null(view);
}

static void views_keep_their_bounds(void **state) {
    (void)state;
    mlxn_buffer *whole = test_vector(device, MLXN_F32, 100), *part, *piece;
    float *data, *at;
    OK(mlxn_buffer_map(whole, (void **)&data));
    for (int i = 0; i < 100; i++)
        data[i] = (float)i;
    OK(mlxn_buffer_view(whole, 20, 2, (const int64_t[]){5, 4}, &part));
    OK(mlxn_buffer_map(part, (void **)&at));
    assert_ptr_equal(at, data + 20);
    assert_int_equal(mlxn_buffer_count(part), 20);
    /* A view of a view is bounded by the view, not by what lies around it. */
    OK(mlxn_buffer_view(part, 19, 0, NULL, &piece));
    float value = 0;
    OK(mlxn_buffer_read(piece, 0, 4, &value));
    assert_true(value == 39);
    mlxn_buffer_destroy(piece);
    OK(mlxn_buffer_view(part, 20, 1, (const int64_t[]){0}, &piece));
    mlxn_buffer_destroy(piece);
    view_refused(part, 19, 1, (const int64_t[]){2});
    view_refused(part, 20, 0, NULL);
    view_refused(part, 0, 1, (const int64_t[]){21});
    view_refused(part, -1, 1, (const int64_t[]){1});
    view_refused(part, INT64_MAX, 1, (const int64_t[]){1});
    view_refused(part, INT64_MIN, 1, (const int64_t[]){1});
    view_refused(part, 1, 1, (const int64_t[]){INT64_MAX / 4});
    view_refused(part, 21, 1, (const int64_t[]){0});
    view_refused(part, 0, 1, (const int64_t[]){-1});
    view_refused(part, 0, 2, (const int64_t[]){INT64_C(1) << 32, INT64_C(1) << 32});
    view_refused(part, 0, 9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
    view_refused(whole, 101, 1, (const int64_t[]){0});
    view_refused(whole, 100, 1, (const int64_t[]){1});
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_read(part, 80, 1, &value));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_write(part, 77, 4, &value));
    mlxn_buffer_destroy(whole);
    /* The memory lives on. */
    OK(mlxn_buffer_read(part, 76, 4, &value));
    assert_true(value == 39);
    mlxn_buffer_destroy(part);
}

static void reshape_keeps_the_count(void **state) {
    (void)state;
    mlxn_buffer *matrix = test_matrix(device, MLXN_F16, 4, 6), *reshaped = NULL;
    OK(mlxn_buffer_reshape(matrix, 3, (const int64_t[]){2, 3, 4}, &reshaped));
    void *a, *b;
    OK(mlxn_buffer_map(matrix, &a));
    OK(mlxn_buffer_map(reshaped, &b));
    assert_ptr_equal(a, b);
    assert_int_equal(mlxn_buffer_rank(reshaped), 3);
    mlxn_buffer_destroy(reshaped);
    OK(mlxn_buffer_reshape(matrix, 8, (const int64_t[]){1, 1, 24, 1, 1, 1, 1, 1}, &reshaped));
    mlxn_buffer_destroy(reshaped);
    static const int64_t wrong[][2] = {{4, 5}, {5, 5}, {24, 0}, {-4, -6}, {INT64_C(1) << 62, 4}, {1, 25}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        reshaped = (mlxn_buffer *)8;
        const mlxn_status status = mlxn_buffer_reshape(matrix, 2, wrong[i], &reshaped);
        assert_true(status == MLXN_SHAPE_MISMATCH || status == MLXN_INVALID_ARGUMENT);
        assert_null(reshaped);
    }
    reshaped = (mlxn_buffer *)8;
    assert_true(mlxn_buffer_reshape(matrix, 0, NULL, &reshaped) != MLXN_OK);
    assert_null(reshaped);
    mlxn_buffer_destroy(matrix);
}

static void copies_stay_in_range(void **state) {
    (void)state;
    mlxn_buffer *buffer = test_vector(device, MLXN_U8, 100);
    unsigned char data[104], back[104];
    for (int i = 0; i < 104; i++)
        data[i] = (unsigned char)(i + 1);
    OK(mlxn_buffer_write(buffer, 10, 80, data));
    memset(back, 0xee, sizeof back);
    OK(mlxn_buffer_read(buffer, 9, 82, back + 1));
    assert_int_equal(back[0], 0xee);
    assert_int_equal(back[1], 0);
    assert_memory_equal(back + 2, data, 80);
    assert_int_equal(back[82], 0);
    assert_int_equal(back[83], 0xee);
    static const size_t ranges[][2] = {
        {0, 101}, {100, 1}, {101, 0}, {50, 51}, {SIZE_MAX, 1}, {1, SIZE_MAX}, {SIZE_MAX, SIZE_MAX}, {SIZE_MAX - 3, 8}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_read(buffer, ranges[i][0], ranges[i][1], back));
        FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_write(buffer, ranges[i][0], ranges[i][1], data));
    }
    OK(mlxn_buffer_read(buffer, 100, 0, NULL));
    OK(mlxn_buffer_write(buffer, 100, 0, NULL));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_read(buffer, 0, 1, NULL));
    FAILS(MLXN_INVALID_ARGUMENT, mlxn_buffer_write(buffer, 0, 1, NULL));
    mlxn_buffer_destroy(buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(created_buffers_are_zero_and_aligned),
        cmocka_unit_test(what_a_buffer_is),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(sizes_beyond_64_bits_are_refused),
        cmocka_unit_test(extent_zero_holds_nothing),
        cmocka_unit_test(wrapped_memory_is_used_in_place_and_released_once),
        cmocka_unit_test(wrap_refuses),
        cmocka_unit_test(read_only_memory),
        cmocka_unit_test(views_keep_their_bounds),
        cmocka_unit_test(reshape_keeps_the_count),
        cmocka_unit_test(copies_stay_in_range),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
