/* What the elementwise ops and their kernels share. */
#ifndef MLXN_OPS_ELEMENTWISE_ELEMENTWISE_H
#define MLXN_OPS_ELEMENTWISE_ELEMENTWISE_H

#include "core/op.h"

/* Elements of a group of the grid. A group is worth a call, and small enough to share work out evenly. */
#define MLXN_ELEMENTWISE_GROUP 2048

typedef struct mlxn_elementwise_constants {
    uint64_t count; /* elements */
    uint32_t accumulate;
    uint32_t unused;
} mlxn_elementwise_constants;

/* A forward and a backward in three dtypes for every op of ops.def. */
enum {
    MLXN_ELEMENTWISE_KERNELS = 0
#define UNARY(...) +6
#define BINARY(...) +6
#define SPECIAL(...)
#include "ops/ops.def"
#undef UNARY
#undef BINARY
#undef SPECIAL
};

extern const mlxn_cpu_kernel mlxn_elementwise_baseline[MLXN_ELEMENTWISE_KERNELS];
extern const mlxn_cpu_kernel mlxn_elementwise_avx2[MLXN_ELEMENTWISE_KERNELS];
extern const mlxn_cpu_kernel mlxn_elementwise_avx512[MLXN_ELEMENTWISE_KERNELS];
extern const mlxn_cpu_kernel mlxn_elementwise_neon[MLXN_ELEMENTWISE_KERNELS];

extern const mlxn_family mlxn_elementwise_family;

#endif
