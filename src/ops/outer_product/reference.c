#include "ops/outer_product/reference.h"

#include <math.h>

/* A sum that carries its rounding errors along (A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation
 * endlicher Summen", ZAMM 54, 1974). */
typedef struct sum {
    double total, error;
} sum;

static void add(sum *s, double term) {
    const double total = s->total + term;
    const double lost = fabs(s->total) >= fabs(term) ? (s->total - total) + term : (term - total) + s->total;
    s->error += isfinite(total) ? lost : 0;
    s->total = total;
}

void mlxn_outer_product_reference(int64_t batch, int64_t n, int64_t m, const double *const *in, double *const *out) {
    for (int64_t i = 0; i < batch * n; i++) {
        const double *rhs = in[1] + i / n * m;
        for (int64_t j = 0; j < m; j++) {
            out[0][i * m + j] = in[0][i] * rhs[j];
        }
    }
}

void mlxn_outer_product_backward_lhs_reference(int64_t batch, int64_t n, int64_t m, const double *const *in,
                                               double *const *out) {
    for (int64_t i = 0; i < batch * n; i++) {
        const double *dy = in[0] + i * m, *rhs = in[1] + i / n * m;
        sum s = {0};
        for (int64_t j = 0; j < m; j++) {
            add(&s, dy[j] * rhs[j]);
        }
        out[0][i] = s.total + s.error;
    }
}

void mlxn_outer_product_backward_rhs_reference(int64_t batch, int64_t n, int64_t m, const double *const *in,
                                               double *const *out) {
    for (int64_t k = 0; k < batch * m; k++) {
        const double *dy = in[0] + k / m * n * m + k % m, *lhs = in[1] + k / m * n;
        sum s = {0};
        for (int64_t i = 0; i < n; i++) {
            add(&s, dy[i * m] * lhs[i]);
        }
        out[0][k] = s.total + s.error;
    }
}

void mlxn_outer_product_backward_reference(int64_t batch, int64_t n, int64_t m, const double *const *in,
                                           double *const *out) {
    mlxn_outer_product_backward_lhs_reference(batch, n, m, (const double *const[]){in[0], in[2]}, &out[0]);
    mlxn_outer_product_backward_rhs_reference(batch, n, m, (const double *const[]){in[0], in[1]}, &out[1]);
}
