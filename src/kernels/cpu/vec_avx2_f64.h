/* The f64 lanes of vec.h on x86-64 with AVX2, FMA and F16C; part of vec_avx2.h. */
#ifndef MLXN_KERNELS_CPU_VEC_AVX2_F64_H
#define MLXN_KERNELS_CPU_VEC_AVX2_F64_H

VEC_INLINE d16 d16_splat(double f) {
    __m256d s = _mm256_set1_pd(f);
    return (d16){s, s, s, s};
}

/* The lanes of a register in the order of two registers of f64. */
VEC_INLINE __m256i vec_order(__m256i v) { return _mm256_permute4x64_epi64(v, 0xd8); }
VEC_INLINE __m256 vec_order_f32(__m256 v) { return _mm256_castsi256_ps(vec_order(_mm256_castps_si256(v))); }

VEC_INLINE d16 d16_of_v16(v16 v) {
    v = V1(vec_order_f32, v);
    return (d16){_mm256_cvtps_pd(_mm256_castps256_ps128(v.a)), _mm256_cvtps_pd(_mm256_extractf128_ps(v.a, 1)),
                 _mm256_cvtps_pd(_mm256_castps256_ps128(v.b)), _mm256_cvtps_pd(_mm256_extractf128_ps(v.b, 1))};
}

VEC_INLINE d16 d16_of_n16(n16 n) {
    __m256i a = vec_order(n.a), b = vec_order(n.b);
    return (d16){_mm256_cvtepi32_pd(_mm256_castsi256_si128(a)), _mm256_cvtepi32_pd(_mm256_extracti128_si256(a, 1)),
                 _mm256_cvtepi32_pd(_mm256_castsi256_si128(b)), _mm256_cvtepi32_pd(_mm256_extracti128_si256(b, 1))};
}

/* Under the upper half of 2^52 the bits are an integer of f64. */
VEC_INLINE __m256d vec_of_magic(__m256i half) {
    return _mm256_sub_pd(_mm256_castsi256_pd(half), _mm256_set1_pd(0x1p52 + VEC_MAGIC_BITS));
}

VEC_INLINE d16 d16_of_magic(v16 v) {
    n16 n = n16_of(v);
    __m256i upper = _mm256_set1_epi32(0x43300000);
    return (d16){vec_of_magic(_mm256_unpacklo_epi32(n.a, upper)), vec_of_magic(_mm256_unpackhi_epi32(n.a, upper)),
                 vec_of_magic(_mm256_unpacklo_epi32(n.b, upper)), vec_of_magic(_mm256_unpackhi_epi32(n.b, upper))};
}

VEC_INLINE d16 d16_add(d16 a, d16 b) { return D2(_mm256_add_pd, a, b); }
VEC_INLINE d16 d16_mul(d16 a, d16 b) { return D2(_mm256_mul_pd, a, b); }
VEC_INLINE d16 d16_div(d16 a, d16 b) { return D2(_mm256_div_pd, a, b); }

VEC_INLINE d16 d16_mul_add(d16 x, d16 y, d16 z) { return D3(_mm256_fmadd_pd, x, y, z); }
VEC_INLINE d16 d16_mul_sub(d16 x, d16 y, d16 z) { return D3(_mm256_fmsub_pd, x, y, z); }

VEC_INLINE __m256d vec_scale4(__m256d a, __m256i n) {
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a), _mm256_slli_epi64(n, 52)));
}

VEC_INLINE d16 d16_scale(d16 a, n16 n) {
    return (d16){vec_scale4(a.a, _mm256_unpacklo_epi32(n.a, n.a)), vec_scale4(a.b, _mm256_unpackhi_epi32(n.a, n.a)),
                 vec_scale4(a.c, _mm256_unpacklo_epi32(n.b, n.b)), vec_scale4(a.d, _mm256_unpackhi_epi32(n.b, n.b))};
}

VEC_INLINE v16 v16_of_d16(d16 d) {
    return (v16){vec_order_f32(_mm256_set_m128(_mm256_cvtpd_ps(d.b), _mm256_cvtpd_ps(d.a))),
                 vec_order_f32(_mm256_set_m128(_mm256_cvtpd_ps(d.d), _mm256_cvtpd_ps(d.c)))};
}

/* Half a unit of the 24th bit is added, and the exponent's bias changed; then bits 29 to 60 are those of the f32. */
VEC_INLINE __m256 vec_narrow4(__m256d d) {
    __m256i rounded = _mm256_add_epi64(_mm256_castpd_si256(d), _mm256_set1_epi64x((1LL << 28) - (896LL << 52)));
    return _mm256_castsi256_ps(_mm256_srli_epi64(rounded, 29));
}

VEC_INLINE v16 v16_of_normal_d16(d16 d) {
    return (v16){_mm256_shuffle_ps(vec_narrow4(d.a), vec_narrow4(d.b), 0x88),
                 _mm256_shuffle_ps(vec_narrow4(d.c), vec_narrow4(d.d), 0x88)};
}

VEC_INLINE __m256d vec_sticky4(__m256d d) {
    __m256i kept = _mm256_and_si256(_mm256_castpd_si256(d), _mm256_set1_epi64x(-(1LL << 29)));
    return _mm256_castsi256_pd(_mm256_or_si256(kept, _mm256_set1_epi64x(1LL << 29)));
}

VEC_INLINE v16 v16_sticky_of_d16(d16 d) { return v16_of_d16(D1(vec_sticky4, d)); }

#endif
