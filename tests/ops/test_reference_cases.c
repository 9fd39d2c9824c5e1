/* The reference cases: small inputs with known answers, against float64 and against central differences of the
 * device's own forward. */
#include <math.h>

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

static mlxn_buffer *vector(int64_t count, const float *values) {
    mlxn_buffer *buffer = test_vector(device, MLXN_F32, count);
    if (values != NULL)
        OK(mlxn_buffer_write(buffer, 0, (size_t)count * 4, values));
    return buffer;
}

static mlxn_buffer *matrix(int64_t rows, int64_t columns, const float *values) {
    mlxn_buffer *buffer = test_matrix(device, MLXN_F32, rows, columns);
    if (values != NULL)
        OK(mlxn_buffer_write(buffer, 0, (size_t)(rows * columns) * 4, values));
    return buffer;
}

/* Commits what was recorded and gives the result; all handles are destroyed. */
static void finish(mlxn_encoder *encoder, mlxn_buffer *result, float *values, size_t count) {
    OK(mlxn_encoder_commit_and_wait(encoder));
    OK(mlxn_buffer_read(result, 0, count * 4, values));
    mlxn_encoder_destroy(encoder);
}

static void exp_of(const float *x, size_t count, float *y) {
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_buffer *bx = vector((int64_t)count, x), *by = vector((int64_t)count, NULL);
    mlxn_exp(encoder, bx, by);
    finish(encoder, by, y, count);
    mlxn_buffer_destroy(bx);
    mlxn_buffer_destroy(by);
}

static void outer_of(const float *lhs, int64_t n, const float *rhs, int64_t m, float *y) {
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_buffer *bl = vector(n, lhs), *br = vector(m, rhs), *by = matrix(n, m, NULL);
    mlxn_outer_product(encoder, bl, br, by);
    finish(encoder, by, y, (size_t)(n * m));
    mlxn_buffer_destroy(bl);
    mlxn_buffer_destroy(br);
    mlxn_buffer_destroy(by);
}

static void near(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%.9g, expected %.9g within %.3g", got, expected, tolerance);
}

/* x[i] = 0.073 i - 1.5 */
static void exp_against_float64(void **state) {
    (void)state;
    float x[64], y[64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)(0.073 * i - 1.5);
    exp_of(x, 64, y);
    for (int i = 0; i < 64; i++)
        assert_true(y[i] == (float)exp((double)x[i]));
}

/* y[i] = 0.5 + 0.07 i, dy[i] = sin(0.13 i - 0.5) */
static void exp_backward_against_float64(void **state) {
    (void)state;
    float y[32], dy[32], dx[32];
    for (int i = 0; i < 32; i++) {
        y[i] = (float)(0.5 + 0.07 * i);
        dy[i] = (float)sin(0.13 * i - 0.5);
    }
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_buffer *by = vector(32, y), *bdy = vector(32, dy), *bdx = vector(32, NULL);
    mlxn_exp_backward(encoder, by, bdy, bdx, MLXN_OVERWRITE);
    finish(encoder, bdx, dx, 32);
    for (int i = 0; i < 32; i++)
        assert_true(dx[i] == (float)((double)dy[i] * (double)y[i]));
    mlxn_buffer_destroy(by);
    mlxn_buffer_destroy(bdy);
    mlxn_buffer_destroy(bdx);
}

/* d sum(exp(x)) / dx for x[i] = 0.043 i - 0.5, step 1e-4 */
static void exp_gradient_by_differences(void **state) {
    (void)state;
    float x[16], y[16], ones[16], dx[16], plus[16], minus[16], y_plus[16], y_minus[16];
    for (int i = 0; i < 16; i++) {
        x[i] = (float)(0.043 * i - 0.5);
        ones[i] = 1;
        plus[i] = (float)((double)x[i] + 1e-4);
        minus[i] = (float)((double)x[i] - 1e-4);
    }
    exp_of(x, 16, y);
    exp_of(plus, 16, y_plus);
    exp_of(minus, 16, y_minus);
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_buffer *by = vector(16, y), *bdy = vector(16, ones), *bdx = vector(16, NULL);
    mlxn_exp_backward(encoder, by, bdy, bdx, MLXN_OVERWRITE);
    finish(encoder, bdx, dx, 16);
    for (int i = 0; i < 16; i++) {
        const double fd = ((double)y_plus[i] - (double)y_minus[i]) / ((double)plus[i] - (double)minus[i]);
        near((double)dx[i], fd, 1e-2 * fmax(1, fabs(fd)));
    }
    mlxn_buffer_destroy(by);
    mlxn_buffer_destroy(bdy);
    mlxn_buffer_destroy(bdx);
}

/* lhs[i] = 0.5 + 0.1 i (8), rhs[j] = 0.137 j - 0.3 (5) */
static void outer_product_against_float64(void **state) {
    (void)state;
    float lhs[8], rhs[5], y[40];
    for (int i = 0; i < 8; i++)
        lhs[i] = (float)(0.5 + 0.1 * i);
    for (int j = 0; j < 5; j++)
        rhs[j] = (float)(0.137 * j - 0.3);
    outer_of(lhs, 8, rhs, 5, y);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 5; j++)
            assert_true(y[i * 5 + j] == (float)((double)lhs[i] * (double)rhs[j]));
}

/* The same lhs, rhs[j] = 0.2 + 0.07 j, dy[k] = sin(0.131 k - 0.4) */
static void outer_product_backward_against_float64(void **state) {
    (void)state;
    float lhs[8], rhs[5], dy[40], dlhs[8], drhs[5];
    for (int i = 0; i < 8; i++)
        lhs[i] = (float)(0.5 + 0.1 * i);
    for (int j = 0; j < 5; j++)
        rhs[j] = (float)(0.2 + 0.07 * j);
    for (int k = 0; k < 40; k++)
        dy[k] = (float)sin(0.131 * k - 0.4);
    mlxn_buffer *bl = vector(8, lhs), *br = vector(5, rhs), *bdy = matrix(8, 5, dy);
    mlxn_buffer *bdl = vector(8, NULL), *bdr = vector(5, NULL);

    mlxn_encoder *encoder = test_encoder(device);
    mlxn_outer_product_backward_lhs(encoder, bdy, br, bdl, MLXN_OVERWRITE);
    finish(encoder, bdl, dlhs, 8);
    encoder = test_encoder(device);
    mlxn_outer_product_backward_rhs(encoder, bdy, bl, bdr, MLXN_OVERWRITE);
    finish(encoder, bdr, drhs, 5);

    for (int i = 0; i < 8; i++) {
        double sum = 0;
        for (int j = 0; j < 5; j++)
            sum += (double)dy[i * 5 + j] * (double)rhs[j];
        near((double)dlhs[i], sum, 1e-6);
    }
    for (int j = 0; j < 5; j++) {
        double sum = 0;
        for (int i = 0; i < 8; i++)
            sum += (double)dy[i * 5 + j] * (double)lhs[i];
        near((double)drhs[j], sum, 2e-6);
    }
    mlxn_buffer_destroy(bl);
    mlxn_buffer_destroy(br);
    mlxn_buffer_destroy(bdy);
    mlxn_buffer_destroy(bdl);
    mlxn_buffer_destroy(bdr);
}

static double sum_of_outer(const float lhs[6], const float rhs[4]) {
    float y[24];
    outer_of(lhs, 6, rhs, 4, y);
    double sum = 0;
    for (int k = 0; k < 24; k++)
        sum += (double)y[k];
    return sum;
}

/* The difference quotient of sum_of_outer at *x, one of the elements of lhs or rhs. */
static double quotient(float *x, const float lhs[6], const float rhs[4]) {
    const float kept = *x, plus = (float)((double)kept + 1e-3), minus = (float)((double)kept - 1e-3);
    *x = plus;
    const double above = sum_of_outer(lhs, rhs);
    *x = minus;
    const double below = sum_of_outer(lhs, rhs);
    *x = kept;
    return (above - below) / ((double)plus - (double)minus);
}

/* The gradients of sum(outer(lhs, rhs)): lhs[i] = 0.3 + 0.07 i (6), rhs[j] = 0.5 + 0.05 j (4), step 1e-3.
 * dlhs[i] = sum of rhs, drhs[j] = sum of lhs. */
static void outer_product_gradients_by_differences(void **state) {
    (void)state;
    float lhs[6], rhs[4], ones[24], dlhs[6], drhs[4];
    double lhs_sum = 0, rhs_sum = 0;
    for (int i = 0; i < 6; i++)
        lhs_sum += (double)(lhs[i] = (float)(0.3 + 0.07 * i));
    for (int j = 0; j < 4; j++)
        rhs_sum += (double)(rhs[j] = (float)(0.5 + 0.05 * j));
    for (int k = 0; k < 24; k++)
        ones[k] = 1;

    mlxn_buffer *bl = vector(6, lhs), *br = vector(4, rhs), *bdy = matrix(6, 4, ones);
    mlxn_buffer *bdl = vector(6, NULL), *bdr = vector(4, NULL);
    mlxn_encoder *encoder = test_encoder(device);
    mlxn_outer_product_backward(encoder, bdy, bl, br, bdl, bdr, MLXN_OVERWRITE);
    finish(encoder, bdl, dlhs, 6);
    OK(mlxn_buffer_read(bdr, 0, sizeof drhs, drhs));

    for (int i = 0; i < 6; i++) {
        const double fd = quotient(&lhs[i], lhs, rhs);
        near((double)dlhs[i], fd, 1e-2 * fmax(1, fabs(fd)));
        near((double)dlhs[i], rhs_sum, 1e-6);
    }
    for (int j = 0; j < 4; j++) {
        const double fd = quotient(&rhs[j], lhs, rhs);
        near((double)drhs[j], fd, 1e-2 * fmax(1, fabs(fd)));
        near((double)drhs[j], lhs_sum, 1e-6);
    }
    mlxn_buffer_destroy(bl);
    mlxn_buffer_destroy(br);
    mlxn_buffer_destroy(bdy);
    mlxn_buffer_destroy(bdl);
    mlxn_buffer_destroy(bdr);
}

static void wrong_output_size_is_refused(void **state) {
    (void)state;
    mlxn_buffer *x = vector(16, NULL), *y = vector(8, NULL);
    mlxn_encoder *encoder = test_encoder(device);
    FAILS_WITH(MLXN_SHAPE_MISMATCH, "exp_f32: y has shape [8], expected [16]", mlxn_exp(encoder, x, y));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
}

static void no_elements_are_refused(void **state) {
    (void)state;
    mlxn_buffer *x = vector(0, NULL), *y = vector(0, NULL);
    mlxn_encoder *encoder = test_encoder(device);
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "exp_f32: x has shape [0]", mlxn_exp(encoder, x, y));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_against_float64),
        cmocka_unit_test(exp_backward_against_float64),
        cmocka_unit_test(exp_gradient_by_differences),
        cmocka_unit_test(outer_product_against_float64),
        cmocka_unit_test(outer_product_backward_against_float64),
        cmocka_unit_test(outer_product_gradients_by_differences),
        cmocka_unit_test(wrong_output_size_is_refused),
        cmocka_unit_test(no_elements_are_refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
