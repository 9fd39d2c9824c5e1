/* e^x, correctly rounded, in the dialect of the kernel text. e^x = 2^k e^r with k = x / ln 2 rounded to an integer,
 * which adding and taking away 1.5 * 2^23 (or 2^52) does; it also leaves k in the low bits of the sum. */

/* Beyond these bounds every x gives infinity or 0. A NaN becomes a number. */
FN float exp_clamped(float x) { return max32(min32(x, 89.0f), -104.5f); }

FN float exp_keep_nan(float x, float y) { return x == x ? y : float_of(0x7fc00000u); }

#if MLXN_F64

/* ln 2 is taken away in two parts, of which the first has so few bits that its product with k is exact. The polynomial
 * is minimax on |r| <= ln 2 / 2 with its two lowest coefficients held at 1. A degree less misrounds about 20 of the
 * 2^32 inputs, a reduction in one step two. Nothing branches. */
FN float exp_rounded(float x) {
    double d = (double)exp_clamped(x);
    double magic = fma64(d, 0x1.71547652b82fep0, 0x1.8p52);
    double k = magic - 0x1.8p52;
    double r = fma64(k, -0x1.62e42fefa38p-1, d);
    r = fma64(k, -0x1.ef35793c7673p-45, r);
    double p = 0x1.2707aeca64dd2p-22;
    p = fma64(p, r, 0x1.72e9256f65ec8p-19);
    p = fma64(p, r, 0x1.a01b7c5799fe7p-16);
    p = fma64(p, r, 0x1.a0198d4f33f22p-13);
    p = fma64(p, r, 0x1.6c16c0c8274fep-10);
    p = fma64(p, r, 0x1.11111125b655ep-7);
    p = fma64(p, r, 0x1.555555558910fp-5);
    p = fma64(p, r, 0x1.55555555507b9p-3);
    p = fma64(p, r, 0x1.ffffffffffed2p-2);
    p = fma64(p, r, 1.0);
    p = fma64(p, r, 1.0);
    /* k is added to the exponent, and rounding to f32 does what overflow and subnormal results need. */
    float y = (float)double_of(bits_of_double(p) + (bits_of_double(magic) << 52));
    return exp_keep_nan(x, y);
}

#else

/* A number as the sum of two, of which `high` is the sum rounded to f32, or close to it. */
typedef struct exp_pair {
    float high, low;
} exp_pair;

/* c + r p */
FN exp_pair exp_step(exp_pair p, exp_pair r, float c_high, float c_low) {
    float product = r.high * p.high;
    float rest = fma32(r.high, p.high, -product);
    rest = fma32(r.high, p.low, rest);
    rest = fma32(r.low, p.high, rest);
    exp_pair sum;
    sum.high = c_high + product;
    sum.low = ((product - (sum.high - c_high)) + rest) + c_low;
    return sum;
}

/* 1 + r p, with `high` the exact sum rounded to nearest even where the sum of the parts would round the rest first. */
FN exp_pair exp_last_step(exp_pair p, exp_pair r) {
    float product = r.high * p.high;
    float rest = fma32(r.high, p.high, -product);
    rest = fma32(r.high, p.low, rest);
    rest = fma32(r.low, p.high, rest);
    float sum = 1.0f + product, lost = product - (sum - 1.0f);
    float beyond = lost + rest;
    /* Half a unit in the sum's last place, towards what is missing from it. */
    float half_unit = float_of(bits_of(sum < 1.0f ? 0x1p-25f : 0x1p-24f) | (bits_of(beyond) & 0x80000000u));
    float past_half = (lost - half_unit) + rest;
    exp_pair y;
    y.high = sum + (past_half * beyond > 0.0f ? 2.0f * half_unit : 0.0f);
    y.low = (lost - (y.high - sum)) + rest;
    return y;
}

/* 2^k y, rounded. y.high, between 0.7 and 1.42, is y rounded. Subnormal numbers occur in the result alone. */
FN float exp_scaled(exp_pair y, i32 k) {
    u32 normal = bits_of(y.high) + ((u32)k << 23);
    normal = normal > 0x7f800000u ? 0x7f800000u : normal;
    /* A sum with 2^(23 - 149 - k) has the unit that y needs for 2^k y to be a multiple of 2^-149. */
    u32 unit = (u32)(127 + 23 - 149 - (k > -126 ? -126 : k)) << 23;
    float large = float_of(unit);
    float sum = large + y.high;
    sum = sum + ((y.high - (sum - large)) + y.low);
    bool subnormal = k < -126 || (k == -126 && y.high < 1.0f);
    return float_of(subnormal ? bits_of(sum) - unit : normal);
}

/* ln 2 is the sum of three f32, and 1/n! of two up to n = 6; above, one is enough, and the highest coefficient makes up
 * for those that are left out. Horner's scheme in pairs then is good to about 2^-46, and no input needs more.
 * Nothing branches. */
FN float exp_rounded(float x) {
    float clamped = exp_clamped(x);
    float magic = fma32(clamped, 0x1.715476p0f, 0x1.8p23f);
    float k = magic - 0x1.8p23f;
    float first = fma32(k, -0x1.62e43p-1f, clamped);
    exp_pair r, p;
    r.high = fma32(k, 0x1.05c61p-29f, first);
    r.low = fma32(k, 0x1.05c61p-29f, first - r.high);
    r.low = fma32(k, 0x1.950d88p-54f, r.low);
    p.high = 0x1.9b6078p-26f;
    p.high = fma32(p.high, r.high, 0x1.285a9ap-22f);
    p.high = fma32(p.high, r.high, 0x1.71e63ap-19f);
    p.high = fma32(p.high, r.high, 0x1.a019eap-16f);
    p.high = fma32(p.high, r.high, 0x1.a01ap-13f);
    p.low = 0.0f;
    p = exp_step(p, r, 0x1.6c16c2p-10f, -0x1.27d27ep-35f);
    p = exp_step(p, r, 0x1.111112p-7f, -0x1.ddddde0p-32f);
    p = exp_step(p, r, 0x1.555556p-5f, -0x1.555556p-30f);
    p = exp_step(p, r, 0x1.555556p-3f, -0x1.555556p-28f);
    p = exp_step(p, r, 0.5f, 0.0f);
    p = exp_step(p, r, 1.0f, 0.0f);
    p = exp_last_step(p, r);
    return exp_keep_nan(x, exp_scaled(p, (i32)(bits_of(magic) - 0x4b400000u)));
}

#endif

/* For f32 the quick way is all there is. */
FN float exp_quick(float x, bool *sure) {
    (void)sure;
    return exp_rounded(x);
}

/* The bits of 2^r for x from an f16 or bf16, and k in the low bits of `magic`. The last bit is set, so that no result is
 * halfway between two of the dtype's. 2^-24 is missing from the polynomial's end because of two f16, 0x1f79 and 0x25cf,
 * whose e^x is so little below a halfway point that it would be rounded to it. The coefficients are minimax ones, moved
 * by a search that tried all x of both dtypes; they belong to these very operations. */
FN u32 exp_narrow_reduced(float x, float *magic) {
    *magic = fma32(x, 0x1.715476p0f, 0x1.8p23f);
    float r = fma32(*magic - 0x1.8p23f, -0x1.62e43p-1f, x);
    float p = 0x1.14ad06p-7f;
    p = fma32(p, r, 0x1.57145cp-5f);
    p = fma32(p, r, 0x1.555674p-3f);
    p = fma32(p, r, 0x1.ffffbp-2f);
    p = fma32(p, r, 1.0f);
    p = fma32(p, r, 0x1.fffffep-1f);
    return bits_of(p) | 1u;
}

/* e^x for x from an f16 or bf16, such that rounding to the same dtype gives the correctly rounded result, where |x| <= 87
 * holds. */
FN float exp_narrow_quick(float x, bool *sure) {
    float magic;
    u32 y = exp_narrow_reduced(x, &magic);
    *sure = *sure && abs32(x) <= 87.0f;
    return float_of(y + (bits_of(magic) << 23));
}

/* The same for any x. A result below the normal ones keeps its last bit set. */
FN_RARE float exp_narrow(float x) {
    if (!(x == x))
        return float_of(0x7fc00000u);
    if (x > 89.0f)
        return float_of(0x7f800000u);
    if (x < -104.5f)
        return 0.0f;
    float magic;
    u32 y = exp_narrow_reduced(x, &magic);
    i32 k = (i32)(bits_of(magic) - 0x4b400000u), exponent = (i32)(y >> 23) + k;
    if (exponent >= 255)
        return float_of(0x7f800000u);
    if (exponent > 0)
        return float_of(y + ((u32)k << 23));
    return float_of((((y & 0x007fffffu) | 0x00800000u) >> (1 - exponent)) | 1u);
}
