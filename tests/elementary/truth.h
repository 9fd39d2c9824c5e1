/* What the unary ops of ops.def must give, computed with MPFR and without any code of the kernels. */
#ifndef MLXN_TESTS_ELEMENTARY_TRUTH_H
#define MLXN_TESTS_ELEMENTARY_TRUTH_H

#include "mlxn/mlxn.h"

#include <stdint.h>

/* Results come in blocks of inputs whose bit patterns follow each other; a 16-bit dtype is one block. */
#define TRUTH_BLOCK_F32 (UINT64_C(1) << 22)
#define TRUTH_BLOCK_HALF (UINT64_C(1) << 16)

/* How the rounded value of a function is found. */
typedef enum truth_way {
    TRUTH_QUICK, /* from libm in double, where its error cannot change the rounding; else from MPFR */
    TRUTH_MPFR   /* always from MPFR */
} truth_way;

typedef struct truth_op {
    const char *name;
    float (*forward)(truth_way way, mlxn_dtype dtype, float x);
} truth_op;

extern const truth_op truth_ops[];
extern const size_t truth_op_count;

uint64_t truth_block_size(mlxn_dtype dtype);  /* inputs of a block */
uint64_t truth_block_count(mlxn_dtype dtype); /* blocks that make all inputs */

/* The bits of the right result for the input with the given bits. */
uint32_t truth_result(const truth_op *op, truth_way way, mlxn_dtype dtype, uint32_t input);

/* Fills results[truth_block_size(dtype)], of uint32_t or uint16_t, for the inputs of a block. */
void truth_block(const truth_op *op, truth_way way, mlxn_dtype dtype, uint64_t block, void *results);

#endif
