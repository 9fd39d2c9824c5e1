/* The outer product and its gradients: what they take, and how they are cut into dispatches. */
#include "core/op.h"
#include "ops/outer_product/gpu.h"
#include "ops/outer_product/plan.h"
#include "ops/outer_product/reference.h"

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static mlxn_status record_forward(const mlxn_op *op, const mlxn_op_call *call) {
    if (call->local_bytes > 0) {
        return mlxn_outer_product_gpu_forward(op, call);
    }
    outer_plan plan = {.n = call->n, .m = call->m};
    plan.tile_columns = minimum(call->m, OUTER_TILE);
    plan.column_tiles = divide_up(call->m, OUTER_TILE);
    plan.block_rows = minimum(minimum(call->n, OUTER_ROWS), divide_up(8 * OUTER_TILE, plan.tile_columns));
    plan.row_blocks = divide_up(call->n, plan.block_rows);
    const mlxn_slice slices[] = {mlxn_slice_of(call->arguments[0], MLXN_READ),
                                 mlxn_slice_of(call->arguments[1], MLXN_READ),
                                 mlxn_slice_of(call->arguments[2], MLXN_WRITE)};
    return mlxn_encoder_record(
        call->encoder, &(mlxn_recording){.kernel = op->kernels[call->dtype],
                                         .slices = slices,
                                         .slice_count = 3,
                                         .constants = &plan,
                                         .constant_bytes = sizeof plan,
                                         .grid = {(uint64_t)(call->batch * plan.column_tiles * plan.row_blocks), 1, 1},
                                         .cost = slices[0].bytes + slices[1].bytes + slices[2].bytes});
}

/* A block has as many rows as give each thread of a large machine some blocks, but at least 128, so that the partial
 * sums of its columns are small beside it, and so few that its tree of leaves has room; a power of two of leaves, so
 * that it is a whole subtree of the canonical order. */
static int64_t block_rows(const mlxn_op_call *call, int64_t columns) {
    const int64_t total = call->batch * call->n * call->m;
    const int64_t wanted = total / 64 < 1 << 16 ? 1 << 16 : minimum(total / 64, 1 << 20);
    const int64_t padded = divide_up(columns, 16) * 16;
    int64_t rows = 4 * OUTER_LEAF, levels = 4; /* of the tree of 4 leaves, the next leaf included */
    while (rows * columns < wanted && (levels + 1) * padded <= OUTER_TREE && levels < OUTER_LEVELS) {
        rows *= 2;
        levels++;
    }
    return rows;
}

const char *const mlxn_outer_product_finish[] = {"outer_product_finish_f32", "outer_product_finish_f16",
                                                 "outer_product_finish_bf16"};

/* The partial sums of one gradient, and the dispatch that adds them; none where a group sees all of a sum. */
typedef struct partial_sums {
    mlxn_slice slice;
    int64_t parts, length;
} partial_sums;

static mlxn_status choose_target(const mlxn_op_call *call, const mlxn_buffer *gradient, int64_t parts, int64_t length,
                                 partial_sums *sums) {
    *sums = (partial_sums){.parts = parts, .length = length};
    if (parts == 1) {
        sums->slice = mlxn_slice_of(gradient, call->mode == MLXN_ACCUMULATE ? MLXN_READ_WRITE : MLXN_WRITE);
        return MLXN_OK;
    }
    return mlxn_encoder_scratch(call->encoder, (size_t)(call->batch * parts * length) * sizeof(float), &sums->slice);
}

static mlxn_status record_finish(const mlxn_op_call *call, const partial_sums *sums, const mlxn_buffer *gradient) {
    if (sums->parts == 1) {
        return MLXN_OK;
    }
    const bool accumulate = call->mode == MLXN_ACCUMULATE;
    const outer_finish_plan plan = {sums->parts, sums->length, divide_up(sums->length, OUTER_CHUNK), accumulate};
    const mlxn_slice slices[] = {sums->slice, mlxn_slice_of(gradient, accumulate ? MLXN_READ_WRITE : MLXN_WRITE)};
    return mlxn_encoder_record(call->encoder, &(mlxn_recording){.kernel = mlxn_outer_product_finish[call->dtype],
                                                                .slices = slices,
                                                                .slice_count = 2,
                                                                .constants = &plan,
                                                                .constant_bytes = sizeof plan,
                                                                .grid = {(uint64_t)(call->batch * plan.chunks), 1, 1},
                                                                .cost = slices[0].bytes + slices[1].bytes});
}

/* Any of the three backward ops: `dlhs` or `drhs` is NULL where it is not wanted. */
static mlxn_status record_gradients(const mlxn_op *op, const mlxn_op_call *call, const mlxn_buffer *dlhs,
                                    const mlxn_buffer *drhs) {
    if (call->local_bytes > 0) {
        return mlxn_outer_product_gpu_gradients(op, call, dlhs, drhs);
    }
    outer_plan plan = {.n = call->n, .m = call->m, .accumulate = call->mode == MLXN_ACCUMULATE};
    plan.tile_columns = minimum(call->m, OUTER_TILE);
    plan.column_tiles = divide_up(call->m, OUTER_TILE);
    plan.block_rows = minimum(call->n, block_rows(call, plan.tile_columns));
    plan.row_blocks = divide_up(call->n, plan.block_rows);
    const uint64_t groups = (uint64_t)(call->batch * plan.column_tiles * plan.row_blocks);
    mlxn_slice slices[MLXN_MAX_ARGUMENTS];
    size_t count = 0;
    uint64_t cost = 0;
    for (; count < op->info.input_count; count++) {
        slices[count] = mlxn_slice_of(call->arguments[count], MLXN_READ);
        cost += slices[count].bytes;
    }
    partial_sums row_sums, column_sums;
    if (dlhs != NULL) {
        const mlxn_status status = choose_target(call, dlhs, plan.column_tiles, call->n, &row_sums);
        if (status != MLXN_OK) {
            return status;
        }
        slices[count++] = row_sums.slice;
    }
    if (drhs != NULL) {
        const mlxn_status status = choose_target(call, drhs, plan.row_blocks, call->m, &column_sums);
        if (status != MLXN_OK) {
            return status;
        }
        slices[count++] = column_sums.slice;
    }
    mlxn_status status = mlxn_encoder_record(call->encoder, &(mlxn_recording){.kernel = op->kernels[call->dtype],
                                                                              .slices = slices,
                                                                              .slice_count = count,
                                                                              .constants = &plan,
                                                                              .constant_bytes = sizeof plan,
                                                                              .grid = {groups, 1, 1},
                                                                              .cost = cost});
    if (status == MLXN_OK && dlhs != NULL) {
        status = record_finish(call, &row_sums, dlhs);
    }
    if (status == MLXN_OK && drhs != NULL) {
        status = record_finish(call, &column_sums, drhs);
    }
    return status;
}

static mlxn_status record_lhs(const mlxn_op *op, const mlxn_op_call *call) {
    return record_gradients(op, call, call->arguments[2], NULL);
}

static mlxn_status record_rhs(const mlxn_op *op, const mlxn_op_call *call) {
    return record_gradients(op, call, NULL, call->arguments[2]);
}

static mlxn_status record_both(const mlxn_op *op, const mlxn_op_call *call) {
    return record_gradients(op, call, call->arguments[3], call->arguments[4]);
}

#define KERNELS(name) \
    { #name "_f32", #name "_f16", #name "_bf16" }

enum { FORWARD, BACKWARD_LHS, BACKWARD_RHS, BACKWARD, OP_COUNT };
static const mlxn_op ops[OP_COUNT] = {
    [FORWARD] = {.info = {.name = "outer_product",
                          .formula = "y[i,j] = lhs[i] * rhs[j]",
                          .backward = "outer_product_backward",
                          .input_count = 2,
                          .output_count = 1,
                          .arguments = {{"lhs", "N"}, {"rhs", "M"}, {"y", "NM"}},
                          .reference = mlxn_outer_product_reference},
                 .record = record_forward,
                 .kernels = KERNELS(outer_product)},
    [BACKWARD_LHS] = {.info = {.name = "outer_product_backward_lhs",
                               .formula = "dlhs[i] = sum over j of dy[i,j] * rhs[j]",
                               .forward = "outer_product",
                               .accumulates = true,
                               .input_count = 2,
                               .output_count = 1,
                               .arguments = {{"dy", "NM"}, {"rhs", "M"}, {"dlhs", "N"}},
                               .reference = mlxn_outer_product_backward_lhs_reference},
                      .record = record_lhs,
                      .kernels = KERNELS(outer_product_backward_lhs)},
    [BACKWARD_RHS] = {.info = {.name = "outer_product_backward_rhs",
                               .formula = "drhs[j] = sum over i of dy[i,j] * lhs[i]",
                               .forward = "outer_product",
                               .accumulates = true,
                               .input_count = 2,
                               .output_count = 1,
                               .arguments = {{"dy", "NM"}, {"lhs", "N"}, {"drhs", "M"}},
                               .reference = mlxn_outer_product_backward_rhs_reference},
                      .record = record_rhs,
                      .kernels = KERNELS(outer_product_backward_rhs)},
    [BACKWARD] = {.info = {.name = "outer_product_backward",
                           .formula =
                               "dlhs[i] = sum over j of dy[i,j] * rhs[j], drhs[j] = sum over i of dy[i,j] * lhs[i]",
                           .forward = "outer_product",
                           .accumulates = true,
                           .input_count = 3,
                           .output_count = 2,
                           .arguments = {{"dy", "NM"}, {"lhs", "N"}, {"rhs", "M"}, {"dlhs", "N"}, {"drhs", "M"}},
                           .reference = mlxn_outer_product_backward_reference},
                  .record = record_both,
                  .kernels = KERNELS(outer_product_backward)},
};

extern const mlxn_cpu_kernels mlxn_outer_product_baseline, mlxn_outer_product_avx2, mlxn_outer_product_avx512,
    mlxn_outer_product_neon;

extern const mlxn_family mlxn_outer_product_family;
const mlxn_family mlxn_outer_product_family = {
    .ops = ops,
    .op_count = OP_COUNT,
    .cpu =
        {
#if defined(__x86_64__)
            [MLXN_ISA_BASELINE] = &mlxn_outer_product_baseline,
            [MLXN_ISA_AVX2] = &mlxn_outer_product_avx2,
            [MLXN_ISA_AVX512] = &mlxn_outer_product_avx512,
#else
            [MLXN_ISA_NEON] = &mlxn_outer_product_neon,
#endif
        },
    .gpu = &mlxn_outer_product_gpu,
};

mlxn_status mlxn_outer_product(mlxn_encoder *encoder, mlxn_buffer *lhs, mlxn_buffer *rhs, mlxn_buffer *y) {
    return mlxn_op_record(encoder, &ops[FORWARD], (mlxn_buffer *[]){lhs, rhs, y}, MLXN_OVERWRITE);
}

mlxn_status mlxn_outer_product_backward_lhs(mlxn_encoder *encoder, mlxn_buffer *dy, mlxn_buffer *rhs, mlxn_buffer *dlhs,
                                            mlxn_mode mode) {
    return mlxn_op_record(encoder, &ops[BACKWARD_LHS], (mlxn_buffer *[]){dy, rhs, dlhs}, mode);
}

mlxn_status mlxn_outer_product_backward_rhs(mlxn_encoder *encoder, mlxn_buffer *dy, mlxn_buffer *lhs, mlxn_buffer *drhs,
                                            mlxn_mode mode) {
    return mlxn_op_record(encoder, &ops[BACKWARD_RHS], (mlxn_buffer *[]){dy, lhs, drhs}, mode);
}

mlxn_status mlxn_outer_product_backward(mlxn_encoder *encoder, mlxn_buffer *dy, mlxn_buffer *lhs, mlxn_buffer *rhs,
                                        mlxn_buffer *dlhs, mlxn_buffer *drhs, mlxn_mode mode) {
    return mlxn_op_record(encoder, &ops[BACKWARD], (mlxn_buffer *[]){dy, lhs, rhs, dlhs, drhs}, mode);
}
