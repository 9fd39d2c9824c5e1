#include "elements.h"

#include <math.h>
#include <string.h>

typedef struct format {
    int mantissa; /* bits after the point */
    int exponent; /* bits */
} format;

static format format_of(mlxn_dtype dtype) {
    return dtype == MLXN_F16 ? (format){10, 5} : dtype == MLXN_BF16 ? (format){7, 8} : (format){23, 8};
}

static int bias_of(format f) {
    return (1 << (f.exponent - 1)) - 1;
}

uint32_t tool_get(mlxn_dtype dtype, const void *array, size_t index) {
    if (dtype == MLXN_F32) {
        uint32_t bits;
        memcpy(&bits, (const char *)array + index * sizeof bits, sizeof bits);
        return bits;
    }
    uint16_t bits;
    memcpy(&bits, (const char *)array + index * sizeof bits, sizeof bits);
    return bits;
}

void tool_set(mlxn_dtype dtype, void *array, size_t index, uint32_t bits) {
    if (dtype == MLXN_F32) {
        memcpy((char *)array + index * sizeof bits, &bits, sizeof bits);
        return;
    }
    uint16_t half = (uint16_t)bits;
    memcpy((char *)array + index * sizeof half, &half, sizeof half);
}

double tool_widen(mlxn_dtype dtype, uint32_t bits) {
    const format f = format_of(dtype);
    uint32_t mantissa = bits & ((1u << f.mantissa) - 1), top = (1u << f.exponent) - 1;
    uint32_t exponent = (bits >> f.mantissa) & top;
    double value;
    if (exponent == top) {
        value = mantissa ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        value = ldexp((double)mantissa, 1 - bias_of(f) - f.mantissa);
    } else {
        value = ldexp((double)(mantissa | 1u << f.mantissa), (int)exponent - bias_of(f) - f.mantissa);
    }
    return bits >> (f.mantissa + f.exponent) & 1 ? -value : value;
}

uint32_t tool_narrow(mlxn_dtype dtype, double value) {
    const format f = format_of(dtype);
    if (isnan(value)) {
        return tool_canonical_nan(dtype);
    }
    uint32_t sign = signbit(value) ? 1u << (f.mantissa + f.exponent) : 0;
    uint32_t infinity = ((1u << f.exponent) - 1) << f.mantissa;
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* in [1/2, 1) */
    if (isinf(value) || exponent > bias_of(f) + 1) {
        return sign | infinity;
    }
    if (fraction == 0) {
        return sign;
    }
    /* The lowest bit kept is 2^low; `scaled` counts in it and has at most 2^(mantissa + 1). */
    int low = exponent - 1 - f.mantissa, least = 1 - bias_of(f) - f.mantissa;
    if (low < least) {
        low = least;
    }
    double scaled = ldexp(fabs(value), -low);
    double whole = floor(scaled), rest = scaled - whole;
    uint32_t count = (uint32_t)whole;
    count += rest > 0.5 || (rest == 0.5 && (count & 1)) ? 1u : 0u;
    /* A subnormal's count is its bits; else the hidden bit adds the exponent's last step, and a carry the next. */
    uint32_t bits = count + ((uint32_t)(low - least) << f.mantissa);
    return sign | (bits > infinity ? infinity : bits);
}

double tool_ulp(mlxn_dtype dtype, double value) {
    const format f = format_of(dtype);
    int exponent;
    frexp(value, &exponent);
    int low = exponent - 1 - f.mantissa, least = 1 - bias_of(f) - f.mantissa;
    return ldexp(1, value == 0 || low < least ? least : low);
}

bool tool_is_nan(mlxn_dtype dtype, uint32_t bits) {
    const format f = format_of(dtype);
    uint32_t infinity = ((1u << f.exponent) - 1) << f.mantissa;
    return (bits & ((1u << (f.mantissa + f.exponent)) - 1)) > infinity;
}

uint32_t tool_canonical_nan(mlxn_dtype dtype) {
    const format f = format_of(dtype);
    return ((1u << f.exponent) - 1) << f.mantissa | 1u << (f.mantissa - 1);
}

static double from_int64(int64_t value) {
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (magnitude >> 53) {
        magnitude = (magnitude >> 11 | ((magnitude & 2047) != 0)) << 11;
    }
    return value < 0 ? -(double)magnitude : (double)magnitude;
}

double tool_number(mlxn_dtype dtype, const void *array, size_t index) {
    const char *at = (const char *)array + index * mlxn_dtype_size(dtype);
    union {
        double f64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        int32_t i32;
        int64_t i64;
    } element;
    switch (dtype) {
    case MLXN_F64:
        memcpy(&element.f64, at, sizeof element.f64);
        return element.f64;
    case MLXN_U8:
        return *(const uint8_t *)at;
    case MLXN_U16:
        memcpy(&element.u16, at, sizeof element.u16);
        return element.u16;
    case MLXN_U32:
        memcpy(&element.u32, at, sizeof element.u32);
        return element.u32;
    case MLXN_I32:
        memcpy(&element.i32, at, sizeof element.i32);
        return element.i32;
    case MLXN_I64:
        memcpy(&element.i64, at, sizeof element.i64);
        return from_int64(element.i64);
    default:
        return tool_widen(dtype, tool_get(dtype, array, index));
    }
}
