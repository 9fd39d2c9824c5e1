#include "half.h"

#include <math.h>
#include <string.h>

/* A binary format: significant bits (the hidden one counted) and the exponent of the smallest normal value. */
typedef struct format {
    int precision;
    int least;
    uint32_t infinity;
    uint32_t sign;
} format;

static format format_of(mlxn_dtype dtype) {
    switch (dtype) {
    case MLXN_F16:
        return (format){11, -14, 0x7c00u, 0x8000u};
    case MLXN_BF16:
        return (format){8, -126, 0x7f80u, 0x8000u};
    default:
        return (format){24, -126, 0x7f800000u, 0x80000000u};
    }
}

float half_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t half_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint32_t half_nan(mlxn_dtype dtype) {
    const format f = format_of(dtype);
    return f.infinity | UINT32_C(1) << (f.precision - 2);
}

int half_is_nan(mlxn_dtype dtype, uint32_t bits) {
    const format f = format_of(dtype);
    return (bits & ~f.sign) > f.infinity;
}

float half_widen(mlxn_dtype dtype, uint32_t bits) {
    if (dtype == MLXN_F32)
        return half_float(bits);
    if (dtype == MLXN_BF16)
        return half_float(bits << 16);
    const uint32_t sign = (bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
    if (exponent == 31)
        return half_float(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
        if (fraction == 0)
            return half_float(sign);
        for (exponent = 1; (fraction & 0x400u) == 0; exponent--)
            fraction <<= 1;
        fraction &= 0x3ffu;
    }
    return half_float(sign | (exponent + 112u) << 23 | fraction << 13);
}

uint32_t half_narrow(mlxn_dtype dtype, double value) {
    const format f = format_of(dtype);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 63 != 0 ? f.sign : 0;
    const int field = (int)(bits >> 52 & 0x7ff);
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if (field == 0x7ff)
        return fraction != 0 ? half_nan(dtype) : sign | f.infinity;
    if (field == 0)
        return sign; /* zero, or far below half of the smallest value of any of the formats */
    fraction |= UINT64_C(1) << 52;
    const int exponent = field - 1023;
    const int binade = exponent > f.least ? exponent : f.least;
    const int drop = 52 - (f.precision - 1) + (binade - exponent);
    if (drop > 53)
        return sign;
    uint64_t kept = fraction >> drop;
    const uint64_t rest = fraction & ((UINT64_C(1) << drop) - 1), tie = UINT64_C(1) << (drop - 1);
    if (rest > tie || (rest == tie && (kept & 1) != 0))
        kept++;
    const uint64_t magnitude = ((uint64_t)(binade - f.least) << (f.precision - 1)) + kept;
    return sign | (magnitude >= f.infinity ? f.infinity : (uint32_t)magnitude);
}

uint32_t half_get(mlxn_dtype dtype, const void *array, size_t index) {
    if (dtype == MLXN_F32) {
        uint32_t bits;
        memcpy(&bits, (const char *)array + 4 * index, sizeof bits);
        return bits;
    }
    uint16_t bits;
    memcpy(&bits, (const char *)array + 2 * index, sizeof bits);
    return bits;
}

void half_set(mlxn_dtype dtype, void *array, size_t index, uint32_t bits) {
    if (dtype == MLXN_F32) {
        memcpy((char *)array + 4 * index, &bits, sizeof bits);
        return;
    }
    const uint16_t narrow = (uint16_t)bits;
    memcpy((char *)array + 2 * index, &narrow, sizeof narrow);
}
