/* Numbers drawn by integer operations alone, so that every machine draws the same bits. */
#ifndef MLXN_TOOL_DRAW_H
#define MLXN_TOOL_DRAW_H

#include <stddef.h>
#include <stdint.h>

#include <mlxn/mlxn.h>

/* The seed of argument `index` in a digest: "mlxn" in ASCII, and the index. */
#define TOOL_SEED(index) (UINT64_C(0x6d6c786e00000000) + (uint64_t)(index))

/* Fills an array with numbers whose exponents lie evenly in -8 … 3, of either sign. Element i takes the
 * i-th output r of SplitMix64 from the state `seed`: its sign is bit 63, its exponent (r >> 32 without
 * bit 63) mod 12, less 8, its mantissa the lowest bits of r. This is what the digests are made from. */
void tool_draw_wide(mlxn_dtype dtype, uint64_t seed, void *array, size_t count);

/* Fills an array with positive numbers in [1/2, 2), where every function worth its gradient is smooth: the
 * exponent is -1 or 0 by bit 32, the mantissa as above. */
void tool_draw_near_one(mlxn_dtype dtype, uint64_t seed, void *array, size_t count);

#endif
