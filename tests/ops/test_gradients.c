/* Every gradient against central differences of the device's own forward, divided by the difference of the rounded
 * inputs. The upstream gradient is random. An op added to ops.def is tested here without an edit. */
#include <math.h>

#include "support/op_case.h"
#include "support/random.h"

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

/* A forward op, its arguments' values, and the upstream gradient of its output. */
typedef struct problem {
    op_case c;
    float *input[MLXN_MAX_ARGUMENTS];
    size_t count[MLXN_MAX_ARGUMENTS];
    float *output, *upstream;
    size_t outputs;
} problem;

static mlxn_buffer *filled(const op_case *c, size_t argument, const float *values) {
    int64_t shape[MLXN_MAX_RANK];
    const size_t rank = op_case_shape(c, argument, shape);
    mlxn_buffer *buffer = test_buffer(device, MLXN_F32, rank, shape);
    if (values != NULL)
        OK(mlxn_buffer_write(buffer, 0, mlxn_buffer_bytes(buffer), values));
    return buffer;
}

static void encode_and_free(const char *op, mlxn_buffer **buffers, size_t count) {
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_encode(encoder, op, buffers, count, MLXN_OVERWRITE));
    OK(mlxn_encoder_commit_and_wait(encoder));
    mlxn_encoder_destroy(encoder);
}

static void forward(const problem *p, float *output) {
    mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
    const size_t inputs = p->c.op->input_count;
    for (size_t k = 0; k < inputs; k++)
        buffers[k] = filled(&p->c, k, p->input[k]);
    buffers[inputs] = filled(&p->c, inputs, NULL);
    encode_and_free(p->c.op->name, buffers, inputs + 1);
    OK(mlxn_buffer_read(buffers[inputs], 0, mlxn_buffer_bytes(buffers[inputs]), output));
    for (size_t k = 0; k <= inputs; k++)
        mlxn_buffer_destroy(buffers[k]);
}

static problem problem_create(const mlxn_op_info *op, const int64_t *extents) {
    problem p = {
        .c = {.op = op, .dtype = MLXN_F32, .lead_rank = 1, .lead = {extents[0]}, .n = extents[1], .m = extents[2]}};
    uint64_t seed = test_seed(99);
    for (size_t k = 0; k < op->input_count; k++) {
        p.count[k] = op_case_count(&p.c, k);
        p.input[k] = malloc(p.count[k] * sizeof(float));
        assert_non_null(p.input[k]);
        for (size_t i = 0; i < p.count[k]; i++)
            p.input[k][i] = 1.25f + 0.75f * random_unit(&seed);
    }
    p.outputs = op_case_count(&p.c, op->input_count);
    p.output = malloc(p.outputs * sizeof(float));
    p.upstream = malloc(p.outputs * sizeof(float));
    assert_non_null(p.output);
    assert_non_null(p.upstream);
    for (size_t i = 0; i < p.outputs; i++)
        p.upstream[i] = random_unit(&seed);
    forward(&p, p.output);
    return p;
}

static void problem_destroy(problem *p) {
    for (size_t k = 0; k < p->c.op->input_count; k++)
        free(p->input[k]);
    free(p->output);
    free(p->upstream);
}

/* The forward's input called like a gradient's output without its "d"; fails the test for another name. */
static size_t input_of_gradient(const mlxn_op_info *forward_op, const char *name) {
    for (size_t k = 0; k < forward_op->input_count; k++)
        if (name[0] == 'd' && strcmp(name + 1, forward_op->arguments[k].name) == 0)
            return k;
    fail_msg("%s: no input for the gradient %s", forward_op->name, name);
    return 0;
}

static const float *values_of(const problem *p, const char *name) {
    const mlxn_op_info *op = p->c.op;
    const char *output = op->arguments[op->input_count].name;
    for (size_t k = 0; k < op->input_count; k++)
        if (strcmp(name, op->arguments[k].name) == 0)
            return p->input[k];
    if (strcmp(name, output) == 0)
        return p->output;
    if (name[0] == 'd' && strcmp(name + 1, output) == 0)
        return p->upstream;
    fail_msg("%s: the gradient's argument %s is neither input, output nor upstream gradient", op->name, name);
    return NULL;
}

/* Compares one element of a gradient with the difference quotient of sum(upstream * forward). */
static void check_element(problem *p, const mlxn_op_info *gradient, size_t input, size_t at, float got, float *plus,
                          float *minus) {
    const float x = p->input[input][at];
    const float above = x + 0x1p-9f, below = x - 0x1p-9f;
    p->input[input][at] = above;
    forward(p, plus);
    p->input[input][at] = below;
    forward(p, minus);
    p->input[input][at] = x;
    double difference = 0, scale = 1;
    for (size_t i = 0; i < p->outputs; i++) {
        difference += (double)p->upstream[i] * ((double)plus[i] - (double)minus[i]);
        scale += plus[i] != minus[i] ? fabs((double)p->upstream[i] * (double)plus[i]) : 0;
    }
    const double quotient = difference / ((double)above - (double)below);
    if (!(fabs(quotient - (double)got) <= 1e-3 * scale))
        test_fail(99, "%s: gradient of input %s[%zu] is %.9g, central difference %.9g, tolerance %.3g", gradient->name,
                  p->c.op->arguments[input].name, at, (double)got, quotient, 1e-3 * scale);
}

static void check_gradient(problem *p, const mlxn_op_info *gradient) {
    op_case c = p->c;
    c.op = gradient;
    const size_t arguments = op_case_arguments(&c);
    mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
    for (size_t k = 0; k < arguments; k++)
        buffers[k] = filled(&c, k, k < gradient->input_count ? values_of(p, gradient->arguments[k].name) : NULL);
    encode_and_free(gradient->name, buffers, arguments);
    float *plus = malloc(p->outputs * sizeof *plus), *minus = malloc(p->outputs * sizeof *minus);
    assert_non_null(plus);
    assert_non_null(minus);
    for (size_t k = gradient->input_count; k < arguments; k++) {
        const size_t input = input_of_gradient(p->c.op, gradient->arguments[k].name);
        assert_int_equal(op_case_count(&c, k), p->count[input]);
        float *got = test_contents(buffers[k]);
        for (size_t at = 0; at < p->count[input]; at++)
            check_element(p, gradient, input, at, got[at], plus, minus);
        free(got);
    }
    free(plus);
    free(minus);
    for (size_t k = 0; k < arguments; k++)
        mlxn_buffer_destroy(buffers[k]);
}

static void gradients_match_differences(void **state) {
    (void)state;
    size_t checked = 0;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *gradient = mlxn_op_at(i);
        if (gradient->forward == NULL || !test_wants_op(gradient->name))
            continue;
        const mlxn_op_info *op = mlxn_op_find(gradient->forward);
        if (op == NULL)
            fail_msg("%s: its forward %s is unknown", gradient->name, gradient->forward);
        const int64_t extents[3] = {op->elementwise ? 61 : 2, op->elementwise ? 1 : 6, op->elementwise ? 1 : 5};
        problem p = problem_create(op, extents);
        check_gradient(&p, gradient);
        problem_destroy(&p);
        checked++;
    }
    assert_true(checked > 0);
}

/* Every forward has a gradient that gives all inputs their gradients, and every gradient a forward. */
static void every_op_is_half_of_a_pair(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (op->forward != NULL) {
            assert_non_null(mlxn_op_find(op->forward));
            assert_true(op->accumulates);
            continue;
        }
        if (op->backward == NULL)
            fail_msg("%s has no gradient", op->name);
        const mlxn_op_info *gradient = mlxn_op_find(op->backward);
        assert_non_null(gradient);
        assert_string_equal(gradient->forward, op->name);
        assert_int_equal(gradient->output_count, op->input_count);
    }
}

/* The gradient of both sides in one pass has the bits of the two single ops, in every dtype and both modes. */
static void one_pass_equals_two(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},    {1, 33, 65},    {3, 40, 1025},
                                        {2, 1100, 7}, {1, 192, 1024}, {700, 8, 8}};
    for (int d = 0; d < 3; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int mode = 0; mode < 2; mode++) {
                op_case c = {.op = mlxn_op_find("outer_product_backward"),
                             .dtype = (mlxn_dtype)d,
                             .mode = (mlxn_mode)mode,
                             .lead_rank = 1,
                             .lead = {shapes[s][0]},
                             .n = shapes[s][1],
                             .m = shapes[s][2],
                             .seed = 5};
                mlxn_buffer *b[5], *single[2];
                op_arrays a = op_arrays_create(&c);
                for (size_t k = 0; k < 7; k++) {
                    int64_t shape[MLXN_MAX_RANK];
                    const size_t argument = k < 5 ? k : k - 2;
                    const size_t rank = op_case_shape(&c, argument, shape);
                    mlxn_buffer *buffer = test_buffer(device, c.dtype, rank, shape);
                    OK(mlxn_buffer_write(buffer, 0, mlxn_buffer_bytes(buffer), a.array[argument]));
                    if (k < 5)
                        b[k] = buffer;
                    else
                        single[k - 5] = buffer;
                }
                mlxn_encoder *encoder = test_encoder(device);
                mlxn_outer_product_backward(encoder, b[0], b[1], b[2], b[3], b[4], c.mode);
                mlxn_outer_product_backward_lhs(encoder, b[0], b[2], single[0], c.mode);
                mlxn_outer_product_backward_rhs(encoder, b[0], b[1], single[1], c.mode);
                OK(mlxn_encoder_commit_and_wait(encoder));
                mlxn_encoder_destroy(encoder);
                for (size_t k = 0; k < 2; k++) {
                    void *both = test_contents(b[3 + k]), *alone = test_contents(single[k]);
                    assert_memory_equal(both, alone, mlxn_buffer_bytes(b[3 + k]));
                    free(both);
                    free(alone);
                }
                for (size_t k = 0; k < 5; k++)
                    mlxn_buffer_destroy(b[k]);
                mlxn_buffer_destroy(single[0]);
                mlxn_buffer_destroy(single[1]);
                op_arrays_destroy(&a);
            }
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_is_half_of_a_pair),
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(one_pass_equals_two),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
