/* The outer product's formulas in float64, for checks. */
#ifndef MLXN_OPS_OUTER_PRODUCT_REFERENCE_H
#define MLXN_OPS_OUTER_PRODUCT_REFERENCE_H

#include <stdint.h>

void mlxn_outer_product_reference(int64_t batch, int64_t n, int64_t m, const double *const *in, double *const *out);
void mlxn_outer_product_backward_lhs_reference(int64_t batch, int64_t n, int64_t m, const double *const *in,
                                               double *const *out);
void mlxn_outer_product_backward_rhs_reference(int64_t batch, int64_t n, int64_t m, const double *const *in,
                                               double *const *out);
void mlxn_outer_product_backward_reference(int64_t batch, int64_t n, int64_t m, const double *const *in,
                                           double *const *out);

#endif
