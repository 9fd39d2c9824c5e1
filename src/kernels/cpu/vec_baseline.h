/* The vectors of vec.h on any x86-64: SSE2. fma and the f16 conversions are made of other instructions. */
#ifndef MLXN_KERNELS_CPU_VEC_BASELINE_H
#define MLXN_KERNELS_CPU_VEC_BASELINE_H

#include <emmintrin.h>

#include "kernels/cpu/vec_baseline_parts.h"

#define VEC_FUSES false

typedef struct v16 {
    __m128 a, b, c, d;
} v16;

typedef struct n16 {
    __m128i a, b, c, d;
} n16;

/* lo holds the two lower lanes of every register of a v16, hi the two upper ones. */
typedef struct d8 {
    __m128d a, b, c, d;
} d8;

typedef struct d16 {
    d8 lo, hi;
} d16;

/* One operation on every register. */
#define E1(t, op, x) ((t){op((x).a), op((x).b), op((x).c), op((x).d)})
#define E2(t, op, x, y) ((t){op((x).a, (y).a), op((x).b, (y).b), op((x).c, (y).c), op((x).d, (y).d)})
#define EI(t, op, x, i) ((t){op((x).a, i), op((x).b, i), op((x).c, i), op((x).d, i)})
#define D2(op, x, y) ((d16){E2(d8, op, (x).lo, (y).lo), E2(d8, op, (x).hi, (y).hi)})

VEC_INLINE n16 n16_of(v16 v) { return E1(n16, _mm_castps_si128, v); }
VEC_INLINE v16 v16_of(n16 n) { return E1(v16, _mm_castsi128_ps, n); }

VEC_INLINE n16 n16_splat(uint32_t u) {
    __m128i s = _mm_set1_epi32((int)u);
    return (n16){s, s, s, s};
}

VEC_INLINE n16 n16_add(n16 a, n16 b) { return E2(n16, _mm_add_epi32, a, b); }
VEC_INLINE n16 n16_sub(n16 a, n16 b) { return E2(n16, _mm_sub_epi32, a, b); }
VEC_INLINE n16 n16_and(n16 a, n16 b) { return E2(n16, _mm_and_si128, a, b); }
VEC_INLINE n16 n16_or(n16 a, n16 b) { return E2(n16, _mm_or_si128, a, b); }
VEC_INLINE n16 n16_above(n16 a, n16 b) { return E2(n16, _mm_cmpgt_epi32, a, b); }
VEC_INLINE n16 n16_shl(n16 a, const int count) { return EI(n16, _mm_slli_epi32, a, count); }
VEC_INLINE n16 n16_shr(n16 a, const int count) { return EI(n16, _mm_srli_epi32, a, count); }
VEC_INLINE n16 n16_sar(n16 a, const int count) { return EI(n16, _mm_srai_epi32, a, count); }

VEC_INLINE v16 v16_splat(float f) {
    __m128 s = _mm_set1_ps(f);
    return (v16){s, s, s, s};
}

VEC_INLINE v16 v16_zero(void) { return v16_splat(0.0f); }
VEC_INLINE v16 v16_add(v16 a, v16 b) { return E2(v16, _mm_add_ps, a, b); }
VEC_INLINE v16 v16_sub(v16 a, v16 b) { return E2(v16, _mm_sub_ps, a, b); }
VEC_INLINE v16 v16_mul(v16 a, v16 b) { return E2(v16, _mm_mul_ps, a, b); }
VEC_INLINE v16 v16_div(v16 a, v16 b) { return E2(v16, _mm_div_ps, a, b); }
VEC_INLINE v16 v16_sqrt(v16 a) { return E1(v16, _mm_sqrt_ps, a); }
VEC_INLINE v16 v16_mul_add(v16 a, v16 b, v16 c) { return v16_add(v16_mul(a, b), c); }
VEC_INLINE v16 v16_and(v16 a, v16 mask) { return E2(v16, _mm_and_ps, a, mask); }
VEC_INLINE v16 v16_abs(v16 a) { return v16_and(a, v16_of(n16_splat(0x7fffffffu))); }
VEC_INLINE v16 v16_less(v16 a, v16 b) { return E2(v16, _mm_cmplt_ps, a, b); }
VEC_INLINE v16 v16_equal(v16 a, v16 b) { return E2(v16, _mm_cmpeq_ps, a, b); }

VEC_INLINE v16 v16_fma(v16 x, v16 y, v16 z) {
    return (v16){vec_fma4(x.a, y.a, z.a), vec_fma4(x.b, y.b, z.b), vec_fma4(x.c, y.c, z.c), vec_fma4(x.d, y.d, z.d)};
}

VEC_INLINE v16 v16_blend(v16 mask, v16 x, v16 y) {
    return (v16){vec_blend4(mask.a, x.a, y.a), vec_blend4(mask.b, x.b, y.b), vec_blend4(mask.c, x.c, y.c),
                 vec_blend4(mask.d, x.d, y.d)};
}

VEC_INLINE bool v16_all(v16 mask) {
    return _mm_movemask_ps(_mm_and_ps(_mm_and_ps(mask.a, mask.b), _mm_and_ps(mask.c, mask.d))) == 0xf;
}
VEC_INLINE bool v16_all_equal(v16 a, v16 b) { return v16_all(v16_equal(a, b)); }

VEC_INLINE v16 v16_canonical(v16 a) { return v16_blend(v16_equal(a, a), v16_of(n16_splat(0x7fc00000u)), a); }

VEC_INLINE v16 v16_load_f32(const float *p) {
    return (v16){_mm_loadu_ps(p), _mm_loadu_ps(p + 4), _mm_loadu_ps(p + 8), _mm_loadu_ps(p + 12)};
}

/* 16 halves, each in the upper 16 bits of its lane. */
VEC_INLINE n16 vec_load_upper(const uint16_t *p) {
    const __m128i *q = (const __m128i *)(const void *)p;
    __m128i low = _mm_loadu_si128(q), high = _mm_loadu_si128(q + 1), zero = _mm_setzero_si128();
    return (n16){_mm_unpacklo_epi16(zero, low), _mm_unpackhi_epi16(zero, low), _mm_unpacklo_epi16(zero, high),
                 _mm_unpackhi_epi16(zero, high)};
}

VEC_INLINE v16 v16_load_bf16(const uint16_t *p) { return v16_of(vec_load_upper(p)); }

/* Multiplying by 2^112 turns f16's exponent into f32's, subnormals included. */
VEC_INLINE v16 v16_load_f16(const uint16_t *p) {
    n16 bits = vec_load_upper(p), sign = n16_and(bits, n16_splat(0x80000000u));
    n16 magnitude = n16_shr(n16_and(bits, n16_splat(0x7fff0000u)), 3);
    n16 special = n16_and(n16_above(magnitude, n16_splat(0x0f7fffffu)), n16_splat(0x7f800000u));
    v16 scaled = v16_mul(v16_of(magnitude), v16_splat(0x1p112f));
    return v16_of(n16_or(n16_or(n16_of(scaled), special), sign));
}

/* Packs the lower 16 bits of every lane, whose upper ones extend their sign. */
typedef struct vec_packed {
    __m128i low, high;
} vec_packed;

VEC_INLINE vec_packed vec_pack(n16 n) { return (vec_packed){_mm_packs_epi32(n.a, n.b), _mm_packs_epi32(n.c, n.d)}; }
VEC_INLINE vec_packed vec_to_f16(v16 v) { return vec_pack(E1(n16, vec_to_f16_4, v16_canonical(v))); }

VEC_INLINE vec_packed vec_to_bf16(v16 v) {
    n16 bits = n16_of(v16_canonical(v));
    n16 even = n16_and(n16_shr(bits, 16), n16_splat(1));
    return vec_pack(n16_sar(n16_add(bits, n16_add(even, n16_splat(0x7fff))), 16));
}

VEC_INLINE void vec_store(uint16_t *p, vec_packed halves) {
    _mm_storeu_si128((__m128i *)(void *)p, halves.low);
    _mm_storeu_si128((__m128i *)(void *)(p + 8), halves.high);
}

VEC_INLINE void vec_stream(uint16_t *p, vec_packed halves) {
    _mm_stream_si128((__m128i *)(void *)p, halves.low);
    _mm_stream_si128((__m128i *)(void *)(p + 8), halves.high);
}

VEC_INLINE void v16_store_f32(float *p, v16 v) {
    _mm_storeu_ps(p, v.a), _mm_storeu_ps(p + 4, v.b), _mm_storeu_ps(p + 8, v.c), _mm_storeu_ps(p + 12, v.d);
}

VEC_INLINE void v16_stream_f32(float *p, v16 v) {
    _mm_stream_ps(p, v.a), _mm_stream_ps(p + 4, v.b), _mm_stream_ps(p + 8, v.c), _mm_stream_ps(p + 12, v.d);
}

VEC_INLINE void v16_store_f16(uint16_t *p, v16 v) { vec_store(p, vec_to_f16(v)); }
VEC_INLINE void v16_store_bf16(uint16_t *p, v16 v) { vec_store(p, vec_to_bf16(v)); }
VEC_INLINE void v16_stream_f16(uint16_t *p, v16 v) { vec_stream(p, vec_to_f16(v)); }
VEC_INLINE void v16_stream_bf16(uint16_t *p, v16 v) { vec_stream(p, vec_to_bf16(v)); }

/* The sum of a row's 16 lanes is down to 4 before the rows are paired. */
VEC_INLINE __m128 vec_rowsum4(const v16 *r) {
    __m128 four[4], two[2];
    for (size_t k = 0; k < 4; k++)
        four[k] = _mm_add_ps(_mm_add_ps(r[k].a, r[k].c), _mm_add_ps(r[k].b, r[k].d));
    for (size_t k = 0; k < 2; k++)
        two[k] = _mm_add_ps(_mm_movelh_ps(four[2 * k], four[2 * k + 1]), _mm_movehl_ps(four[2 * k + 1], four[2 * k]));
    return _mm_add_ps(_mm_shuffle_ps(two[0], two[1], 0x88), _mm_shuffle_ps(two[0], two[1], 0xdd));
}

VEC_INLINE d16 d16_splat(double f) {
    __m128d s = _mm_set1_pd(f);
    return (d16){{s, s, s, s}, {s, s, s, s}};
}

VEC_INLINE __m128 vec_upper2(__m128 v) { return _mm_movehl_ps(v, v); }
VEC_INLINE __m128i vec_upper2i(__m128i n) { return _mm_unpackhi_epi64(n, n); }
VEC_INLINE n16 vec_upper(n16 n) { return E1(n16, vec_upper2i, n); }
VEC_INLINE d16 d16_of_v16(v16 v) {
    return (d16){E1(d8, _mm_cvtps_pd, v), E1(d8, _mm_cvtps_pd, E1(v16, vec_upper2, v))};
}
VEC_INLINE d16 d16_of_n16(n16 n) { return (d16){E1(d8, _mm_cvtepi32_pd, n), E1(d8, _mm_cvtepi32_pd, vec_upper(n))}; }
VEC_INLINE d16 d16_add(d16 a, d16 b) { return D2(_mm_add_pd, a, b); }
VEC_INLINE d16 d16_sub(d16 a, d16 b) { return D2(_mm_sub_pd, a, b); }
VEC_INLINE d16 d16_mul(d16 a, d16 b) { return D2(_mm_mul_pd, a, b); }
VEC_INLINE d16 d16_div(d16 a, d16 b) { return D2(_mm_div_pd, a, b); }
VEC_INLINE d16 d16_mul_add(d16 a, d16 b, d16 c) { return d16_add(d16_mul(a, b), c); }
VEC_INLINE d16 d16_mul_sub(d16 a, d16 b, d16 c) { return d16_sub(d16_mul(a, b), c); }

/* Adds the two lower lanes of n to the exponents. */
VEC_INLINE __m128d vec_scale2(__m128d a, __m128i n) {
    __m128i upper = _mm_unpacklo_epi32(_mm_setzero_si128(), n);
    return _mm_castsi128_pd(_mm_add_epi64(_mm_castpd_si128(a), _mm_slli_epi64(upper, 20)));
}

VEC_INLINE d16 d16_scale(d16 a, n16 n) {
    n16 upper = vec_upper(n);
    return (d16){E2(d8, vec_scale2, a.lo, n), E2(d8, vec_scale2, a.hi, upper)};
}

VEC_INLINE __m128 vec_narrow4(__m128d low, __m128d high) {
    return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}

#include "kernels/cpu/vec_plain.h"

VEC_INLINE v16 v16_lookup(const float *p, n16 n) {
    int32_t at[16];
    n = n16_and(n, n16_splat(15));
    memcpy(at, &n, sizeof at);
    float line[16];
    for (size_t lane = 0; lane < 16; lane++)
        line[lane] = p[at[lane]];
    return v16_load_f32(line);
}

#endif
