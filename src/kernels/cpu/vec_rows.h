/* More of vec.h: short rows side by side, for arrays of less than 16 columns. A vector is cut into groups of `lanes`
 * lanes, 4, 8 or 16, always a constant; each belongs to another row.
 *
 *   v16 v16_load_rows_T(p, stride, lanes)    group g = the first `lanes` elements at p + g * stride, widened exactly
 *   void v16_spread(v, p, stride, lanes)     of v[k], k = 0 to 3, each lane of group g = p[g * stride + k], all f32
 *   v16 v16_group_sums(r, lanes)             of r[0 … lanes), which hold 16 rows in order: lane k = the sum of row k's
 *                                            lanes as a halving tree: lane l += lane l + lanes / 2, and so on
 *   v16 v16_group_total(v, lanes)            each group = the sum of all groups: neighbours first, then their sums
 *   v16 v16_expand_halves(p, q, index)       lane l = p[index[l]] for l < 8, q[index[l] - 8] for the others; p and q
 *                                            hold 8 f32; the index of the others is 8 to 15 */
#ifndef MLXN_KERNELS_CPU_VEC_ROWS_H
#define MLXN_KERNELS_CPU_VEC_ROWS_H

#include "kernels/cpu/vec.h"

/* 4 elements of 16 bits. */
VEC_INLINE int64_t vec_four_halves(const uint16_t *p) {
    int64_t halves;
    memcpy(&halves, p, sizeof halves);
    return halves;
}

/* clang-format off */
#define VEC_ROWS_HEADER(isa) VEC_STRING(kernels/cpu/vec_rows_##isa.h)
#define VEC_ROWS_HEADER_OF(isa) VEC_ROWS_HEADER(isa)
#include VEC_ROWS_HEADER_OF(MLXN_ISA)
/* clang-format on */

#endif
