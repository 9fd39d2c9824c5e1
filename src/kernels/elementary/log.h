/* ln x. x = 2^k m with m in [sqrt(1/2), sqrt(2)) and f = m - 1, which is exact; with s = f / (2 + f),
 * ln m = 2 atanh(s) = 2 s + s z P(z), z = s^2. All in f64, with a relative error below LOG_ERROR; the few results for
 * which that leaves the rounding open are computed again in double-double. */
#ifndef MLXN_KERNELS_ELEMENTARY_LOG_H
#define MLXN_KERNELS_ELEMENTARY_LOG_H

#include "kernels/cpu/vec.h"
#include "kernels/elementary/double_double.h"

/* The polynomial is good to 2^-44.9; operations add about 2^-51. */
#define LOG_ERROR 0x1p-44
#define LOG_SQRT_HALF_BITS 0x3f3504f3u
#define LOG_MANTISSA_BITS 23

typedef struct log_split {
    d16 k, f;
} log_split;

/* Splits positive normal x; k is lowered by `lower`. */
VEC_INLINE log_split log_split_v16(v16 x, n16 lower) {
    n16 bits = n16_of(x);
    n16 k = n16_sar(n16_sub(bits, n16_splat(LOG_SQRT_HALF_BITS)), LOG_MANTISSA_BITS);
    v16 m = v16_of(n16_sub(bits, n16_shl(k, LOG_MANTISSA_BITS)));
    return (log_split){d16_of_n16(n16_sub(k, lower)), d16_of_v16(v16_sub(m, v16_splat(1.0f)))};
}

/* s, 2 + f and so on of the formula above, joined: k ln 2 + (2 s + s z p). */
VEC_INLINE d16 log_join(log_split x, d16 s, d16 z, d16 p) {
    d16 m = d16_mul_add(d16_mul(s, z), p, d16_add(s, s));
    return d16_mul_add(x.k, d16_splat(0x1.62e42fefa39efp-1), m);
}

VEC_INLINE d16 log_quotient(log_split x) { return d16_div(x.f, d16_add(x.f, d16_splat(2.0))); }

VEC_INLINE d16 log_quick(log_split x) {
    d16 s = log_quotient(x), z = d16_mul(s, s);
    d16 p = d16_splat(0x1.911283e1170eep-3);
    p = d16_mul_add(p, z, d16_splat(0x1.c62b4c8d78251p-3));
    p = d16_mul_add(p, z, d16_splat(0x1.2494113d1c41ep-2));
    p = d16_mul_add(p, z, d16_splat(0x1.999996ab04945p-2));
    p = d16_mul_add(p, z, d16_splat(0x1.555555561d976p-1));
    return log_join(x, s, z, p);
}

/* For 16-bit results a shorter polynomial is enough. */
VEC_INLINE d16 log_quick_narrow(log_split x) {
    d16 s = log_quotient(x), z = d16_mul(s, s);
    d16 p = d16_splat(0x1.e2f392124ac46p-3);
    p = d16_mul_add(p, z, d16_splat(0x1.2438ecab661d9p-2));
    p = d16_mul_add(p, z, d16_splat(0x1.999a7a2bc57dcp-2));
    p = d16_mul_add(p, z, d16_splat(0x1.555554fdd9bbbp-1));
    return log_join(x, s, z, p);
}

/* ln x for positive finite x, good to 2^-95 before it is rounded. z < 0.0295, so 20 terms of the series reach that. */
static inline float log_exact(float x) {
    double wide = (double)x;
    int64_t k = (int64_t)(bits_of_double(wide) - UINT64_C(0x3fe6a09e667f3bcd)) >> 52;
    double f = double_of_bits(bits_of_double(wide) - ((uint64_t)k << 52)) - 1.0;
    double_double s = dd_div((double_double){f, 0.0}, dd_of_sum(2.0, f)), z = dd_mul(s, s), series = {0.0, 0.0};
    for (int term = 20; term >= 0; term--) {
        double_double coefficient = dd_div((double_double){2.0, 0.0}, (double_double){2.0 * term + 1.0, 0.0});
        series = dd_add(dd_mul(series, z), coefficient);
    }
    double_double ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
    return dd_to_float(dd_add(dd_mul((double_double){(double)k, 0.0}, ln2), dd_mul(series, s)));
}

/* Where `sure` is not set, y becomes the exact way's result for x. */
static __attribute__((noinline)) void log_repair(float *y, const float *x, const int32_t *sure) {
    for (size_t lane = 0; lane < 16; lane++)
        if (sure[lane] == 0)
            y[lane] = log_exact(x[lane]);
}

/* Rounds `quick`, whose inputs were x. */
VEC_INLINE v16 log_rounded(v16 x, d16 quick) {
    v16 low = v16_of_d16(d16_mul(quick, d16_splat(1.0 - LOG_ERROR)));
    v16 high = v16_of_d16(d16_mul(quick, d16_splat(1.0 + LOG_ERROR)));
    v16 sure = v16_equal(low, high);
    if (v16_all(sure))
        return low;
    float inputs[16], outputs[16];
    int32_t lanes[16];
    v16_store_f32(inputs, x);
    v16_store_f32(outputs, low);
    v16_store_f32((float *)(void *)lanes, sure);
    log_repair(outputs, inputs, lanes);
    return v16_load_f32(outputs);
}

/* Whether every lane is a positive normal number. */
VEC_INLINE bool log_all_normal(v16 x) {
    n16 above = n16_above(n16_of(x), n16_splat(0x007fffff)), below = n16_above(n16_splat(0x7f800000), n16_of(x));
    return v16_all(v16_of(n16_and(above, below)));
}

/* Any lane as a positive normal one: subnormals times 2^24, and 1 for what has no finite logarithm. */
VEC_INLINE log_split log_split_any(v16 x, v16 *proper) {
    v16 infinity = v16_of(n16_splat(0x7f800000)), positive = v16_less(v16_zero(), x);
    *proper = v16_blend(v16_and(positive, v16_less(x, infinity)), v16_splat(1.0f), x);
    v16 tiny = v16_less(*proper, v16_splat(0x1p-126f));
    v16 scaled = v16_blend(tiny, *proper, v16_mul(*proper, v16_splat(0x1p24f)));
    return log_split_v16(scaled, n16_and(n16_of(tiny), n16_splat(24)));
}

/* Puts the results of zeros, infinity, negative numbers and NaN in place. */
VEC_INLINE v16 log_finish(v16 x, v16 y) {
    v16 infinity = v16_of(n16_splat(0x7f800000));
    y = v16_blend(v16_equal(x, infinity), y, infinity);
    y = v16_blend(v16_equal(x, v16_zero()), y, v16_of(n16_splat(0xff800000)));
    v16 nan = v16_of(n16_splat(0x7fc00000));
    y = v16_blend(v16_less(x, v16_zero()), y, nan);
    return v16_blend(v16_equal(x, x), nan, y);
}

/* ln x, correctly rounded. */
VEC_INLINE v16 log_v16(v16 x) {
    if (log_all_normal(x))
        return log_rounded(x, log_quick(log_split_v16(x, n16_splat(0))));
    v16 proper;
    log_split split = log_split_any(x, &proper);
    return log_finish(x, log_rounded(proper, log_quick(split)));
}

/* ln x for x from an f16 or bf16, such that rounding to the same dtype gives the correctly rounded result. */
VEC_INLINE v16 log_v16_narrow(v16 x) {
    if (log_all_normal(x))
        return v16_sticky_of_d16(log_quick_narrow(log_split_v16(x, n16_splat(0))));
    v16 proper;
    log_split split = log_split_any(x, &proper);
    return log_finish(x, v16_sticky_of_d16(log_quick_narrow(split)));
}

#endif
