/* Numbers of 106 bits as unevaluated sums of two f64, high + low with |low| <= half a unit in high's last place.
 * Scalar, without fma: for the rare inputs whose rounding a quick computation cannot decide. */
#ifndef MLXN_KERNELS_ELEMENTARY_DOUBLE_DOUBLE_H
#define MLXN_KERNELS_ELEMENTARY_DOUBLE_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct double_double {
    double high, low;
} double_double;

static inline uint64_t bits_of_double(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static inline double double_of_bits(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* a + b exactly. */
static inline double_double dd_of_sum(double a, double b) {
    double sum = a + b, part = sum - a;
    return (double_double){sum, (a - (sum - part)) + (b - part)};
}

/* The upper 26 bits of a's 53, rounded. */
static inline double dd_upper_half(double a) {
    double t = a * 0x1.0000002p27;
    return t - (t - a);
}

/* a * b exactly, for magnitudes far from overflow and underflow. */
static inline double_double dd_of_product(double a, double b) {
    double product = a * b;
    double a1 = dd_upper_half(a), a0 = a - a1, b1 = dd_upper_half(b), b0 = b - b1;
    return (double_double){product, ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0};
}

static inline double_double dd_add(double_double a, double_double b) {
    double_double high = dd_of_sum(a.high, b.high), low = dd_of_sum(a.low, b.low);
    high = dd_of_sum(high.high, high.low + low.high);
    return dd_of_sum(high.high, high.low + low.low);
}

static inline double_double dd_mul(double_double a, double_double b) {
    double_double product = dd_of_product(a.high, b.high);
    return dd_of_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

/* a / b, by a quotient and two corrections from exact remainders. */
static inline double_double dd_div(double_double a, double_double b) {
    double_double quotient = {0.0, 0.0};
    for (int round = 0; round < 3; round++) {
        double_double used = dd_mul(quotient, b);
        double_double rest = dd_add(a, (double_double){-used.high, -used.low});
        quotient = dd_add(quotient, (double_double){rest.high / b.high, 0.0});
    }
    return quotient;
}

/* Rounds to f32 once: first to odd in f64, which keeps the second rounding honest. */
static inline float dd_to_float(double_double a) {
    uint64_t bits = bits_of_double(a.high);
    if (a.low != 0.0 && (bits & 1) == 0)
        bits += (a.low > 0.0) == (a.high > 0.0) ? UINT64_C(1) : UINT64_MAX;
    return (float)double_of_bits(bits);
}

#endif
