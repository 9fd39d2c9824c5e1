/* What an op is to the core: a description of its arguments, and a function that turns checked arguments
 * into dispatches. The core knows no op by name; src/mlxn.c joins the families. */
#ifndef MLXN_CORE_OP_H
#define MLXN_CORE_OP_H

#include "core/encoder.h"

/* A call of an op whose arguments have passed every check. */
typedef struct mlxn_op_call {
    mlxn_encoder *encoder;
    mlxn_buffer *const *arguments;
    mlxn_dtype dtype;
    mlxn_mode mode;
    size_t local_bytes;  /* of a group, on a GPU; 0 on the CPU */
    int64_t batch, n, m; /* the leading extents' product, and N and M where the op has them, else 1 */
} mlxn_op_call;

typedef struct mlxn_op {
    mlxn_op_info info;
    bool exact_alias; /* in overwrite mode an output may be the very memory of an input */
    mlxn_status (*record)(const struct mlxn_op *op, const mlxn_op_call *call);
    const char *kernels[3]; /* the names of the op's main kernel, by dtype: f32, f16, bf16 */
} mlxn_op;

/* A CPU kernel of a family, for one instruction set. */
typedef struct mlxn_cpu_kernel {
    const char *name;
    mlxn_function function;
} mlxn_cpu_kernel;

typedef struct mlxn_cpu_kernels {
    const mlxn_cpu_kernel *list;
    size_t count;
} mlxn_cpu_kernels;

/* A GPU kernel of a family: its name, which is its entry point, and the pieces of its text, ended by NULL. */
typedef struct mlxn_gpu_kernel {
    const char *name;
    const char *const *text;
} mlxn_gpu_kernel;

typedef struct mlxn_gpu_kernels {
    const mlxn_gpu_kernel *list;
    size_t count;
} mlxn_gpu_kernels;

/* Instruction sets of the CPU device, the plainest first. Which exist depends on the architecture. */
typedef enum mlxn_isa { MLXN_ISA_BASELINE, MLXN_ISA_AVX2, MLXN_ISA_AVX512, MLXN_ISA_NEON, MLXN_ISA_COUNT } mlxn_isa;

/* Ops that share a folder and a kernel body. */
typedef struct mlxn_family {
    const mlxn_op *ops;
    size_t op_count;
    const mlxn_cpu_kernels *cpu[MLXN_ISA_COUNT]; /* NULL where the architecture lacks the set */
    const mlxn_gpu_kernels *gpu;
} mlxn_family;

/* Adds the GPU kernels of all families to the registry of a device that is being opened. */
mlxn_status mlxn_op_add_gpu_kernels(mlxn_device *device);

/* Checks the arguments against op->info and records the op; a failure makes the encoder sticky. */
mlxn_status mlxn_op_record(mlxn_encoder *encoder, const mlxn_op *op, mlxn_buffer *const *arguments, mlxn_mode mode);

/* Defined in src/mlxn.c. */
extern const mlxn_family *const mlxn_families[];
extern const size_t mlxn_family_count;

#endif
