/* The outer product's CPU kernels, compiled once for each instruction set. */
#include "core/op.h"
#include "kernels/cpu/vec.h"
#include "ops/outer_product/plan.h"
#include "ops/outer_product/tree.h"

#define PASTE(a, b) PASTE_TOKENS(a, b)
#define PASTE_TOKENS(a, b) a##b

#define DTYPE f32
#define T float
#define CANONICAL(v) v16_canonical(v)
#include "ops/outer_product/dtype.h"

#define DTYPE f16
#define T uint16_t
#define CANONICAL(v) (v)
#include "ops/outer_product/dtype.h"

#define DTYPE bf16
#define T uint16_t
#define CANONICAL(v) (v)
#include "ops/outer_product/dtype.h"

#define KERNEL(name, dtype) \
    { #name "_" #dtype, name##_##dtype }
#define KERNELS(dtype)                                                                    \
    KERNEL(outer_product, dtype), KERNEL(outer_product_backward_lhs, dtype),              \
        KERNEL(outer_product_backward_rhs, dtype), KERNEL(outer_product_backward, dtype), \
        KERNEL(outer_product_finish, dtype)

static const mlxn_cpu_kernel kernels[] = {KERNELS(f32), KERNELS(f16), KERNELS(bf16)};

extern const mlxn_cpu_kernels PASTE(mlxn_outer_product_, MLXN_ISA);
const mlxn_cpu_kernels PASTE(mlxn_outer_product_, MLXN_ISA) = {kernels, sizeof kernels / sizeof *kernels};
