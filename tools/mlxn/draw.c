#include "draw.h"

#include <stdbool.h>

#include "elements.h"

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void draw(mlxn_dtype dtype, uint64_t seed, void *array, size_t count, bool wide) {
    const int mantissa = dtype == MLXN_F16 ? 10 : dtype == MLXN_BF16 ? 7 : 23;
    const uint32_t bias = dtype == MLXN_F16 ? 15 : 127;
    const int sign_bit = dtype == MLXN_F32 ? 31 : 15;
    for (size_t i = 0; i < count; i++) {
        uint64_t r = next(&seed);
        uint32_t high = (uint32_t)(r >> 32);
        uint32_t exponent = wide ? bias - 8 + (high & 0x7fffffff) % 12 : bias - 1 + (high & 1);
        uint32_t sign = wide ? high >> 31 : 0;
        uint32_t bits = sign << sign_bit | exponent << mantissa | ((uint32_t)r & ((1u << mantissa) - 1));
        tool_set(dtype, array, i, bits);
    }
}

void tool_draw_wide(mlxn_dtype dtype, uint64_t seed, void *array, size_t count) {
    draw(dtype, seed, array, count, true);
}

void tool_draw_near_one(mlxn_dtype dtype, uint64_t seed, void *array, size_t count) {
    draw(dtype, seed, array, count, false);
}
