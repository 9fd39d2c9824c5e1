/* The rows of vec_rows.h on AArch64. */
#ifndef MLXN_KERNELS_CPU_VEC_ROWS_NEON_H
#define MLXN_KERNELS_CPU_VEC_ROWS_NEON_H

/* The lower or upper halves of two registers. */
VEC_INLINE float32x4_t vec_lower_halves(float32x4_t x, float32x4_t y) {
    return vcombine_f32(vget_low_f32(x), vget_low_f32(y));
}
VEC_INLINE float32x4_t vec_upper_halves(float32x4_t x, float32x4_t y) {
    return vcombine_f32(vget_high_f32(x), vget_high_f32(y));
}

/* The sums of the registers' lanes. */
VEC_INLINE float32x4_t vec_sums4(v16 r) {
    float32x4_t x = vaddq_f32(vec_lower_halves(r.a, r.b), vec_upper_halves(r.a, r.b));
    float32x4_t y = vaddq_f32(vec_lower_halves(r.c, r.d), vec_upper_halves(r.c, r.d));
    return vaddq_f32(vuzp1q_f32(x, y), vuzp2q_f32(x, y));
}

#include "kernels/cpu/vec_rows_plain.h"

#endif
