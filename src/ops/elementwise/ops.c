/* The elementwise ops, made of ops.def: their descriptions, public functions and dispatches. */
#include "ops/elementwise/elementwise.h"

#include "ops/elementwise/special.h"

/* Inputs, outputs, and in accumulate mode outputs once more: what an op reads and writes. */
static mlxn_status record(const mlxn_op *op, const mlxn_op_call *call) {
    const bool accumulate = call->mode == MLXN_ACCUMULATE;
    const size_t inputs = op->info.input_count, count = inputs + op->info.output_count;
    mlxn_slice slices[MLXN_MAX_ARGUMENTS];
    uint64_t cost = 0;
    for (size_t i = 0; i < count; i++) {
        const mlxn_access writing = accumulate ? MLXN_READ_WRITE : MLXN_WRITE;
        slices[i] = mlxn_slice_of(call->arguments[i], i < inputs ? MLXN_READ : writing);
        cost += slices[i].access == MLXN_READ_WRITE ? 2 * slices[i].bytes : slices[i].bytes;
    }
    const uint64_t elements = (uint64_t)call->batch;
    const mlxn_elementwise_constants constants = {elements, accumulate};
    const bool gpu = call->local_bytes > 0;
    const uint64_t line = 16 / mlxn_dtype_size(call->dtype);
    const uint64_t group = gpu ? MLXN_ELEMENTWISE_THREADS * MLXN_ELEMENTWISE_LINES * line : MLXN_ELEMENTWISE_GROUP;
    /* The first line of a GPU's may begin before the elements. */
    const uint64_t spread = gpu ? elements + line - 1 : elements, groups = spread / group + (spread % group != 0);
    return mlxn_encoder_record(call->encoder, &(mlxn_recording){.kernel = op->kernels[call->dtype],
                                                                .slices = slices,
                                                                .slice_count = count,
                                                                .constants = &constants,
                                                                .constant_bytes = sizeof constants,
                                                                .grid = {groups, 1, 1},
                                                                .group = {MLXN_ELEMENTWISE_THREADS, 1, 1},
                                                                .cost = cost});
}

/* clang-format off */
#define UNARY(...)
#define BINARY(...)
#define SPECIAL(name, ...) static const mlxn_special special_##name[] = {__VA_ARGS__};
#include "ops/ops.def"
#undef UNARY
#undef BINARY
#undef SPECIAL

/* The place of every op in the list. */
enum {
#define UNARY(name, ...) AT_##name, AT_##name##_backward,
#define BINARY(name, ...) AT_##name, AT_##name##_backward,
#define SPECIAL(...)
#include "ops/ops.def"
#undef UNARY
#undef BINARY
    OP_COUNT
};

#define SPECIALS(op) .special = special_##op, .special_count = sizeof special_##op / sizeof *special_##op
#define INFO(op) .name = #op, .elementwise = true, .reference = mlxn_reference_##op, SPECIALS(op)
#define KERNELS(op) {#op "_f32", #op "_f16", #op "_bf16"}
#define ENTRY(op, ...) {.exact_alias = true, .record = record, .kernels = KERNELS(op), .info = {INFO(op), __VA_ARGS__}},
#define TAKES(in, out, ...) .input_count = in, .output_count = out, .arguments = {__VA_ARGS__}
#define FORWARD(op, text, ...) ENTRY(op, .formula = "y = " text, .backward = #op "_backward", __VA_ARGS__)
#define BACKWARD(op, text, ...) ENTRY(op##_backward, .formula = text, .forward = #op, .accumulates = true, __VA_ARGS__)

#define UNARY(op, f, saved, g, y, dx) FORWARD1(op, y) BACKWARD1(op, #saved, "dx = " dx)
#define FORWARD1(op, y) FORWARD(op, y, TAKES(1, 1, {"x", ""}, {"y", ""}))
#define BACKWARD1(op, saved, dx) BACKWARD(op, dx, TAKES(2, 1, {saved, ""}, {"dy", ""}, {"dx", ""}))
#define BINARY(op, f, ga, gb, y, da, db) FORWARD2(op, y) BACKWARD2(op, "da = " da ", db = " db)
#define FORWARD2(op, y) FORWARD(op, y, TAKES(2, 1, {"a", ""}, {"b", ""}, {"y", ""}))
#define BACKWARD2(op, text) BACKWARD(op, text, TAKES(3, 2, {"a", ""}, {"b", ""}, {"dy", ""}, {"da", ""}, {"db", ""}))
static const mlxn_op ops[OP_COUNT] = {
#include "ops/ops.def"
};
#undef UNARY
#undef BINARY
#undef FORWARD1
#undef BACKWARD1
#undef FORWARD2
#undef BACKWARD2

/* The public functions. */
#define IN mlxn_buffer *
#define OP(op, ...) mlxn_status mlxn_##op(mlxn_encoder *encoder, __VA_ARGS__)
#define RECORD(op, mode, ...) mlxn_op_record(encoder, &ops[AT_##op], (mlxn_buffer *[]){__VA_ARGS__}, mode)

#define UNARY(op, f, saved, ...) FORWARD1(op) BACKWARD1(op##_backward, saved)
#define FORWARD1(op) OP(op, IN x, IN y) { return RECORD(op, MLXN_OVERWRITE, x, y); }
#define BACKWARD1(op, saved) OP(op, IN saved, IN dy, IN dx, mlxn_mode mode) { return RECORD(op, mode, saved, dy, dx); }
#define BINARY(op, ...) FORWARD2(op) BACKWARD2(op##_backward)
#define FORWARD2(op) OP(op, IN a, IN b, IN y) { return RECORD(op, MLXN_OVERWRITE, a, b, y); }
#define BACKWARD2(op) OP(op, IN a, IN b, IN dy, IN da, IN db, mlxn_mode to) { return RECORD(op, to, a, b, dy, da, db); }
#include "ops/ops.def"
/* clang-format on */

const mlxn_family mlxn_elementwise_family = {
    .ops = ops,
    .op_count = OP_COUNT,
    .cpu =
        {
#if defined(__x86_64__)
            [MLXN_ISA_BASELINE] = &mlxn_elementwise_baseline,
            [MLXN_ISA_AVX2] = &mlxn_elementwise_avx2,
            [MLXN_ISA_AVX512] = &mlxn_elementwise_avx512,
#else
            [MLXN_ISA_NEON] = &mlxn_elementwise_neon,
#endif
        },
    .gpu = &mlxn_elementwise_gpu,
};
