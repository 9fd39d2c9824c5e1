/* ln x, correctly rounded, in the dialect of the kernel text. x = 2^k m with m from sqrt(1/2) up to sqrt(2), and
 * f = m - 1, which is exact. With s = f / (2 + f), ln m = 2 atanh(s) = s (2 + 2/3 z + 2/5 z^2 + ...), z = s^2.
 * The quotient starts as f times a polynomial for the reciprocal and is refined once, without any division. A quick way
 * gives the result and knows its own error; where that leaves the rounding open, integers decide. */

#define LOG_SQRT_HALF_BITS 0x3f3504f3u

/* Whether x is positive, normal and finite. */
FN bool log_is_usual(u32 bits) { return bits - 0x00800000u < 0x7f000000u; }

FN i32 log_exponent(u32 bits) { return (i32)(bits - LOG_SQRT_HALF_BITS) >> 23; }

/* The bits that positive finite x would have if the exponent's field went below 1 instead of x being subnormal. */
FN u32 log_spread(u32 bits) {
    i32 shift = bits < 0x00800000u ? clz64(bits) - 40 : 0;
    return (bits << shift) - ((u32)shift << 23);
}

/* Whether x is 0, infinite, negative or a NaN, and then ln x. */
FN bool log_is_special(u32 bits) { return bits - 1u >= 0x7f7fffffu; }

FN float log_special(u32 bits) {
    if ((bits << 1) == 0)
        return float_of(0xff800000u);
    return float_of(bits == 0x7f800000u ? bits : 0x7fc00000u);
}

/* 1/(2 + f) to about 2^-23, minimax. */
FN float log_reciprocal(float f) {
    float p = 0x1.b5950ap-8f;
    p = fma32(p, f, -0x1.093e26p-6f);
    p = fma32(p, f, 0x1.018108p-5f);
    p = fma32(p, f, -0x1.ffce66p-5f);
    p = fma32(p, f, 0x1.fff916p-4f);
    p = fma32(p, f, -0x1.000012p-2f);
    return fma32(p, f, 0x1.000002p-1f);
}

/* 2^64 / (2 i + 3): the series of atanh(s) / s, less its first term, in units of 2^-64. The first of those left out is
 * below 2^-70. */
TABLE u64 log_series[12] = {0x5555555555555555, 0x3333333333333333, 0x2492492492492492, 0x1c71c71c71c71c72,
                            0x1745d1745d1745d1, 0x13b13b13b13b13b1, 0x1111111111111111, 0x0f0f0f0f0f0f0f0f,
                            0x0d79435e50d79436, 0x0c30c30c30c30c31, 0x0b21642c8590b216, 0x0a3d70a3d70a3d71};

/* ln x of positive finite x, in integers throughout, good to about 2^-60 of it, where the hardest x asks for 2^-57.8.
 * Slow: for the few that need it. */
FN float log_exact(u32 bits) {
    if (bits == 0x3f800000u)
        return 0.0f;
    u32 spread = log_spread(bits);
    i32 k = log_exponent(spread);
    u32 m_bits = spread - ((u32)k << 23);

    /* m, |f| and 2 + f in units of 2^-24. */
    u32 m = ((m_bits & 0x007fffffu) | 0x00800000u) << (m_bits >= 0x3f800000u ? 1 : 0);
    bool below = m < 0x01000000u;
    u64 f = below ? 0x01000000u - m : m - 0x01000000u;
    u64 divisor = m + 0x01000000u;

    /* |ln m| = part 2^(-62 - scale). */
    u64 part = 0;
    i32 scale = 2;
    if (f != 0) {
        scale = clz64(f) - 39; /* makes f a number of 25 bits; at least 2 */
        u64 dividend = f << (scale + 38);
        u64 high = dividend / divisor;
        u64 s = (high << 25) + ((dividend - high * divisor) << 25) / divisor; /* |s| 2^(63 + scale) */
        u64 unscaled = s >> (scale - 1);
        u64 z = mul_high(unscaled, unscaled);
        u64 sum = log_series[11];
        for (i32 i = 10; i >= 0; i--)
            sum = log_series[i] + mul_high(sum, z);
        part = s + mul_high(s, mul_high(sum, z));
    }

    /* |ln x| = value 2^(exponent - 63) */
    u64 value = part;
    i32 exponent = 1 - scale;
    bool negative = below;
    if (k != 0) {
        /* |k| ln 2 + or - |ln m| in units of 2^-64, in 128 bits. ln m is the smaller one. */
        u64 count = (u64)(k < 0 ? -k : k);
        u64 high = mul_high(count, 0xb17217f7d1cf79ac);
        u64 low = count * 0xb17217f7d1cf79ac;
        negative = k < 0;
        part = part >> (scale - 2);
        if (negative == below) {
            low += part;
            high += low < part ? 1 : 0;
        } else {
            high -= low < part ? 1 : 0;
            low -= part;
        }
        i32 zeros = high != 0 ? clz64(high) : 0; /* high is below 128: at least 57 */
        value = high != 0 ? (high << zeros) | (low >> (64 - zeros)) : low;
        exponent = high != 0 ? 63 - zeros : -1;
    }
    i32 zeros = clz64(value);
    value <<= zeros;
    exponent -= zeros;
    /* To 24 bits, of which the highest adds 1 to the exponent. No logarithm but 0 is halfway between two f32. */
    u32 rounded = (u32)(((value >> 39) + 1) >> 1);
    return float_of((rounded + ((u32)(exponent + 126) << 23)) | (negative ? 0x80000000u : 0u));
}

/* ln x of anything. */
FN float log_rare(u32 bits) { return log_is_special(bits) ? log_special(bits) : log_exact(bits); }

#if MLXN_F64

/* An f32's bits, normal ones, as f64, without the slow conversion. */
FN double log_widened(u32 bits) { return double_of(((u64)bits << 29) + 0x3800000000000000); }

/* The polynomial is minimax, good to 2^-44.9; with the quotient's 2^-45 the result is to 2^-43. */
FN float log_quick(float x, bool *sure) {
    u32 bits = bits_of(x);
    i32 k = log_exponent(bits);
    u32 m_bits = bits - ((u32)k << 23);
    double m = log_widened(m_bits), f = m - 1.0;
    double reciprocal = log_widened(bits_of(log_reciprocal(float_of(m_bits) - 1.0f)));
    double s = f * reciprocal;
    s = fma64(fma64(-s, m + 1.0, f), reciprocal, s);
    double z = s * s;
    double p = 0x1.9114d92cb8f7cp-3;
    p = fma64(p, z, 0x1.c62b204e5153bp-3);
    p = fma64(p, z, 0x1.249411cd9a403p-2);
    p = fma64(p, z, 0x1.999996a99101ep-2);
    p = fma64(p, z, 0x1.555555561e2bap-1);
    p = fma64(p, z, 2.0);
    /* k as f64: in the low bits of 2^52 + 2^31 + k. */
    double count = double_of(0x4330000000000000 | (u64)((u32)k + 0x80000000u)) - 0x1.000008p52;
    double y = fma64(count, 0x1.62e42fefa39efp-1, s * p);
    /* The 29 bits that f32 lacks, less half of their range, must be further from 0 than 2^-43 of y, 2^10 at most. */
    u32 from_half = ((u32)bits_of_double(y) & 0x1fffffffu) - 0x10000000u;
    *sure = *sure && log_is_usual(bits) && from_half + 1024u > 2048u;
    return (float)y;
}

#else

/* Pairs of f32: what a rounding loses is found with fma, or a sum taken back, and kept in a second number. */
FN float log_quick(float x, bool *sure) {
    u32 bits = bits_of(x);
    i32 exponent = log_exponent(bits);
    float k = (float)exponent;
    float f = float_of(bits - ((u32)exponent << 23)) - 1.0f;

    float divisor = 2.0f + f, divisor_low = f - (divisor - 2.0f);
    float reciprocal = log_reciprocal(f);
    float s = f * reciprocal;
    float s_low = fma32(-s, divisor_low, fma32(-s, divisor, f)) * reciprocal;

    float z = s * s;
    float z_low = fma32(2.0f * s, s_low, fma32(s, s, -z));

    float square = z + z_low; /* s alone is not s rounded */

    /* w = 2/3 z + 2/5 z^2 + ..., the rest of the series minimax. */
    float p = 0x1.8eb378p-3f;
    p = fma32(p, square, 0x1.c6596p-3f);
    p = fma32(p, square, 0x1.249374p-2f);
    p = fma32(p, square, 0x1.999998p-2f);
    float w = z * 0x1.555556p-1f;
    float w_low = fma32(z, 0x1.555556p-1f, -w);
    w_low = fma32(z, -0x1.555556p-26f, w_low);
    w_low = fma32(z_low, 0x1.555556p-1f, w_low);
    w_low = fma32(square * square, p, w_low);

    /* ln m = 2 s + s w */
    float sw = s * w;
    float sw_low = fma32(s, w_low, fma32(s, w, -sw));
    sw_low = fma32(s_low, 2.0f + (w + w_low), sw_low);
    float part = fma32(2.0f, s, sw);
    float part_low = (sw - (part - 2.0f * s)) + sw_low;

    /* k ln 2, of which the first part is exact, is larger than ln m, or 0. */
    float multiple = k * 0x1.62e4p-1f;
    float high = multiple + part;
    float low = (part - (high - multiple)) + fma32(k, 0x1.7f7d1cp-20f, part_low);
    float y = high + low, rest = low - (y - high);

    /* The error grows with the term z^2, which no pair holds; measured, it stays within three quarters of this. */
    float error = fma32(square * square, 0x1p-23f, 0x1p-41f) * part;
    error = (error < 0.0f ? -error : error) + (y < 0.0f ? -y : y) * 0x1p-41f;
    *sure = *sure && log_is_usual(bits) && y + (rest + error) == y + (rest - error);
    return y;
}

#endif

/* ln x for any x. */
FN_RARE float log_rounded(float x) {
    bool sure = true;
    float y = log_quick(x, &sure);
    return sure ? y : log_rare(bits_of(x));
}

/* ln x for x from an f16 or bf16, of which the bits are given, positive and normal, such that rounding to the same dtype
 * gives the correctly rounded result. The last bit is set, so that no result is halfway between two of the dtype's.
 * ln m = f + f^2 p(f); the coefficients are minimax ones, and with ln 2 they were moved by a search that tried all x of
 * both dtypes: they belong to these very operations. */
FN float log_narrow_usual(u32 bits) {
    i32 k = log_exponent(bits);
    float f = float_of(bits - ((u32)k << 23)) - 1.0f;
    float p = -0x1.73ab84p-4f;
    p = fma32(p, f, 0x1.45976p-3f);
    p = fma32(p, f, -0x1.64c59p-3f);
    p = fma32(p, f, 0x1.9869e4p-3f);
    p = fma32(p, f, -0x1.ff3fc2p-3f);
    p = fma32(p, f, 0x1.5557dep-2f);
    p = fma32(p, f, -0x1.000086p-1f);
    float y = fma32((float)k, 0x1.62e42ep-1f, fma32(f * f, p, f));
    return float_of(bits_of(y) | 1u);
}

FN float log_narrow_quick(float x, bool *sure) {
    *sure = *sure && log_is_usual(bits_of(x));
    return log_narrow_usual(bits_of(x));
}

/* The same for any x. */
FN_RARE float log_narrow(float x) {
    u32 bits = bits_of(x);
    return log_is_special(bits) ? log_special(bits) : log_narrow_usual(log_is_usual(bits) ? bits : log_spread(bits));
}
