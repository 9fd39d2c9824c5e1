/* The vectors of vec.h on x86-64 with AVX-512 F, BW, DQ and VL. */
#ifndef MLXN_KERNELS_CPU_VEC_AVX512_H
#define MLXN_KERNELS_CPU_VEC_AVX512_H

#include <immintrin.h>

#define VEC_FUSES true

typedef struct v16 {
    __m512 v;
} v16;

typedef struct n16 {
    __m512i v;
} n16;

typedef struct d16 {
    __m512d a, b;
} d16;

/* One operation on both registers. */
#define D2(op, x, y) ((d16){op((x).a, (y).a), op((x).b, (y).b)})

VEC_INLINE n16 n16_of(v16 v) { return (n16){_mm512_castps_si512(v.v)}; }
VEC_INLINE v16 v16_of(n16 n) { return (v16){_mm512_castsi512_ps(n.v)}; }
VEC_INLINE v16 vec_mask_of(__mmask16 mask) { return (v16){_mm512_castsi512_ps(_mm512_movm_epi32(mask))}; }
VEC_INLINE __mmask16 vec_of_mask(v16 mask) { return _mm512_movepi32_mask(_mm512_castps_si512(mask.v)); }

VEC_INLINE n16 n16_splat(uint32_t u) { return (n16){_mm512_set1_epi32((int)u)}; }
VEC_INLINE n16 n16_add(n16 a, n16 b) { return (n16){_mm512_add_epi32(a.v, b.v)}; }
VEC_INLINE n16 n16_sub(n16 a, n16 b) { return (n16){_mm512_sub_epi32(a.v, b.v)}; }
VEC_INLINE n16 n16_and(n16 a, n16 b) { return (n16){_mm512_and_si512(a.v, b.v)}; }
VEC_INLINE n16 n16_or(n16 a, n16 b) { return (n16){_mm512_or_si512(a.v, b.v)}; }
VEC_INLINE n16 n16_above(n16 a, n16 b) { return n16_of(vec_mask_of(_mm512_cmpgt_epi32_mask(a.v, b.v))); }
VEC_INLINE n16 n16_shl(n16 a, const int count) { return (n16){(__m512i)((__v16su)a.v << count)}; }
VEC_INLINE n16 n16_shr(n16 a, const int count) { return (n16){(__m512i)((__v16su)a.v >> count)}; }
VEC_INLINE n16 n16_sar(n16 a, const int count) { return (n16){(__m512i)((__v16si)a.v >> count)}; }

VEC_INLINE v16 v16_splat(float f) { return (v16){_mm512_set1_ps(f)}; }
VEC_INLINE v16 v16_zero(void) { return (v16){_mm512_setzero_ps()}; }
VEC_INLINE v16 v16_add(v16 a, v16 b) { return (v16){_mm512_add_ps(a.v, b.v)}; }
VEC_INLINE v16 v16_sub(v16 a, v16 b) { return (v16){_mm512_sub_ps(a.v, b.v)}; }
VEC_INLINE v16 v16_mul(v16 a, v16 b) { return (v16){_mm512_mul_ps(a.v, b.v)}; }
VEC_INLINE v16 v16_div(v16 a, v16 b) { return (v16){_mm512_div_ps(a.v, b.v)}; }
VEC_INLINE v16 v16_sqrt(v16 a) { return (v16){_mm512_sqrt_ps(a.v)}; }
VEC_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return (v16){_mm512_fmadd_ps(a.v, b.v, c.v)}; }
VEC_INLINE v16 v16_mul_add(v16 a, v16 b, v16 c) { return v16_fma(a, b, c); }
VEC_INLINE v16 v16_and(v16 a, v16 mask) { return (v16){_mm512_and_ps(a.v, mask.v)}; }
VEC_INLINE v16 v16_abs(v16 a) { return (v16){_mm512_abs_ps(a.v)}; }
VEC_INLINE v16 v16_less(v16 a, v16 b) { return vec_mask_of(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)); }
VEC_INLINE v16 v16_equal(v16 a, v16 b) { return vec_mask_of(_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)); }
VEC_INLINE bool v16_all(v16 mask) { return vec_of_mask(mask) == 0xffff; }
VEC_INLINE bool v16_all_equal(v16 a, v16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ) == 0xffff; }

VEC_INLINE bool v16_all_within(v16 a, float f) {
    return _mm512_cmp_ps_mask(v16_abs(a).v, _mm512_set1_ps(f), _CMP_LT_OQ) == 0xffff;
}

VEC_INLINE v16 v16_blend(v16 mask, v16 a, v16 b) { return (v16){_mm512_mask_blend_ps(vec_of_mask(mask), a.v, b.v)}; }

VEC_INLINE v16 v16_canonical(v16 a) {
    __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    return (v16){_mm512_mask_blend_ps(nan, a.v, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)))};
}

VEC_INLINE __m256i vec_load256(const uint16_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
VEC_INLINE v16 v16_load_f32(const float *p) { return (v16){_mm512_loadu_ps(p)}; }
VEC_INLINE v16 v16_load_f16(const uint16_t *p) { return (v16){_mm512_cvtph_ps(vec_load256(p))}; }

VEC_INLINE v16 v16_load_bf16(const uint16_t *p) {
    return v16_of(n16_shl((n16){_mm512_cvtepu16_epi32(vec_load256(p))}, 16));
}

VEC_INLINE __m256i vec_to_f16(v16 v) {
    return _mm512_maskz_cvtps_ph((__mmask16)0xffff, v16_canonical(v).v, _MM_FROUND_TO_NEAREST_INT);
}

VEC_INLINE __m256i vec_to_bf16(v16 v) {
    n16 bits = n16_of(v16_canonical(v));
    n16 even = n16_and(n16_shr(bits, 16), n16_splat(1));
    return _mm512_cvtepi32_epi16(n16_shr(n16_add(bits, n16_add(even, n16_splat(0x7fff))), 16).v);
}

VEC_INLINE void v16_store_f32(float *p, v16 v) { _mm512_storeu_ps(p, v.v); }
VEC_INLINE void v16_store_f16(uint16_t *p, v16 v) { _mm256_storeu_si256((__m256i *)(void *)p, vec_to_f16(v)); }
VEC_INLINE void v16_store_bf16(uint16_t *p, v16 v) { _mm256_storeu_si256((__m256i *)(void *)p, vec_to_bf16(v)); }
VEC_INLINE void v16_stream_f32(float *p, v16 v) { _mm512_stream_ps(p, v.v); }
VEC_INLINE void v16_stream_f16(uint16_t *p, v16 v) { _mm256_stream_si256((__m256i *)(void *)p, vec_to_f16(v)); }
VEC_INLINE void v16_stream_bf16(uint16_t *p, v16 v) { _mm256_stream_si256((__m256i *)(void *)p, vec_to_bf16(v)); }

VEC_INLINE v16 v16_mask(size_t n) { return v16_load_f32((const float *)(const void *)(vec_mask_table + 16 - n)); }

VEC_INLINE v16 v16_load_part_f32(const float *p, size_t n) {
    return (v16){_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p)};
}

VEC_INLINE void v16_store_part_f32(float *p, v16 v, size_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v.v);
}

VEC_INLINE v16 v16_lookup(const float *p, n16 at) { return (v16){_mm512_permutexvar_ps(at.v, _mm512_loadu_ps(p))}; }

/* Each round halves the lanes of a row and doubles the rows of a register; the rows are paired such that
 * the last round leaves them in order. */
VEC_INLINE v16 v16_rowsum(const v16 *r) {
    __m512 two[8], four[4], eight[2];
    for (size_t k = 0; k < 4; k++) {
        for (size_t h = 0; h < 2; h++) {
            __m512 x = r[8 * h + k].v, y = r[8 * h + k + 4].v;
            two[2 * k + h] = _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
        }
        __m512 x = two[2 * k], y = two[2 * k + 1];
        four[k] = _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd));
    }
    for (size_t k = 0; k < 2; k++) {
        __m512d x = _mm512_castps_pd(four[2 * k]), y = _mm512_castps_pd(four[2 * k + 1]);
        eight[k] =
            _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    return (v16){
        _mm512_add_ps(_mm512_shuffle_ps(eight[0], eight[1], 0x88), _mm512_shuffle_ps(eight[0], eight[1], 0xdd))};
}

VEC_INLINE d16 d16_splat(double f) { return (d16){_mm512_set1_pd(f), _mm512_set1_pd(f)}; }

VEC_INLINE d16 d16_of_v16(v16 v) {
    return (d16){_mm512_cvtps_pd(_mm512_castps512_ps256(v.v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(v.v, 1))};
}

VEC_INLINE d16 d16_of_n16(n16 n) {
    return (d16){_mm512_cvtepi32_pd(_mm512_castsi512_si256(n.v)),
                 _mm512_cvtepi32_pd(_mm512_extracti32x8_epi32(n.v, 1))};
}

VEC_INLINE d16 d16_of_magic(v16 v) { return d16_of_v16(v16_sub(v, v16_splat(VEC_MAGIC))); }
VEC_INLINE d16 d16_add(d16 a, d16 b) { return D2(_mm512_add_pd, a, b); }
VEC_INLINE d16 d16_mul(d16 a, d16 b) { return D2(_mm512_mul_pd, a, b); }
VEC_INLINE d16 d16_div(d16 a, d16 b) { return D2(_mm512_div_pd, a, b); }

VEC_INLINE d16 d16_mul_add(d16 x, d16 y, d16 z) {
    return (d16){_mm512_fmadd_pd(x.a, y.a, z.a), _mm512_fmadd_pd(x.b, y.b, z.b)};
}

VEC_INLINE d16 d16_mul_sub(d16 x, d16 y, d16 z) {
    return (d16){_mm512_fmsub_pd(x.a, y.a, z.a), _mm512_fmsub_pd(x.b, y.b, z.b)};
}

VEC_INLINE __m512d vec_scale8(__m512d a, __m256i n) {
    return _mm512_castsi512_pd(
        _mm512_add_epi64(_mm512_castpd_si512(a), _mm512_slli_epi64(_mm512_cvtepi32_epi64(n), 52)));
}

VEC_INLINE d16 d16_scale(d16 a, n16 n) {
    return (d16){vec_scale8(a.a, _mm512_castsi512_si256(n.v)), vec_scale8(a.b, _mm512_extracti32x8_epi32(n.v, 1))};
}

VEC_INLINE v16 v16_of_d16(d16 d) {
    return (v16){_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(d.a)), _mm512_cvtpd_ps(d.b), 1)};
}

VEC_INLINE v16 v16_of_normal_d16(d16 d) { return v16_of_d16(d); }

VEC_INLINE __m512d vec_sticky8(__m512d d) {
    __m512i kept = _mm512_and_si512(_mm512_castpd_si512(d), _mm512_set1_epi64(-(1LL << 29)));
    return _mm512_castsi512_pd(_mm512_or_si512(kept, _mm512_set1_epi64(1LL << 29)));
}

VEC_INLINE v16 v16_sticky_of_d16(d16 d) { return v16_of_d16((d16){vec_sticky8(d.a), vec_sticky8(d.b)}); }

#endif
