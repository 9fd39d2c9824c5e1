/* What the elementwise ops, their kernels and their reference share. */
#ifndef MLXN_OPS_ELEMENTWISE_ELEMENTWISE_H
#define MLXN_OPS_ELEMENTWISE_ELEMENTWISE_H

#include "core/op.h"

/* Elements of a group of the CPU's grid: worth a call, and few enough to share work out evenly. */
#define MLXN_ELEMENTWISE_GROUP 2048

/* On a GPU a thread does so many lines of 16 bytes (src/kernels/gpu/elementwise.h). */
#define MLXN_ELEMENTWISE_THREADS 128
#define MLXN_ELEMENTWISE_LINES 3

typedef struct mlxn_elementwise_constants {
    uint64_t count;      /* elements */
    uint64_t accumulate; /* 0 or 1 */
} mlxn_elementwise_constants;

extern const mlxn_cpu_kernels mlxn_elementwise_baseline, mlxn_elementwise_avx2, mlxn_elementwise_avx512,
    mlxn_elementwise_neon;
extern const mlxn_gpu_kernels mlxn_elementwise_gpu;

extern const mlxn_family mlxn_elementwise_family;

/* The reference of every op of ops.def: mlxn_reference_<op>, defined in reference.c. */
#define REFERENCE(name) \
    void mlxn_reference_##name(int64_t batch, int64_t n, int64_t m, const double *const *in, double *const *out);
#define UNARY(name, ...) REFERENCE(name) REFERENCE(name##_backward)
#define BINARY(name, ...) REFERENCE(name) REFERENCE(name##_backward)
#define SPECIAL(...)
#include "ops/ops.def"
#undef REFERENCE
#undef UNARY
#undef BINARY
#undef SPECIAL

#endif
