/* e^x = 2^k 2^r with k = x log2(e) rounded to an integer, |r| <= 1/2 or a little more, and a minimax polynomial for 2^r.
 * In f64 for f32, where the error stays far enough below what decides the rounding of the hardest of all 2^32 inputs,
 * with and without fma; in f32 with the last sum's error for 16-bit results.
 *
 * Where fma is cheap a quick way comes first, in f32 throughout, with a table of 2^(j/16). For f32 it gives a sum
 * of two f32, and a margin. Where both ends of that round to the same f32, this is e^x rounded; in about one of 40
 * blocks of 16 they do not, and the way above decides. */
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

/* e^x, correctly rounded, for any x. */
VEC_INLINE v16 exp_careful(v16 x) {
    if (v16_all_within(x, EXP_NORMAL)) {
        v16 magic = exp_magic(x);
        return exp_scaled(v16_of_normal_d16(exp_reduced(x, magic)), magic);
    }
    v16 clamped = exp_clamped(x), magic = exp_magic(clamped);
    n16 k = n16_sub(n16_of(magic), n16_splat(VEC_MAGIC_BITS));
    return exp_keep_nan(x, v16_of_d16(d16_scale(exp_reduced(clamped, magic), k)));
}

/* The same for 16-bit results. */
VEC_INLINE v16 exp_careful_narrow(v16 x) {
    if (v16_all_within(x, EXP_NORMAL)) {
        v16 magic = exp_magic(x);
        return exp_scaled(exp_reduced_narrow(x, magic), magic);
    }
    v16 clamped = exp_clamped(x), magic = exp_magic(clamped);
    n16 k = n16_sub(n16_of(magic), n16_splat(VEC_MAGIC_BITS));
    return exp_keep_nan(x, v16_of_d16(d16_scale(d16_of_v16(exp_reduced_narrow(clamped, magic)), k)));
}

/* Out of line, to leave the registers to the quick ways. */
static __attribute__((noinline, unused)) void exp_careful_line(float *line) {
    v16_store_f32(line, exp_careful(v16_load_f32(line)));
}

static __attribute__((noinline, unused)) void exp_careful_line_narrow(float *line) {
    v16_store_f32(line, exp_careful_narrow(v16_load_f32(line)));
}

/* What the quick way doubts on either side of its sum, relative to it. The error itself reaches 2^-33.2, a little more,
 * but not where e^x is near a halfway point: there this is just enough, as trying all x showed (0x1.2p-34 is wrong for
 * one). So it belongs to these very constants and operations: whoever changes one tries all x again. */
#define EXP_ERROR 0x1.3p-34f

/* 2^(j/16) rounded to f32, with j << 19 taken from its bits: adding 16 k + j, shifted alike, makes it 2^(k + j/16). */
static const float exp_powers[16] = {0x1p+0f,        0x1.fb5586p-1f, 0x1.f72b84p-1f, 0x1.f387a6p-1f,
                                     0x1.f06fep-1f,  0x1.edea64p-1f, 0x1.ebfdaep-1f, 0x1.eab07ep-1f,
                                     0x1.ea09e6p-1f, 0x1.ea1148p-1f, 0x1.eace54p-1f, 0x1.ec4918p-1f,
                                     0x1.ee89fap-1f, 0x1.f199bep-1f, 0x1.f5818ep-1f, 0x1.fa4afap-1f};

/* The logarithm of what that rounding lost, plus EXP_ERROR. */
static const float exp_powers_rest[16] = {0x1.3p-34f,       0x1.8e2ed4p-25f,  -0x1.99ac22p-27f, 0x1.96e102p-25f,
                                          0x1.12e802p-25f,  0x1.37a3e4p-25f,  -0x1.099d52p-25f, -0x1.fcf158p-28f,
                                          0x1.27355cp-26f,  -0x1.053344p-25f, 0x1.6c61cap-28f,  0x1.a875e4p-28f,
                                          -0x1.f76306p-27f, -0x1.64a1b4p-28f, -0x1.a0617cp-28f, 0x1.66028ep-28f};

/* Where the quick way holds: beyond, e^x is so small that terms of it are subnormal. */
#define EXP_QUICK 75.0f

/* The quick way's sum less and plus EXP_ERROR, rounded. x = (16 k + j) ln 2 / 16 + r, r exact in f32;
 * t = 2^(k + j/16); e^x = (t + t r) + t (r^2 q(r)) + e^x rest, in the order of their size. */
VEC_INLINE void exp_enclose(v16 x, v16 *below, v16 *above) {
    const v16 magic = v16_fma(x, v16_splat(0x1.715476p4f), v16_splat(VEC_MAGIC));
    const v16 steps = v16_sub(magic, v16_splat(VEC_MAGIC));
    const v16 r = v16_fma(steps, v16_splat(-0x1.62e43p-5f), x);
    const n16 power = n16_of(v16_lookup(exp_powers, n16_of(magic)));
    const v16 t = v16_of(n16_add(power, n16_shl(n16_of(magic), 19)));
    const v16 rest = v16_fma(steps, v16_splat(0x1.05c61p-33f), v16_lookup(exp_powers_rest, n16_of(magic)));
    v16 q = v16_fma(r, v16_splat(0x1.555742p-5f), v16_splat(0x1.555722p-3f));
    q = v16_fma(r, q, v16_splat(0.5f));
    const v16 high = v16_fma(t, r, t);
    const v16 lost = v16_fma(t, r, v16_sub(t, high)); /* of t + t r in high's rounding */
    const v16 square = v16_mul(v16_mul(r, r), q);
    const v16 low = v16_fma(t, square, v16_fma(high, rest, lost));
    *above = v16_add(high, low);
    *below = v16_add(high, v16_fma(high, v16_splat(-2.0f * EXP_ERROR), low));
}

/* e^r in f32 for 16-bit results, where one step of the reduction is enough. The last bit is set, so that no result is
 * halfway between two of the dtype's. 2^-24 is missing from the sum because of two f16, 0x1f79 and 0x25cf, whose e^x
 * is so little below a halfway point that it would be rounded to it. The coefficients are the outcome of a search that
 * tried all x of both dtypes. */
VEC_INLINE v16 exp_reduced_sticky(v16 x, v16 magic) {
    const v16 r = v16_fma(v16_sub(magic, v16_splat(VEC_MAGIC)), v16_splat(-0x1.62e43p-1f), x);
    v16 p = v16_splat(0x1.14ad06p-7f);
    p = v16_fma(p, r, v16_splat(0x1.57145cp-5f));
    p = v16_fma(p, r, v16_splat(0x1.555674p-3f));
    p = v16_fma(p, r, v16_splat(0x1.ffffbp-2f));
    p = v16_fma(p, r, v16_splat(1.0f));
    p = v16_fma(p, r, v16_splat(0x1.fffffep-1f));
    return v16_of(n16_or(n16_of(p), n16_splat(1)));
}

/* e^x, correctly rounded. */
VEC_INLINE v16 exp_v16(v16 x) {
    if (!VEC_FUSES)
        return exp_careful(x);
    v16 below, above;
    exp_enclose(x, &below, &above);
    const bool proven = v16_all_equal(below, above), near = v16_all_within(x, EXP_QUICK);
    if ((int)proven & (int)near) /* one branch instead of two */
        return above;
    float line[16];
    v16_store_f32(line, x);
    exp_careful_line(line);
    return v16_load_f32(line);
}

/* e^x for x from an f16 or bf16, such that rounding to the same dtype gives the correctly rounded result. */
VEC_INLINE v16 exp_v16_narrow(v16 x) {
    if (!VEC_FUSES)
        return exp_careful_narrow(x);
    if (v16_all_within(x, EXP_NORMAL)) {
        const v16 magic = exp_magic(x);
        return exp_scaled(exp_reduced_sticky(x, magic), magic);
    }
    float line[16];
    v16_store_f32(line, x);
    exp_careful_line_narrow(line);
    return v16_load_f32(line);
}

#endif
