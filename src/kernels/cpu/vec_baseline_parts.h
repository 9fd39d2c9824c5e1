/* What SSE2 lacks, for one register of 4 lanes. */
#ifndef MLXN_KERNELS_CPU_VEC_BASELINE_PARTS_H
#define MLXN_KERNELS_CPU_VEC_BASELINE_PARTS_H

#include <emmintrin.h>

/* Too long to stand wherever it is used. */
#define VEC_CALLED static __attribute__((noinline, unused))

VEC_INLINE __m128i vec_select4(__m128i mask, __m128i x, __m128i y) {
    return _mm_or_si128(_mm_andnot_si128(mask, x), _mm_and_si128(mask, y));
}

VEC_INLINE __m128 vec_blend4(__m128 mask, __m128 x, __m128 y) {
    return _mm_or_ps(_mm_andnot_ps(mask, x), _mm_and_ps(mask, y));
}

/* x + y rounded to odd: where the sum is inexact and its last bit 0, it moves one step towards the exact value.
 * The comparisons are false for the NaN that stands for the error of an infinite sum. */
VEC_INLINE __m128d vec_sum_to_odd2(__m128d x, __m128d y) {
    __m128d sum = _mm_add_pd(x, y), part = _mm_sub_pd(sum, x);
    __m128d error = _mm_add_pd(_mm_sub_pd(x, _mm_sub_pd(sum, part)), _mm_sub_pd(y, part)), zero = _mm_setzero_pd();
    __m128i inexact = _mm_castpd_si128(_mm_or_pd(_mm_cmplt_pd(error, zero), _mm_cmpgt_pd(error, zero)));
    __m128i bits = _mm_castpd_si128(sum), one = _mm_set1_epi64x(1);
    __m128i even = _mm_sub_epi64(_mm_and_si128(bits, one), one);
    __m128i apart = _mm_srli_epi64(_mm_castpd_si128(_mm_xor_pd(sum, error)), 63); /* 1 where the signs differ */
    __m128i step = _mm_sub_epi64(one, _mm_add_epi64(apart, apart));
    return _mm_castsi128_pd(_mm_add_epi64(bits, _mm_and_si128(step, _mm_and_si128(even, inexact))));
}

/* x * y + z rounded once. The product is exact in f64; a sum rounded to odd there rounds to f32 as the exact one does,
 * since f64 has more than two bits beyond f32's, subnormals included. */
VEC_CALLED __m128 vec_fma4(__m128 x, __m128 y, __m128 z) {
    __m128 x1 = _mm_movehl_ps(x, x), y1 = _mm_movehl_ps(y, y), z1 = _mm_movehl_ps(z, z);
    __m128d low = vec_sum_to_odd2(_mm_mul_pd(_mm_cvtps_pd(x), _mm_cvtps_pd(y)), _mm_cvtps_pd(z));
    __m128d high = vec_sum_to_odd2(_mm_mul_pd(_mm_cvtps_pd(x1), _mm_cvtps_pd(y1)), _mm_cvtps_pd(z1));
    return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}

/* The f16 nearest to f in the lower 16 bits of each lane, sign extended; NaNs are canonical already. */
VEC_CALLED __m128i vec_to_f16_4(__m128 f) {
    __m128i bits = _mm_castps_si128(f), magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fffffff));
    __m128i sign = _mm_slli_epi32(_mm_srai_epi32(bits, 31), 15);
    /* Normal: the exponent's bias changes by 112, then 13 bits are rounded off to even. */
    __m128i odd = _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(1));
    __m128i biased = _mm_sub_epi32(magnitude, _mm_set1_epi32((112 << 23) - 0xfff));
    __m128i half = _mm_srli_epi32(_mm_add_epi32(biased, odd), 13);
    /* Subnormal: adding 1/2 rounds to multiples of 2^-24, which then stand in the low bits. */
    __m128 sum = _mm_add_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0.5f));
    __m128i subnormal = _mm_sub_epi32(_mm_castps_si128(sum), _mm_castps_si128(_mm_set1_ps(0.5f)));
    half = vec_select4(_mm_cmplt_epi32(magnitude, _mm_set1_epi32(113 << 23)), half, subnormal);
    /* From 65520 on infinity, and NaN. */
    half = vec_select4(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x477fefff)), half, _mm_set1_epi32(0x7c00));
    half = vec_select4(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7f800000)), half, _mm_set1_epi32(0x7e00));
    return _mm_or_si128(half, sign);
}

/* Two f64 cut to 24 bits, the last one set. */
VEC_INLINE __m128d vec_sticky2(__m128d d) {
    __m128i kept = _mm_and_si128(_mm_castpd_si128(d), _mm_set1_epi64x(-(1LL << 29)));
    return _mm_castsi128_pd(_mm_or_si128(kept, _mm_set1_epi64x(1LL << 29)));
}

#endif
