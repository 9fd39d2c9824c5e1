/* The outer product on GPUs: how its work is cut up for the kernels of src/kernels/gpu/outer_product*.h. */
#ifndef MLXN_OPS_OUTER_PRODUCT_GPU_H
#define MLXN_OPS_OUTER_PRODUCT_GPU_H

#include "core/op.h"

extern const mlxn_gpu_kernels mlxn_outer_product_gpu;

/* The kernels that add partial sums up, by dtype: they are called alike on the CPU. */
extern const char *const mlxn_outer_product_finish[3];

mlxn_status mlxn_outer_product_gpu_forward(const mlxn_op *op, const mlxn_op_call *call);

/* Any of the three gradient ops: `dlhs` or `drhs` is NULL where it is not wanted. */
mlxn_status mlxn_outer_product_gpu_gradients(const mlxn_op *op, const mlxn_op_call *call, const mlxn_buffer *dlhs,
                                             const mlxn_buffer *drhs);

#endif
