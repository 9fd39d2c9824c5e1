/* The float formats in plain integers: an implementation of its own, which shares nothing with the library's. */
#ifndef MLXN_TESTS_SUPPORT_HALF_H
#define MLXN_TESTS_SUPPORT_HALF_H

#include <stddef.h>
#include <stdint.h>

#include <mlxn/mlxn.h>

/* The exact value of an element's bits. dtype is f32, f16 or bf16. A NaN gives a NaN. */
float half_widen(mlxn_dtype dtype, uint32_t bits);

/* The bits of `value` rounded once to the dtype, to nearest, ties to even; the canonical NaN for a NaN. */
uint32_t half_narrow(mlxn_dtype dtype, double value);

/* The bits of a dtype's canonical NaN. */
uint32_t half_nan(mlxn_dtype dtype);

/* Whether the bits are some NaN. */
int half_is_nan(mlxn_dtype dtype, uint32_t bits);

/* Element `index` of an array of the dtype, as bits. */
uint32_t half_get(mlxn_dtype dtype, const void *array, size_t index);
void half_set(mlxn_dtype dtype, void *array, size_t index, uint32_t bits);

/* Bit casts. */
float half_float(uint32_t bits);
uint32_t half_bits(float value);

#endif
