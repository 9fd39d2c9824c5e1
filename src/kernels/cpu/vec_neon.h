/* The vectors of vec.h on AArch64. C offers no streaming stores here: ordinary ones stand in. */
#ifndef MLXN_KERNELS_CPU_VEC_NEON_H
#define MLXN_KERNELS_CPU_VEC_NEON_H

#include <arm_neon.h>

#define VEC_FUSES true

typedef struct v16 {
    float32x4_t a, b, c, d;
} v16;

typedef struct n16 {
    uint32x4_t a, b, c, d;
} n16;

/* lo holds the two lower lanes of every register of a v16, hi the two upper ones. */
typedef struct d8 {
    float64x2_t a, b, c, d;
} d8;

typedef struct d16 {
    d8 lo, hi;
} d16;

/* One operation on every register. */
#define E1(t, op, x) ((t){op((x).a), op((x).b), op((x).c), op((x).d)})
#define E2(t, op, x, y) ((t){op((x).a, (y).a), op((x).b, (y).b), op((x).c, (y).c), op((x).d, (y).d)})
#define E3(t, op, x, y, z) \
    ((t){op((x).a, (y).a, (z).a), op((x).b, (y).b, (z).b), op((x).c, (y).c, (z).c), op((x).d, (y).d, (z).d)})
#define D2(op, x, y) ((d16){E2(d8, op, (x).lo, (y).lo), E2(d8, op, (x).hi, (y).hi)})

VEC_INLINE n16 n16_of(v16 v) { return E1(n16, vreinterpretq_u32_f32, v); }
VEC_INLINE v16 v16_of(n16 n) { return E1(v16, vreinterpretq_f32_u32, n); }

VEC_INLINE n16 n16_splat(uint32_t u) {
    uint32x4_t s = vdupq_n_u32(u);
    return (n16){s, s, s, s};
}

VEC_INLINE uint32x4_t vec_above4(uint32x4_t a, uint32x4_t b) {
    return vcgtq_s32(vreinterpretq_s32_u32(a), vreinterpretq_s32_u32(b));
}

VEC_INLINE uint32x4_t vec_shift4(uint32x4_t a, int32x4_t count) { return vshlq_u32(a, count); }

VEC_INLINE uint32x4_t vec_sar4(uint32x4_t a, int32x4_t count) {
    return vreinterpretq_u32_s32(vshlq_s32(vreinterpretq_s32_u32(a), count));
}

VEC_INLINE n16 n16_add(n16 a, n16 b) { return E2(n16, vaddq_u32, a, b); }
VEC_INLINE n16 n16_sub(n16 a, n16 b) { return E2(n16, vsubq_u32, a, b); }
VEC_INLINE n16 n16_and(n16 a, n16 b) { return E2(n16, vandq_u32, a, b); }
VEC_INLINE n16 n16_or(n16 a, n16 b) { return E2(n16, vorrq_u32, a, b); }
VEC_INLINE n16 n16_above(n16 a, n16 b) { return E2(n16, vec_above4, a, b); }

/* Shifts to the left by a count that may be negative. */
VEC_INLINE n16 vec_shift(n16 a, int count) {
    int32x4_t s = vdupq_n_s32(count);
    return (n16){vec_shift4(a.a, s), vec_shift4(a.b, s), vec_shift4(a.c, s), vec_shift4(a.d, s)};
}

VEC_INLINE n16 n16_shl(n16 a, const int count) { return vec_shift(a, count); }
VEC_INLINE n16 n16_shr(n16 a, const int count) { return vec_shift(a, -count); }

VEC_INLINE n16 n16_sar(n16 a, const int count) {
    int32x4_t s = vdupq_n_s32(-count);
    return (n16){vec_sar4(a.a, s), vec_sar4(a.b, s), vec_sar4(a.c, s), vec_sar4(a.d, s)};
}

VEC_INLINE v16 v16_splat(float f) {
    float32x4_t s = vdupq_n_f32(f);
    return (v16){s, s, s, s};
}

VEC_INLINE float32x4_t vec_fma4(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }
VEC_INLINE v16 v16_zero(void) { return v16_splat(0.0f); }
VEC_INLINE v16 v16_add(v16 a, v16 b) { return E2(v16, vaddq_f32, a, b); }
VEC_INLINE v16 v16_sub(v16 a, v16 b) { return E2(v16, vsubq_f32, a, b); }
VEC_INLINE v16 v16_mul(v16 a, v16 b) { return E2(v16, vmulq_f32, a, b); }
VEC_INLINE v16 v16_div(v16 a, v16 b) { return E2(v16, vdivq_f32, a, b); }
VEC_INLINE v16 v16_sqrt(v16 a) { return E1(v16, vsqrtq_f32, a); }
VEC_INLINE v16 v16_abs(v16 a) { return E1(v16, vabsq_f32, a); }
VEC_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return E3(v16, vec_fma4, a, b, c); }
VEC_INLINE v16 v16_mul_add(v16 a, v16 b, v16 c) { return v16_fma(a, b, c); }
VEC_INLINE v16 v16_and(v16 a, v16 mask) { return v16_of(n16_and(n16_of(a), n16_of(mask))); }
VEC_INLINE v16 v16_less(v16 a, v16 b) { return v16_of(E2(n16, vcltq_f32, a, b)); }
VEC_INLINE v16 v16_equal(v16 a, v16 b) { return v16_of(E2(n16, vceqq_f32, a, b)); }

VEC_INLINE v16 v16_blend(v16 mask, v16 a, v16 b) {
    n16 m = n16_of(mask);
    return E3(v16, vbslq_f32, m, b, a);
}

VEC_INLINE bool v16_all(v16 mask) {
    n16 m = n16_of(mask);
    return vminvq_u32(vandq_u32(vandq_u32(m.a, m.b), vandq_u32(m.c, m.d))) == UINT32_MAX;
}
VEC_INLINE bool v16_all_equal(v16 a, v16 b) { return v16_all(v16_equal(a, b)); }

VEC_INLINE v16 v16_canonical(v16 a) { return v16_blend(v16_equal(a, a), v16_of(n16_splat(0x7fc00000u)), a); }

VEC_INLINE v16 v16_load_f32(const float *p) {
    return (v16){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}

VEC_INLINE float32x4_t vec_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
VEC_INLINE uint32x4_t vec_load_bf16(const uint16_t *p) { return vshll_n_u16(vld1_u16(p), 16); }

VEC_INLINE v16 v16_load_f16(const uint16_t *p) {
    return (v16){vec_load_f16(p), vec_load_f16(p + 4), vec_load_f16(p + 8), vec_load_f16(p + 12)};
}

VEC_INLINE v16 v16_load_bf16(const uint16_t *p) {
    return v16_of((n16){vec_load_bf16(p), vec_load_bf16(p + 4), vec_load_bf16(p + 8), vec_load_bf16(p + 12)});
}

VEC_INLINE void v16_store_f32(float *p, v16 v) {
    vst1q_f32(p, v.a), vst1q_f32(p + 4, v.b), vst1q_f32(p + 8, v.c), vst1q_f32(p + 12, v.d);
}

VEC_INLINE uint16x4_t vec_to_f16_4(float32x4_t f) { return vreinterpret_u16_f16(vcvt_f16_f32(f)); }

VEC_INLINE void v16_store_f16(uint16_t *p, v16 v) {
    v = v16_canonical(v);
    vst1q_u16(p, vcombine_u16(vec_to_f16_4(v.a), vec_to_f16_4(v.b)));
    vst1q_u16(p + 8, vcombine_u16(vec_to_f16_4(v.c), vec_to_f16_4(v.d)));
}

VEC_INLINE void v16_store_bf16(uint16_t *p, v16 v) {
    n16 bits = n16_of(v16_canonical(v));
    n16 even = n16_and(n16_shr(bits, 16), n16_splat(1)), n = n16_add(bits, n16_add(even, n16_splat(0x7fff)));
    vst1q_u16(p, vcombine_u16(vshrn_n_u32(n.a, 16), vshrn_n_u32(n.b, 16)));
    vst1q_u16(p + 8, vcombine_u16(vshrn_n_u32(n.c, 16), vshrn_n_u32(n.d, 16)));
}

VEC_INLINE void v16_stream_f32(float *p, v16 v) { v16_store_f32(p, v); }
VEC_INLINE void v16_stream_f16(uint16_t *p, v16 v) { v16_store_f16(p, v); }
VEC_INLINE void v16_stream_bf16(uint16_t *p, v16 v) { v16_store_bf16(p, v); }

/* The sum of a row's 16 lanes is down to 4 before the rows are paired: uzp takes the even or odd words of two. */
VEC_INLINE float32x4_t vec_rowsum4(const v16 *r) {
    float64x2_t four[4];
    float32x4_t two[2];
    for (size_t k = 0; k < 4; k++)
        four[k] = vreinterpretq_f64_f32(vaddq_f32(vaddq_f32(r[k].a, r[k].c), vaddq_f32(r[k].b, r[k].d)));
    for (size_t k = 0; k < 2; k++)
        two[k] = vaddq_f32(vreinterpretq_f32_f64(vtrn1q_f64(four[2 * k], four[2 * k + 1])),
                           vreinterpretq_f32_f64(vtrn2q_f64(four[2 * k], four[2 * k + 1])));
    return vaddq_f32(vuzp1q_f32(two[0], two[1]), vuzp2q_f32(two[0], two[1]));
}

#include "kernels/cpu/vec_neon_f64.h"
#include "kernels/cpu/vec_plain.h"

#endif
