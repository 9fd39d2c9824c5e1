/* One recurrent step of the gated delta rule, the heart of Gated DeltaNet models, with all its gradients.
 *
 *     D = e^(-g) S             the state decays
 *     m = D k                  what the state remembers for the key k
 *     d = beta (v - m)         what it should learn
 *     S1 = D + d (x) k         the new state
 *     y = S1 q                 the answer to the query q
 *
 * for each head: S, D and S1 are [VALUES,KEYS], k and q [KEYS], v, m, d and y [VALUES], g and beta numbers.
 *
 * Every arrow, forward and backward, is an op of the library. Three things to copy from:
 *   - a matrix times a vector, S k, is outer_product_backward_lhs(S, k), and S^T d is outer_product_backward_rhs(S, d):
 *     the sums then have the library's canonical order, and the same bits on every device;
 *   - a number is spread over an array by an outer product with ones, and gathered again by its gradient;
 *   - exp_backward in accumulate mode is dst += a * b, for any a and b.
 * The gradients are checked against central differences of the same step in float64 scalar code.
 */
#include <math.h>
#include <mlxn/mlxn.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 3, VALUES = 8, KEYS = 16, STATE = VALUES * KEYS, HANDLES = 64 };

/* The step's inputs, and the weights of its outputs in the loss = sum(y * weight_y) + sum(S1 * weight_state). */
enum { G, S, K, V, Q, BETA, WEIGHT_Y, WEIGHT_STATE, INPUTS };
static const char *const names[INPUTS] = {"g", "S", "k", "v", "q", "beta", "", ""};
static const int sizes[INPUTS] = {1, STATE, KEYS, VALUES, KEYS, 1, VALUES, STATE}; /* of each, per head */

static mlxn_device *device;
static mlxn_buffer *handles[HANDLES];
static int handle_count;

/* Ends the program with the library's own message if a call failed. */
static void require(mlxn_status status) {
    if (status != MLXN_OK) {
        fprintf(stderr, "gated_delta_rule: %s\n", mlxn_last_error());
        exit(1);
    }
}

/* Keeps a buffer in the list of those to destroy at the end. */
static mlxn_buffer *keep(mlxn_buffer *buffer) {
    if (handle_count == HANDLES) {
        fprintf(stderr, "gated_delta_rule: more than %d buffers\n", HANDLES);
        exit(1);
    }
    return handles[handle_count++] = buffer;
}

/* An array [HEADS,rows,columns], or [HEADS,columns] where rows is 0, filled with `value`. */
static mlxn_buffer *array(int64_t rows, int64_t columns, float value) {
    const int64_t matrix[] = {HEADS, rows, columns}, vector[] = {HEADS, columns};
    mlxn_buffer *buffer;
    void *data;
    require(mlxn_buffer_create(device, MLXN_F32, rows ? 3 : 2, rows ? matrix : vector, &buffer));
    require(mlxn_buffer_map(buffer, &data));
    for (int64_t i = 0; i < mlxn_buffer_count(buffer); i++)
        ((float *)data)[i] = value;
    return keep(buffer);
}

/* The same memory under another shape. */
static mlxn_buffer *as(mlxn_buffer *buffer, int64_t rows, int64_t columns) {
    const int64_t matrix[] = {HEADS, rows, columns}, vector[] = {HEADS, columns};
    mlxn_buffer *view;
    require(mlxn_buffer_reshape(buffer, rows ? 3 : 2, rows ? matrix : vector, &view));
    return keep(view);
}

/* dst += a * b */
static void add_product(mlxn_encoder *encoder, mlxn_buffer *a, mlxn_buffer *b, mlxn_buffer *dst) {
    mlxn_exp_backward(encoder, a, b, dst, MLXN_ACCUMULATE);
}

/* ---- the step on the library's kernels ------------------------------------------------------- */

static void step(float *const input[INPUTS], float *y_out, float *state_out, float *const gradient[INPUTS]) {
    mlxn_buffer *g = array(0, 1, 0), *s = array(VALUES, KEYS, 0), *k = array(0, KEYS, 0), *v = array(0, VALUES, 0);
    mlxn_buffer *q = array(0, KEYS, 0), *beta = array(0, 1, 0);
    mlxn_buffer *dy = array(0, VALUES, 0), *ds1 = array(VALUES, KEYS, 0); /* upstream gradients */
    mlxn_buffer *const inputs[INPUTS] = {g, s, k, v, q, beta, dy, ds1};
    for (int i = 0; i < INPUTS; i++)
        require(mlxn_buffer_write(inputs[i], 0, mlxn_buffer_bytes(inputs[i]), input[i]));

    mlxn_buffer *ones = array(0, STATE, 1), *ones_state = as(ones, VALUES, KEYS), *ones_values = array(0, VALUES, 1);
    mlxn_buffer *minus = array(0, 1, -1), *minus_values = array(0, VALUES, -1);
    mlxn_buffer *x = array(0, 1, 0), *a = array(0, 1, 0);
    mlxn_buffer *spread_a = array(1, STATE, 0), *decay = as(spread_a, VALUES, KEYS), *d_state = array(VALUES, KEYS, 0);
    mlxn_buffer *m = array(0, VALUES, 0), *error = array(0, VALUES, 0);
    mlxn_buffer *spread_beta = array(1, VALUES, 0), *rate = as(spread_beta, 0, VALUES), *delta = array(0, VALUES, 0);
    mlxn_buffer *s1 = array(VALUES, KEYS, 0), *y = array(0, VALUES, 0);

    mlxn_encoder *e;
    require(mlxn_encoder_create(device, NULL, &e));
    mlxn_mul(e, g, minus, x);
    mlxn_exp(e, x, a);
    mlxn_outer_product(e, a, ones, spread_a);
    mlxn_mul(e, decay, s, d_state);
    mlxn_outer_product_backward_lhs(e, d_state, k, m, MLXN_OVERWRITE);
    mlxn_mul(e, v, ones_values, error);
    add_product(e, m, minus_values, error);
    mlxn_outer_product(e, beta, ones_values, spread_beta);
    mlxn_mul(e, rate, error, delta);
    mlxn_outer_product(e, delta, k, s1);
    add_product(e, d_state, ones_state, s1);
    mlxn_outer_product_backward_lhs(e, s1, q, y, MLXN_OVERWRITE);

    mlxn_buffer *dg = array(0, 1, 0), *ds = array(VALUES, KEYS, 0), *dk = array(0, KEYS, 0), *dv = array(0, VALUES, 0);
    mlxn_buffer *dq = array(0, KEYS, 0), *dbeta = array(0, 1, 0), *dx = array(0, 1, 0), *da = array(0, 1, 0);
    mlxn_buffer *product = array(VALUES, KEYS, 0), *ddelta = array(0, VALUES, 0), *dm = array(0, VALUES, 0);
    mlxn_buffer *spread_dbeta = array(1, VALUES, 0), *drate = as(spread_dbeta, 0, VALUES);
    mlxn_buffer *spread_da = array(1, STATE, 0), *ddecay = as(spread_da, VALUES, KEYS);

    mlxn_outer_product_backward_rhs(e, s1, dy, dq, MLXN_OVERWRITE); /* y = S1 q */
    mlxn_outer_product(e, dy, q, product);
    add_product(e, product, ones_state, ds1);
    mlxn_outer_product_backward(e, ds1, delta, k, ddelta, dk, MLXN_OVERWRITE); /* S1 = D + d (x) k */
    mlxn_mul_backward(e, rate, error, ddelta, drate, dv, MLXN_OVERWRITE);      /* d = beta (v - m) */
    mlxn_outer_product_backward_lhs(e, spread_dbeta, ones_values, dbeta, MLXN_OVERWRITE);
    mlxn_mul(e, dv, minus_values, dm);
    mlxn_outer_product_backward_rhs(e, d_state, dm, dk, MLXN_ACCUMULATE); /* m = D k */
    mlxn_outer_product(e, dm, k, product);
    add_product(e, product, ones_state, ds1);
    mlxn_mul_backward(e, decay, s, ds1, ddecay, ds, MLXN_OVERWRITE); /* D = e^(-g) S */
    mlxn_outer_product_backward_lhs(e, spread_da, ones, da, MLXN_OVERWRITE);
    mlxn_exp_backward(e, a, da, dx, MLXN_OVERWRITE);
    mlxn_mul(e, dx, minus, dg);
    require(mlxn_encoder_commit_and_wait(e));
    printf("%zu dispatches recorded and run\n", mlxn_encoder_dispatches(e));
    mlxn_encoder_destroy(e);

    mlxn_buffer *const gradients[] = {dg, ds, dk, dv, dq, dbeta};
    require(mlxn_buffer_read(y, 0, mlxn_buffer_bytes(y), y_out));
    require(mlxn_buffer_read(s1, 0, mlxn_buffer_bytes(s1), state_out));
    for (int i = G; i <= BETA; i++)
        require(mlxn_buffer_read(gradients[i], 0, mlxn_buffer_bytes(gradients[i]), gradient[i]));
    while (handle_count > 0)
        mlxn_buffer_destroy(handles[--handle_count]);
}

/* ---- the same step in float64, without the library ------------------------------------------- */

static double step64(double *const in[INPUTS], double *y, double *state) {
    double loss = 0;
    for (int h = 0; h < HEADS; h++) {
        const double *k = in[K] + h * KEYS, *q = in[Q] + h * KEYS;
        for (int i = 0; i < VALUES; i++) {
            const int value = h * VALUES + i;
            const double *s = in[S] + value * KEYS, a = exp(-in[G][h]);
            double m = 0;
            for (int j = 0; j < KEYS; j++)
                m += a * s[j] * k[j];
            y[value] = 0;
            for (int j = 0; j < KEYS; j++) {
                const double s1 = a * s[j] + in[BETA][h] * (in[V][value] - m) * k[j];
                state[value * KEYS + j] = s1;
                y[value] += s1 * q[j];
                loss += s1 * in[WEIGHT_STATE][value * KEYS + j];
            }
            loss += y[value] * in[WEIGHT_Y][value];
        }
    }
    return loss;
}

/* The largest difference, relative to the largest value. */
static double difference(const float *got, const double *expected, int count) {
    double worst = 0, scale = 0;
    for (int i = 0; i < count; i++) {
        const double error = fabs(got[i] - expected[i]), size = fabs(expected[i]);
        if (isnan(error)) {
            return INFINITY;
        }
        worst = error > worst ? error : worst;
        scale = size > scale ? size : scale;
    }
    return worst / scale;
}

static int report(const char *name, const float *got, const double *expected, int count, double limit) {
    const double worst = difference(got, expected, count);
    printf("  %-6s %4d values   largest relative difference %.1e (limit %.0e)  %s\n", name, count, worst, limit,
           worst <= limit ? "ok" : "WRONG");
    return worst <= limit ? 0 : 1;
}

int main(void) {
    static float input[INPUTS][HEADS * STATE], gradient[INPUTS][HEADS * STATE], y[HEADS * VALUES], state[HEADS * STATE];
    static double input64[INPUTS][HEADS * STATE], fd[HEADS * STATE], y64[HEADS * VALUES], state64[HEADS * STATE];
    static double y_moved[HEADS * VALUES], state_moved[HEADS * STATE];
    float *in[INPUTS], *gradients[INPUTS];
    double *in64[INPUTS];
    uint32_t random = 1;
    for (int i = 0; i < INPUTS; i++) {
        in[i] = input[i], gradients[i] = gradient[i], in64[i] = input64[i];
        for (int j = 0; j < HEADS * sizes[i]; j++) {
            random = random * 1664525u + 1013904223u;
            const float unit = (float)(random >> 8) * 0x1p-24f; /* 0 ... 1 */
            in[i][j] = i == G || i == BETA ? unit : 2 * unit - 1;
            in64[i][j] = in[i][j];
        }
    }

    printf("gated delta rule: %d heads, state %d x %d\n", HEADS, VALUES, KEYS);
    require(mlxn_device_open("cpu", NULL, &device));
    step(in, y, state, gradients);
    mlxn_device_destroy(device);

    int wrong = 0;
    step64(in64, y64, state64);
    printf("results against the step in float64:\n");
    wrong += report("y", y, y64, HEADS * VALUES, 1e-6);
    wrong += report("S", state, state64, HEADS * STATE, 1e-6);
    printf("gradients against central differences in float64:\n");
    for (int i = G; i <= BETA; i++) {
        for (int j = 0; j < HEADS * sizes[i]; j++) {
            const double step_size = 1e-5, centre = in64[i][j];
            in64[i][j] = centre + step_size;
            const double above = step64(in64, y_moved, state_moved);
            in64[i][j] = centre - step_size;
            const double below = step64(in64, y_moved, state_moved);
            in64[i][j] = centre;
            fd[j] = (above - below) / (2 * step_size);
        }
        wrong += report(names[i], gradients[i], fd, HEADS * sizes[i], 2e-6);
    }
    printf("%s\n", wrong == 0 ? "all correct" : "FAILED");
    return wrong != 0;
}
