/* NULL for every pointer argument of every function, and numbers that are no member of their enum: an error or the
 * documented neutral value, never a crash. */
#include "support/test.h"

static mlxn_device *device;
static mlxn_buffer *buffer, *matrix;
static mlxn_encoder *encoder;

static int create(void **state) {
    (void)state;
    device = test_device(1);
    buffer = test_vector(device, MLXN_F32, 4);
    matrix = test_matrix(device, MLXN_F32, 4, 4);
    encoder = test_encoder(device);
    return 0;
}

static int destroy(void **state) {
    (void)state;
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(buffer);
    mlxn_buffer_destroy(matrix);
    mlxn_device_destroy(device);
    return 0;
}

/* The call fails for its argument called `argument`, and names it. */
#define REFUSED(argument, call) FAILS_WITH(MLXN_INVALID_ARGUMENT, argument, call)

static void devices(void **state) {
    (void)state;
    mlxn_device *made = NULL;
    mlxn_device_info info = {.size = sizeof info};
    REFUSED("device is NULL", mlxn_device_open("cpu", NULL, NULL));
    REFUSED("info is NULL", mlxn_device_at(0, NULL));
    REFUSED("device is NULL", mlxn_device_get_info(NULL, &info));
    REFUSED("info is NULL", mlxn_device_get_info(device, NULL));
    mlxn_device_destroy(NULL);
    OK(mlxn_device_open(NULL, NULL, &made)); /* both may be NULL */
    mlxn_device_destroy(made);
}

static void dtypes(void **state) {
    (void)state;
    mlxn_dtype dtype;
    REFUSED("name is NULL", mlxn_dtype_from_name(NULL, &dtype));
    REFUSED("dtype is NULL", mlxn_dtype_from_name("f32", NULL));
}

static void buffers(void **state) {
    (void)state;
    static float memory[4];
    const int64_t four = 4;
    mlxn_buffer *made;
    char byte[4];
    void *data;
    REFUSED("device is NULL", mlxn_buffer_create(NULL, MLXN_F32, 1, &four, &made));
    assert_null(made);
    REFUSED("shape is NULL", mlxn_buffer_create(device, MLXN_F32, 1, NULL, &made));
    REFUSED("NULL", mlxn_buffer_create(device, MLXN_F32, 1, &four, NULL));
    REFUSED("device is NULL", mlxn_buffer_wrap(NULL, MLXN_F32, 1, &four, memory, NULL, &made));
    REFUSED("shape is NULL", mlxn_buffer_wrap(device, MLXN_F32, 1, NULL, memory, NULL, &made));
    REFUSED("memory is NULL", mlxn_buffer_wrap(device, MLXN_F32, 1, &four, NULL, NULL, &made));
    REFUSED("NULL", mlxn_buffer_wrap(device, MLXN_F32, 1, &four, memory, NULL, NULL));
    REFUSED("buffer is NULL", mlxn_buffer_view(NULL, 0, 1, &four, &made));
    REFUSED("shape is NULL", mlxn_buffer_view(buffer, 0, 1, NULL, &made));
    REFUSED("NULL", mlxn_buffer_view(buffer, 0, 1, &four, NULL));
    REFUSED("buffer is NULL", mlxn_buffer_reshape(NULL, 1, &four, &made));
    REFUSED("shape is NULL", mlxn_buffer_reshape(buffer, 1, NULL, &made));
    REFUSED("NULL", mlxn_buffer_reshape(buffer, 1, &four, NULL));
    REFUSED("buffer is NULL", mlxn_buffer_read(NULL, 0, 4, byte));
    REFUSED("data is NULL", mlxn_buffer_read(buffer, 0, 4, NULL));
    REFUSED("buffer is NULL", mlxn_buffer_write(NULL, 0, 4, byte));
    REFUSED("data is NULL", mlxn_buffer_write(buffer, 0, 4, NULL));
    REFUSED("buffer is NULL", mlxn_buffer_map(NULL, &data));
    REFUSED("data is NULL", mlxn_buffer_map(buffer, NULL));
    mlxn_buffer_destroy(NULL);
}

static void encoders(void **state) {
    (void)state;
    mlxn_encoder *made = (mlxn_encoder *)8;
    const char *kernel;
    uint64_t nanoseconds;
    REFUSED("device is NULL", mlxn_encoder_create(NULL, NULL, &made));
    assert_null(made);
    REFUSED("encoder is NULL", mlxn_encoder_create(device, NULL, NULL));
    REFUSED("encoder is NULL", mlxn_encoder_reset(NULL));
    REFUSED("encoder is NULL", mlxn_encoder_commit(NULL));
    REFUSED("encoder is NULL", mlxn_encoder_wait(NULL));
    REFUSED("encoder is NULL", mlxn_encoder_commit_and_wait(NULL));
    REFUSED("encoder is NULL", mlxn_encoder_timing(NULL, 0, &kernel, &nanoseconds));
    REFUSED("kernel is NULL", mlxn_encoder_timing(encoder, 0, NULL, &nanoseconds));
    REFUSED("nanoseconds is NULL", mlxn_encoder_timing(encoder, 0, &kernel, NULL));
    assert_string_equal(mlxn_encoder_message(NULL), "");
    assert_int_equal(mlxn_encoder_dispatches(NULL), 0);
    mlxn_encoder_destroy(NULL);
}

static void nothing(const mlxn_call *call, uint64_t begin, uint64_t end) {
    (void)call;
    (void)begin;
    (void)end;
}

static void registries(void **state) {
    (void)state;
    const mlxn_dispatch dispatch = {.size = sizeof dispatch};
    REFUSED("device is NULL", mlxn_registry_add_function(NULL, "a", nothing));
    REFUSED("name is NULL", mlxn_registry_add_function(device, NULL, nothing));
    REFUSED("function is NULL", mlxn_registry_add_function(device, "a", NULL));
    REFUSED("device is NULL", mlxn_registry_add_source(NULL, "a", "b"));
    REFUSED("name is NULL", mlxn_registry_add_source(device, NULL, "b"));
    REFUSED("source is NULL", mlxn_registry_add_source(device, "a", NULL));
    assert_int_equal(mlxn_registry_count(NULL), 0);
    assert_null(mlxn_registry_name(NULL, 0));
    REFUSED("encoder is NULL", mlxn_encoder_dispatch(NULL, &dispatch));
    REFUSED("dispatch is NULL", mlxn_encoder_dispatch(encoder, NULL));
    OK(mlxn_encoder_reset(encoder));
}

/* Every argument of an op's own function, its encoder included. */
#define OP_REFUSED(argument, call)      \
    REFUSED(argument " is NULL", call); \
    OK(mlxn_encoder_reset(encoder))

static void ops(void **state) {
    (void)state;
    mlxn_buffer *b = buffer, *other = test_vector(device, MLXN_F32, 4), *third = test_vector(device, MLXN_F32, 4);
    const mlxn_mode mode = MLXN_OVERWRITE;
    OP_REFUSED("encoder", mlxn_exp(NULL, b, other));
    OP_REFUSED("x", mlxn_exp(encoder, NULL, b));
    OP_REFUSED("y", mlxn_exp(encoder, b, NULL));
    OP_REFUSED("encoder", mlxn_exp_backward(NULL, b, b, other, mode));
    OP_REFUSED("y", mlxn_exp_backward(encoder, NULL, b, other, mode));
    OP_REFUSED("dy", mlxn_exp_backward(encoder, b, NULL, other, mode));
    OP_REFUSED("dx", mlxn_exp_backward(encoder, b, b, NULL, mode));
    OP_REFUSED("encoder", mlxn_outer_product(NULL, b, b, matrix));
    OP_REFUSED("lhs", mlxn_outer_product(encoder, NULL, b, matrix));
    OP_REFUSED("rhs", mlxn_outer_product(encoder, b, NULL, matrix));
    OP_REFUSED("y", mlxn_outer_product(encoder, b, b, NULL));
    OP_REFUSED("encoder", mlxn_outer_product_backward_lhs(NULL, matrix, b, other, mode));
    OP_REFUSED("dy", mlxn_outer_product_backward_lhs(encoder, NULL, b, other, mode));
    OP_REFUSED("rhs", mlxn_outer_product_backward_lhs(encoder, matrix, NULL, other, mode));
    OP_REFUSED("dlhs", mlxn_outer_product_backward_lhs(encoder, matrix, b, NULL, mode));
    OP_REFUSED("encoder", mlxn_outer_product_backward_rhs(NULL, matrix, b, other, mode));
    OP_REFUSED("dy", mlxn_outer_product_backward_rhs(encoder, NULL, b, other, mode));
    OP_REFUSED("lhs", mlxn_outer_product_backward_rhs(encoder, matrix, NULL, other, mode));
    OP_REFUSED("drhs", mlxn_outer_product_backward_rhs(encoder, matrix, b, NULL, mode));
    OP_REFUSED("encoder", mlxn_outer_product_backward(NULL, matrix, b, b, other, third, mode));
    OP_REFUSED("dy", mlxn_outer_product_backward(encoder, NULL, b, b, other, third, mode));
    OP_REFUSED("lhs", mlxn_outer_product_backward(encoder, matrix, NULL, b, other, third, mode));
    OP_REFUSED("rhs", mlxn_outer_product_backward(encoder, matrix, b, NULL, other, third, mode));
    OP_REFUSED("dlhs", mlxn_outer_product_backward(encoder, matrix, b, b, NULL, third, mode));
    OP_REFUSED("drhs", mlxn_outer_product_backward(encoder, matrix, b, b, other, NULL, mode));
    mlxn_buffer_destroy(other);
    mlxn_buffer_destroy(third);
}

static void ops_by_name(void **state) {
    (void)state;
    mlxn_buffer *const arguments[] = {buffer, buffer};
    const mlxn_buffer *const inputs[] = {buffer}, *const missing[] = {NULL};
    size_t rank;
    int64_t shape[MLXN_MAX_RANK];
    REFUSED("encoder is NULL", mlxn_encode(NULL, "exp", arguments, 2, MLXN_OVERWRITE));
    OP_REFUSED("op", mlxn_encode(encoder, NULL, arguments, 2, MLXN_OVERWRITE));
    OP_REFUSED("arguments", mlxn_encode(encoder, "exp", NULL, 2, MLXN_OVERWRITE));
    REFUSED("op is NULL", mlxn_op_output_shape(NULL, inputs, 1, 0, &rank, shape));
    REFUSED("inputs is NULL", mlxn_op_output_shape("exp", NULL, 1, 0, &rank, shape));
    REFUSED("x is NULL", mlxn_op_output_shape("exp", missing, 1, 0, &rank, shape));
    REFUSED("rank is NULL", mlxn_op_output_shape("exp", inputs, 1, 0, NULL, shape));
    REFUSED("shape is NULL", mlxn_op_output_shape("exp", inputs, 1, 0, &rank, NULL));
    FAILS(MLXN_NOT_FOUND, mlxn_op_output_shape("no_such_op", inputs, 1, 0, &rank, shape));
    assert_null(mlxn_op_find(NULL));
    assert_null(mlxn_op_find("no_such_op"));
    assert_null(mlxn_op_find(""));
    assert_null(mlxn_op_at(mlxn_op_count()));
    assert_null(mlxn_op_at(SIZE_MAX));
    for (size_t i = 0; i < mlxn_op_count(); i++)
        assert_ptr_equal(mlxn_op_find(mlxn_op_at(i)->name), mlxn_op_at(i));
}

static void numbers_outside_their_enum(void **state) {
    (void)state;
    static const int modes[] = {-1, 2, 7, 1 << 30};
    mlxn_buffer *y = test_vector(device, MLXN_F32, 4), *made;
    for (size_t i = 0; i < 4; i++) {
        REFUSED("mode", mlxn_exp_backward(encoder, buffer, buffer, y, (mlxn_mode)modes[i]));
        OK(mlxn_encoder_reset(encoder));
        REFUSED("mode", mlxn_outer_product_backward_rhs(encoder, matrix, buffer, y, (mlxn_mode)modes[i]));
        OK(mlxn_encoder_reset(encoder));
    }
    const int64_t one = 1;
    REFUSED("dtype", mlxn_buffer_create(device, (mlxn_dtype)99, 1, &one, &made));
    mlxn_buffer_destroy(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices),     cmocka_unit_test(dtypes),
        cmocka_unit_test(buffers),     cmocka_unit_test(encoders),
        cmocka_unit_test(registries),  cmocka_unit_test(ops),
        cmocka_unit_test(ops_by_name), cmocka_unit_test(numbers_outside_their_enum),
    };
    return cmocka_run_group_tests(tests, create, destroy);
}
