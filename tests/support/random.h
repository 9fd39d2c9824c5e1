/* Reproducible inputs: SplitMix64 and integer operations alone, so that every machine draws the same bits. */
#ifndef MLXN_TESTS_SUPPORT_RANDOM_H
#define MLXN_TESTS_SUPPORT_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A whole number in [low, high]. */
static inline int64_t random_between(uint64_t *state, int64_t low, int64_t high) {
    return low + (int64_t)(random_next(state) % (uint64_t)(high - low + 1));
}

/* A multiple of 2^-23 in [-1, 1). */
static inline float random_unit(uint64_t *state) {
    return (float)((int32_t)(random_next(state) >> 40) - (1 << 23)) * 0x1p-23f;
}

#endif
