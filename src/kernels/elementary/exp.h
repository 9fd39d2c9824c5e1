/* e^x = 2^k 2^r with k = x log2(e) rounded to an integer, |r| <= 1/2 or a little more, and a minimax polynomial for 2^r.
 * In f64 for f32, where the error stays far enough below what decides the rounding of the hardest of all 2^32 inputs,
 * with and without fma; in f32 with the last sum's error for 16-bit results. */
#ifndef MLXN_KERNELS_ELEMENTARY_EXP_H
#define MLXN_KERNELS_ELEMENTARY_EXP_H

#include "kernels/cpu/vec.h"

/* VEC_MAGIC + k. Where x log2(e) is near a half, either neighbour will do. */
VEC_INLINE v16 exp_magic(v16 x) { return v16_mul_add(x, v16_splat(0x1.715476p0f), v16_splat(VEC_MAGIC)); }

/* 2^r. Without fma the product with log2(e) is made of two, the first of which is exact. */
VEC_INLINE d16 exp_reduced(v16 narrow, v16 magic) {
    d16 x = d16_of_v16(narrow), k = d16_of_magic(magic), r;
    if (VEC_FUSES)
        r = d16_mul_sub(x, d16_splat(0x1.71547652b82fep0), k);
    else
        r = d16_mul_add(x, d16_splat(-0x1.a8fa03d1105e0p-29), d16_mul_sub(x, d16_splat(0x1.7154766p0), k));
    d16 p = d16_splat(0x1.e36f6560c054cp-28);
    p = d16_mul_add(p, r, d16_splat(0x1.b660ac7fdd32dp-24));
    p = d16_mul_add(p, r, d16_splat(0x1.62c15f6103c16p-20));
    p = d16_mul_add(p, r, d16_splat(0x1.ffcb6d4fd0d0cp-17));
    p = d16_mul_add(p, r, d16_splat(0x1.4309126909f4ap-13));
    p = d16_mul_add(p, r, d16_splat(0x1.5d87fe9311594p-10));
    p = d16_mul_add(p, r, d16_splat(0x1.3b2ab6fbd41bfp-7));
    p = d16_mul_add(p, r, d16_splat(0x1.c6b08d704396ap-5));
    p = d16_mul_add(p, r, d16_splat(0x1.ebfbdff82c46fp-3));
    p = d16_mul_add(p, r, d16_splat(0x1.62e42fefa39efp-1));
    return d16_mul_add(p, r, d16_splat(1.0));
}

/* e^r with r = x - k ln 2 for 16-bit x: rounded down or up to f32 such that the last bit is set. */
VEC_INLINE v16 exp_reduced_narrow(v16 x, v16 magic) {
    v16 k = v16_sub(magic, v16_splat(VEC_MAGIC));
    v16 high = v16_mul_add(k, v16_splat(-0x1.62e4p-1f), x), low = v16_mul(k, v16_splat(-0x1.7f7d1cp-20f));
    v16 r = v16_add(high, low), rest = v16_add(v16_sub(high, r), low);
    v16 p = v16_splat(0x1.6a2c68p-10f);
    p = v16_mul_add(p, r, v16_splat(0x1.1239c8p-7f));
    p = v16_mul_add(p, r, v16_splat(0x1.5558e8p-5f));
    p = v16_mul_add(p, r, v16_splat(0x1.555492p-3f));
    p = v16_mul_add(p, r, v16_splat(0x1.fffffcp-2f));
    v16 tail = v16_mul_add(v16_mul(r, r), p, rest);
    v16 sum = v16_add(v16_splat(1.0f), r);
    tail = v16_add(tail, v16_sub(r, v16_sub(sum, v16_splat(1.0f))));
    v16 y = v16_add(sum, tail), error = v16_add(v16_sub(sum, y), tail);
    return v16_of(n16_or(n16_add(n16_of(y), n16_sar(n16_of(error), 31)), n16_splat(1)));
}

/* x within the range where f64 holds e^x as a normal number; beyond it f32 has 0 or infinity anyway. */
VEC_INLINE v16 exp_clamped(v16 x) {
    x = v16_blend(v16_less(v16_splat(89.0f), x), x, v16_splat(89.0f));
    return v16_blend(v16_less(x, v16_splat(-104.5f)), x, v16_splat(-104.5f));
}

VEC_INLINE v16 exp_keep_nan(v16 x, v16 y) { return v16_blend(v16_equal(x, x), v16_of(n16_splat(0x7fc00000u)), y); }

/* y is normal before and after: k is added to its exponent. The other bits of the magic number vanish in the shift. */
VEC_INLINE v16 exp_scaled(v16 y, v16 magic) { return v16_of(n16_add(n16_of(y), n16_shl(n16_of(magic), 23))); }

/* |x| below this has a normal result. */
#define EXP_NORMAL 87.0f

/* e^x, correctly rounded. */
VEC_INLINE v16 exp_v16(v16 x) {
    if (v16_all_within(x, EXP_NORMAL)) {
        v16 magic = exp_magic(x);
        return exp_scaled(v16_of_normal_d16(exp_reduced(x, magic)), magic);
    }
    v16 clamped = exp_clamped(x), magic = exp_magic(clamped);
    n16 k = n16_sub(n16_of(magic), n16_splat(VEC_MAGIC_BITS));
    return exp_keep_nan(x, v16_of_d16(d16_scale(exp_reduced(clamped, magic), k)));
}

/* e^x for x from an f16 or bf16, such that rounding to the same dtype gives the correctly rounded result. */
VEC_INLINE v16 exp_v16_narrow(v16 x) {
    if (v16_all_within(x, EXP_NORMAL)) {
        v16 magic = exp_magic(x);
        return exp_scaled(exp_reduced_narrow(x, magic), magic);
    }
    v16 clamped = exp_clamped(x), magic = exp_magic(clamped);
    n16 k = n16_sub(n16_of(magic), n16_splat(VEC_MAGIC_BITS));
    return exp_keep_nan(x, v16_of_d16(d16_scale(d16_of_v16(exp_reduced_narrow(clamped, magic)), k)));
}

#endif
