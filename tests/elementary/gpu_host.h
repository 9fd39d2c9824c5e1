/* The prelude under which the kernel text compiles as C17 on the host, so that tests can run its functions there.
 * The includer sets MLXN_F64 to 1 or 0. Other preludes give the same names in other languages. */
#ifndef MLXN_TESTS_ELEMENTARY_GPU_HOST_H
#define MLXN_TESTS_ELEMENTARY_GPU_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FN static inline
#define FN_RARE static inline
#define TABLE static const

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

FN u32 bits_of(float f) {
    u32 bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

FN float float_of(u32 bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

FN float fma32(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
FN float abs32(float x) {
    return __builtin_fabsf(x);
}
FN float min32(float a, float b) {
    return __builtin_fminf(a, b);
}
FN float max32(float a, float b) {
    return __builtin_fmaxf(a, b);
}

#if MLXN_F64
FN u64 bits_of_double(double d) {
    u64 bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

FN double double_of(u64 bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

FN double fma64(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}
#endif

/* The high half of the 128 bits of a * b. */
FN u64 mul_high(u64 a, u64 b) {
    __extension__ typedef unsigned __int128 u128;
    return (u64)((u128)a * b >> 64);
}

/* How many zero bits stand before the first one; not for 0. */
FN i32 clz64(u64 bits) {
    return __builtin_clzll(bits);
}

#endif
