/* The f64 lanes of vec.h on AArch64; part of vec_neon.h. */
#ifndef MLXN_KERNELS_CPU_VEC_NEON_F64_H
#define MLXN_KERNELS_CPU_VEC_NEON_F64_H

VEC_INLINE d16 d16_splat(double f) {
    float64x2_t s = vdupq_n_f64(f);
    return (d16){{s, s, s, s}, {s, s, s, s}};
}

VEC_INLINE float64x2_t vec_lower2(float32x4_t v) { return vcvt_f64_f32(vget_low_f32(v)); }
VEC_INLINE int64x2_t vec_lower2i(uint32x4_t n) { return vmovl_s32(vget_low_s32(vreinterpretq_s32_u32(n))); }
VEC_INLINE int64x2_t vec_upper2i(uint32x4_t n) { return vmovl_high_s32(vreinterpretq_s32_u32(n)); }
VEC_INLINE float64x2_t vec_lower2n(uint32x4_t n) { return vcvtq_f64_s64(vec_lower2i(n)); }
VEC_INLINE float64x2_t vec_upper2n(uint32x4_t n) { return vcvtq_f64_s64(vec_upper2i(n)); }
VEC_INLINE d16 d16_of_v16(v16 v) { return (d16){E1(d8, vec_lower2, v), E1(d8, vcvt_high_f64_f32, v)}; }
VEC_INLINE d16 d16_of_n16(n16 n) { return (d16){E1(d8, vec_lower2n, n), E1(d8, vec_upper2n, n)}; }
VEC_INLINE d16 d16_add(d16 a, d16 b) { return D2(vaddq_f64, a, b); }
VEC_INLINE d16 d16_mul(d16 a, d16 b) { return D2(vmulq_f64, a, b); }
VEC_INLINE d16 d16_div(d16 a, d16 b) { return D2(vdivq_f64, a, b); }
VEC_INLINE d16 d16_mul_add(d16 x, d16 y, d16 z) {
    return (d16){E3(d8, vfmaq_f64, z.lo, x.lo, y.lo), E3(d8, vfmaq_f64, z.hi, x.hi, y.hi)};
}

/* x * y - z: vfms would give z - x * y. */
VEC_INLINE float64x2_t vec_mul_sub2(float64x2_t x, float64x2_t y, float64x2_t z) {
    return vfmaq_f64(vnegq_f64(z), x, y);
}
VEC_INLINE d16 d16_mul_sub(d16 x, d16 y, d16 z) {
    return (d16){E3(d8, vec_mul_sub2, x.lo, y.lo, z.lo), E3(d8, vec_mul_sub2, x.hi, y.hi, z.hi)};
}

VEC_INLINE float64x2_t vec_scale2(float64x2_t a, int64x2_t n) {
    return vreinterpretq_f64_s64(vaddq_s64(vreinterpretq_s64_f64(a), vshlq_n_s64(n, 52)));
}

VEC_INLINE float64x2_t vec_scale_lower(float64x2_t a, uint32x4_t n) { return vec_scale2(a, vec_lower2i(n)); }
VEC_INLINE float64x2_t vec_scale_upper(float64x2_t a, uint32x4_t n) { return vec_scale2(a, vec_upper2i(n)); }
VEC_INLINE d16 d16_scale(d16 a, n16 n) {
    return (d16){E2(d8, vec_scale_lower, a.lo, n), E2(d8, vec_scale_upper, a.hi, n)};
}
VEC_INLINE float32x4_t vec_narrow4(float64x2_t lo, float64x2_t hi) { return vcvt_high_f32_f64(vcvt_f32_f64(lo), hi); }

VEC_INLINE float64x2_t vec_sticky2(float64x2_t d) {
    uint64x2_t kept = vandq_u64(vreinterpretq_u64_f64(d), vdupq_n_u64(UINT64_MAX << 29));
    return vreinterpretq_f64_u64(vorrq_u64(kept, vdupq_n_u64(UINT64_C(1) << 29)));
}

/* Lanes of p by their bytes: word w is bytes 4 w to 4 w + 3. */
VEC_INLINE float32x4_t vec_lookup4(uint8x16x4_t p, uint32x4_t at) {
    at = vandq_u32(at, vdupq_n_u32(15));
    uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100u), at, vdupq_n_u32(0x04040404u));
    return vreinterpretq_f32_u8(vqtbl4q_u8(p, vreinterpretq_u8_u32(bytes)));
}

VEC_INLINE v16 v16_lookup(const float *p, n16 at) {
    uint8x16x4_t table = vld1q_u8_x4((const uint8_t *)(const void *)p);
    return (v16){vec_lookup4(table, at.a), vec_lookup4(table, at.b), vec_lookup4(table, at.c),
                 vec_lookup4(table, at.d)};
}

#endif
