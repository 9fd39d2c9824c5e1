/* The vectors of vec.h on x86-64 with AVX2, FMA and F16C. */
#ifndef MLXN_KERNELS_CPU_VEC_AVX2_H
#define MLXN_KERNELS_CPU_VEC_AVX2_H

#include <immintrin.h>

#define VEC_FUSES true

typedef struct v16 {
    __m256 a, b;
} v16;

typedef struct n16 {
    __m256i a, b;
} n16;

/* Lanes 0 1 4 5, 2 3 6 7, 8 9 12 13, 10 11 14 15, as unpacking and shuffling two f32 registers wants them. */
typedef struct d16 {
    __m256d a, b, c, d;
} d16;

/* One operation on every register. */
#define V1(op, x) ((v16){op((x).a), op((x).b)})
#define V2(op, x, y) ((v16){op((x).a, (y).a), op((x).b, (y).b)})
#define V3(op, x, y, z) ((v16){op((x).a, (y).a, (z).a), op((x).b, (y).b, (z).b)})
#define N2(op, x, y) ((n16){op((x).a, (y).a), op((x).b, (y).b)})
#define NI(op, x, i) ((n16){op((x).a, i), op((x).b, i)})
#define D1(op, x) ((d16){op((x).a), op((x).b), op((x).c), op((x).d)})
#define D2(op, x, y) ((d16){op((x).a, (y).a), op((x).b, (y).b), op((x).c, (y).c), op((x).d, (y).d)})
#define D3(op, x, y, z) \
    ((d16){op((x).a, (y).a, (z).a), op((x).b, (y).b, (z).b), op((x).c, (y).c, (z).c), op((x).d, (y).d, (z).d)})

VEC_INLINE n16 n16_of(v16 v) { return (n16){_mm256_castps_si256(v.a), _mm256_castps_si256(v.b)}; }
VEC_INLINE v16 v16_of(n16 n) { return (v16){_mm256_castsi256_ps(n.a), _mm256_castsi256_ps(n.b)}; }
VEC_INLINE n16 n16_splat(uint32_t u) { return (n16){_mm256_set1_epi32((int)u), _mm256_set1_epi32((int)u)}; }
VEC_INLINE n16 n16_add(n16 a, n16 b) { return N2(_mm256_add_epi32, a, b); }
VEC_INLINE n16 n16_sub(n16 a, n16 b) { return N2(_mm256_sub_epi32, a, b); }
VEC_INLINE n16 n16_and(n16 a, n16 b) { return N2(_mm256_and_si256, a, b); }
VEC_INLINE n16 n16_or(n16 a, n16 b) { return N2(_mm256_or_si256, a, b); }
VEC_INLINE n16 n16_above(n16 a, n16 b) { return N2(_mm256_cmpgt_epi32, a, b); }
VEC_INLINE n16 n16_shl(n16 a, const int count) { return NI(_mm256_slli_epi32, a, count); }
VEC_INLINE n16 n16_shr(n16 a, const int count) { return NI(_mm256_srli_epi32, a, count); }
VEC_INLINE n16 n16_sar(n16 a, const int count) { return NI(_mm256_srai_epi32, a, count); }

VEC_INLINE v16 v16_splat(float f) { return (v16){_mm256_set1_ps(f), _mm256_set1_ps(f)}; }
VEC_INLINE v16 v16_zero(void) { return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
VEC_INLINE v16 v16_add(v16 a, v16 b) { return V2(_mm256_add_ps, a, b); }
VEC_INLINE v16 v16_sub(v16 a, v16 b) { return V2(_mm256_sub_ps, a, b); }
VEC_INLINE v16 v16_mul(v16 a, v16 b) { return V2(_mm256_mul_ps, a, b); }
VEC_INLINE v16 v16_div(v16 a, v16 b) { return V2(_mm256_div_ps, a, b); }
VEC_INLINE v16 v16_sqrt(v16 a) { return V1(_mm256_sqrt_ps, a); }
VEC_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return V3(_mm256_fmadd_ps, a, b, c); }
VEC_INLINE v16 v16_mul_add(v16 a, v16 b, v16 c) { return v16_fma(a, b, c); }
VEC_INLINE v16 v16_and(v16 a, v16 mask) { return V2(_mm256_and_ps, a, mask); }
VEC_INLINE v16 v16_blend(v16 mask, v16 a, v16 b) { return V3(_mm256_blendv_ps, a, b, mask); }
VEC_INLINE v16 v16_abs(v16 a) { return v16_and(a, v16_of(n16_splat(0x7fffffffu))); }

VEC_INLINE v16 v16_less(v16 a, v16 b) {
    return (v16){_mm256_cmp_ps(a.a, b.a, _CMP_LT_OQ), _mm256_cmp_ps(a.b, b.b, _CMP_LT_OQ)};
}

VEC_INLINE v16 v16_equal(v16 a, v16 b) {
    return (v16){_mm256_cmp_ps(a.a, b.a, _CMP_EQ_OQ), _mm256_cmp_ps(a.b, b.b, _CMP_EQ_OQ)};
}

VEC_INLINE bool v16_all(v16 mask) { return _mm256_movemask_ps(_mm256_and_ps(mask.a, mask.b)) == 0xff; }
VEC_INLINE bool v16_all_equal(v16 a, v16 b) { return v16_all(v16_equal(a, b)); }

VEC_INLINE bool v16_all_within(v16 a, float f) {
    n16 size = n16_of(v16_abs(a));
    __m256i limit = _mm256_castps_si256(_mm256_set1_ps(f));
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(limit, _mm256_max_epi32(size.a, size.b))) == -1;
}

VEC_INLINE v16 v16_canonical(v16 a) { return v16_blend(v16_equal(a, a), v16_of(n16_splat(0x7fc00000u)), a); }

VEC_INLINE v16 v16_load_f32(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }

VEC_INLINE v16 v16_load_f16(const uint16_t *p) {
    const __m128i *q = (const __m128i *)(const void *)p;
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}

VEC_INLINE v16 v16_load_bf16(const uint16_t *p) {
    const __m128i *q = (const __m128i *)(const void *)p;
    n16 wide = {_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), _mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1))};
    return v16_of(n16_shl(wide, 16));
}

VEC_INLINE __m256i vec_to_f16(v16 v) {
    v = v16_canonical(v);
    return _mm256_set_m128i(_mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
}

VEC_INLINE __m256i vec_to_bf16(v16 v) {
    n16 bits = n16_of(v16_canonical(v));
    n16 even = n16_and(n16_shr(bits, 16), n16_splat(1));
    n16 half = n16_shr(n16_add(bits, n16_add(even, n16_splat(0x7fff))), 16);
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(half.a, half.b), 0xd8);
}

VEC_INLINE void v16_store_f32(float *p, v16 v) { _mm256_storeu_ps(p, v.a), _mm256_storeu_ps(p + 8, v.b); }
VEC_INLINE void v16_store_f16(uint16_t *p, v16 v) { _mm256_storeu_si256((__m256i *)(void *)p, vec_to_f16(v)); }
VEC_INLINE void v16_store_bf16(uint16_t *p, v16 v) { _mm256_storeu_si256((__m256i *)(void *)p, vec_to_bf16(v)); }
VEC_INLINE void v16_stream_f32(float *p, v16 v) { _mm256_stream_ps(p, v.a), _mm256_stream_ps(p + 8, v.b); }
VEC_INLINE void v16_stream_f16(uint16_t *p, v16 v) { _mm256_stream_si256((__m256i *)(void *)p, vec_to_f16(v)); }
VEC_INLINE void v16_stream_bf16(uint16_t *p, v16 v) { _mm256_stream_si256((__m256i *)(void *)p, vec_to_bf16(v)); }

VEC_INLINE v16 v16_mask(size_t n) { return v16_load_f32((const float *)(const void *)(vec_mask_table + 16 - n)); }

VEC_INLINE v16 v16_load_part_f32(const float *p, size_t n) {
    n16 mask = n16_of(v16_mask(n));
    return (v16){_mm256_maskload_ps(p, mask.a), _mm256_maskload_ps(p + 8, mask.b)};
}

VEC_INLINE void v16_store_part_f32(float *p, v16 v, size_t n) {
    n16 mask = n16_of(v16_mask(n));
    _mm256_maskstore_ps(p, mask.a, v.a);
    _mm256_maskstore_ps(p + 8, mask.b, v.b);
}

VEC_INLINE v16 v16_lookup(const float *p, n16 at) {
    v16 from = v16_load_f32(p);
    v16 low = {_mm256_permutevar8x32_ps(from.a, at.a), _mm256_permutevar8x32_ps(from.a, at.b)};
    v16 high = {_mm256_permutevar8x32_ps(from.b, at.a), _mm256_permutevar8x32_ps(from.b, at.b)};
    return v16_blend(v16_of(n16_shl(at, 28)), low, high); /* blends by the top bit: index bit 3 */
}

/* The row sums of r[0 … 8). Rows 0 to 3 gather in the low half of the register, 4 to 7 in the high one. */
VEC_INLINE __m256 vec_rowsum8(const v16 *r) {
    __m256 two[4];
    for (size_t k = 0; k < 4; k++) {
        __m256 low = _mm256_add_ps(r[k].a, r[k].b), high = _mm256_add_ps(r[k + 4].a, r[k + 4].b);
        two[k] = _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
    }
    __m256 four[2];
    for (size_t k = 0; k < 2; k++) {
        __m256d even = _mm256_castps_pd(two[2 * k]), odd = _mm256_castps_pd(two[2 * k + 1]);
        four[k] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(even, odd)),
                                _mm256_castpd_ps(_mm256_unpackhi_pd(even, odd)));
    }
    return _mm256_add_ps(_mm256_shuffle_ps(four[0], four[1], 0x88), _mm256_shuffle_ps(four[0], four[1], 0xdd));
}

VEC_INLINE v16 v16_rowsum(const v16 *r) { return (v16){vec_rowsum8(r), vec_rowsum8(r + 8)}; }

#include "kernels/cpu/vec_avx2_f64.h"
#endif
