/* e^x. x = k ln 2 + r with |r| <= ln 2 / 2 or a little more, e^x = 2^k e^r, e^r from a minimax polynomial in f64.
 * Its error is far below what decides the rounding of the hardest of all 2^32 inputs, with and without fma. */
#ifndef MLXN_KERNELS_ELEMENTARY_EXP_H
#define MLXN_KERNELS_ELEMENTARY_EXP_H

#include "kernels/cpu/vec.h"

/* Adding this to |f| < 2^22 rounds f to an integer, which then stands in the low bits. */
#define EXP_MAGIC 0x1.8p23f

/* x log2(e) rounded to an integer, plus EXP_MAGIC. Where x log2(e) is near a half, either neighbour will do. */
VEC_INLINE v16 exp_magic(v16 x) { return v16_mul_add(x, v16_splat(0x1.715476p0f), v16_splat(EXP_MAGIC)); }

/* e^r for f32. The high part of ln 2 ends in zeros, so that k times it is exact. */
VEC_INLINE d16 exp_reduced(v16 x, v16 magic) {
    d16 k = d16_of_v16(v16_sub(magic, v16_splat(EXP_MAGIC)));
    d16 r = d16_mul_add(k, d16_splat(-0x1.62e42fefa38p-1), d16_of_v16(x));
    r = d16_mul_add(k, d16_splat(-0x1.ef35793c7673p-45), r);
    d16 p = d16_splat(0x1.2707aeca64dd2p-22);
    p = d16_mul_add(p, r, d16_splat(0x1.72e9256f65ec8p-19));
    p = d16_mul_add(p, r, d16_splat(0x1.a01b7c5799fe7p-16));
    p = d16_mul_add(p, r, d16_splat(0x1.a0198d4f33f22p-13));
    p = d16_mul_add(p, r, d16_splat(0x1.6c16c0c8274fep-10));
    p = d16_mul_add(p, r, d16_splat(0x1.11111125b655ep-7));
    p = d16_mul_add(p, r, d16_splat(0x1.555555558910fp-5));
    p = d16_mul_add(p, r, d16_splat(0x1.55555555507b9p-3));
    p = d16_mul_add(p, r, d16_splat(0x1.ffffffffffed2p-2));
    p = d16_mul_add(p, r, d16_splat(1.0));
    return d16_mul_add(p, r, d16_splat(1.0));
}

/* e^r for 16-bit results, where a shorter polynomial and one-step reduction are enough. */
VEC_INLINE d16 exp_reduced_narrow(v16 x, v16 magic) {
    d16 k = d16_of_v16(v16_sub(magic, v16_splat(EXP_MAGIC)));
    d16 r = d16_mul_add(k, d16_splat(-0x1.62e42fefa39efp-1), d16_of_v16(x));
    d16 p = d16_splat(0x1.a17e08a7c25c5p-13);
    p = d16_mul_add(p, r, d16_splat(0x1.6da76bef92e57p-10));
    p = d16_mul_add(p, r, d16_splat(0x1.1110ab6f14b2ep-7));
    p = d16_mul_add(p, r, d16_splat(0x1.5554708f34bbfp-5));
    p = d16_mul_add(p, r, d16_splat(0x1.555555742f565p-3));
    p = d16_mul_add(p, r, d16_splat(0x1.0000004572d74p-1));
    p = d16_mul_add(p, r, d16_splat(1.0));
    return d16_mul_add(p, r, d16_splat(1.0));
}

/* Whether e^x is normal in f32 for every lane, NaN not. */
VEC_INLINE bool exp_all_normal(v16 x) { return v16_all(v16_less(v16_abs(x), v16_splat(87.0f))); }

/* x within the range where f64 holds e^x as a normal number; beyond it f32 has 0 or infinity anyway. */
VEC_INLINE v16 exp_clamped(v16 x) {
    x = v16_blend(v16_less(v16_splat(89.0f), x), x, v16_splat(89.0f));
    return v16_blend(v16_less(x, v16_splat(-104.5f)), x, v16_splat(-104.5f));
}

VEC_INLINE d16 exp_scaled(d16 reduced, v16 magic) {
    return d16_scale(reduced, n16_sub(n16_of(magic), n16_of(v16_splat(EXP_MAGIC))));
}

VEC_INLINE v16 exp_keep_nan(v16 x, v16 y) { return v16_blend(v16_equal(x, x), v16_of(n16_splat(0x7fc00000u)), y); }

/* y is normal before and after: 2^k is added to its exponent. The bits of EXP_MAGIC vanish in the shift. */
VEC_INLINE v16 exp_scaled_normal(v16 y, v16 magic) { return v16_of(n16_add(n16_of(y), n16_shl(n16_of(magic), 23))); }

/* e^x, correctly rounded. */
VEC_INLINE v16 exp_v16(v16 x) {
    if (exp_all_normal(x)) {
        v16 magic = exp_magic(x);
        return exp_scaled_normal(v16_of_d16(exp_reduced(x, magic)), magic);
    }
    v16 clamped = exp_clamped(x), magic = exp_magic(clamped);
    return exp_keep_nan(x, v16_of_d16(exp_scaled(exp_reduced(clamped, magic), magic)));
}

/* e^x for x from an f16 or bf16, such that rounding to the same dtype gives the correctly rounded result. */
VEC_INLINE v16 exp_v16_narrow(v16 x) {
    if (exp_all_normal(x)) {
        v16 magic = exp_magic(x);
        return exp_scaled_normal(v16_sticky_of_d16(exp_reduced_narrow(x, magic)), magic);
    }
    v16 clamped = exp_clamped(x), magic = exp_magic(clamped);
    return exp_keep_nan(x, v16_sticky_of_d16(exp_scaled(exp_reduced_narrow(clamped, magic), magic)));
}

#endif
