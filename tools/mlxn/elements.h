/* Elements of arrays as numbers, in plain integers: it shares nothing with the library, so that the checks
 * are not checked by the code under test. */
#ifndef MLXN_TOOL_ELEMENTS_H
#define MLXN_TOOL_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mlxn/mlxn.h>

/* The bits of element `index` of an array of f32, f16 or bf16, and the other way. */
uint32_t tool_get(mlxn_dtype dtype, const void *array, size_t index);
void tool_set(mlxn_dtype dtype, void *array, size_t index, uint32_t bits);

/* The number that the bits of an f32, f16 or bf16 stand for. */
double tool_widen(mlxn_dtype dtype, uint32_t bits);

/* The bits of a number rounded once to f32, f16 or bf16, to nearest, ties to even. A NaN becomes the
 * canonical one. */
uint32_t tool_narrow(mlxn_dtype dtype, double value);

/* The distance between a finite number's neighbours in the dtype. */
double tool_ulp(mlxn_dtype dtype, double value);

/* The hexadecimal digits of an element. */
static inline int tool_digits(mlxn_dtype dtype) {
    return (int)(2 * mlxn_dtype_size(dtype));
}

/* Whether the bits are a NaN, and the bits of the canonical one. */
bool tool_is_nan(mlxn_dtype dtype, uint32_t bits);
uint32_t tool_canonical_nan(mlxn_dtype dtype);

/* Element `index` of an array of any dtype, such that tool_narrow rounds it as it would the element
 * itself: a 64-bit integer beyond 2^53 is rounded to odd. */
double tool_number(mlxn_dtype dtype, const void *array, size_t index);

#endif
