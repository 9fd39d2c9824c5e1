/* The rows of vec_rows.h on any x86-64. */
#ifndef MLXN_KERNELS_CPU_VEC_ROWS_BASELINE_H
#define MLXN_KERNELS_CPU_VEC_ROWS_BASELINE_H

/* The sums of the registers' lanes. */
VEC_INLINE __m128 vec_sums4(v16 r) {
    __m128 x = _mm_add_ps(_mm_movelh_ps(r.a, r.b), _mm_movehl_ps(r.b, r.a));
    __m128 y = _mm_add_ps(_mm_movelh_ps(r.c, r.d), _mm_movehl_ps(r.d, r.c));
    return _mm_add_ps(_mm_shuffle_ps(x, y, 0x88), _mm_shuffle_ps(x, y, 0xdd));
}

#include "kernels/cpu/vec_rows_plain.h"

#endif
