/* Evaluates an op's formula, such as "dx = dy / (y + y)", as what the contract says it is: a sequence of IEEE
 * operations in f32, each rounded once. */
#ifndef MLXN_TESTS_SUPPORT_FORMULA_H
#define MLXN_TESTS_SUPPORT_FORMULA_H

#include <stdbool.h>

#include <mlxn/mlxn.h>

/* The value of output `output` of an elementwise op for the input values in the order of its arguments. False if the
 * formula is more than + - * /, sqrt and fma of its arguments. */
bool formula_evaluate(const mlxn_op_info *op, size_t output, const float *inputs, float *result);

#endif
