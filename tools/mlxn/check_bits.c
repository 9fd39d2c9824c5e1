/* Checks that compare bits: accumulate mode, and digests. */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "check.h"
#include "draw.h"
#include "elements.h"

/* ---- accumulate mode ---- */

/* Fills the inputs of `wide` with those of `job` in f32, so that its results are the job's before they
 * are rounded to its dtype: ops on f16 and bf16 compute in f32. */
static void widen_inputs(const tool_job *job, tool_job *wide) {
    for (size_t k = 0; k < job->op->input_count; k++) {
        for (size_t i = 0; i < job->counts[k]; i++) {
            double value = tool_widen(job->dtype, tool_get(job->dtype, job->arrays[k], i));
            tool_set(MLXN_F32, wide->arrays[k], i, tool_narrow(MLXN_F32, value));
        }
    }
}

/* dst = round(f32(dst) + s): the sum rounded to f32 and then to the dtype. */
static uint32_t accumulated(mlxn_dtype dtype, uint32_t before, uint32_t gradient_f32) {
    double sum = tool_widen(dtype, before) + tool_widen(MLXN_F32, gradient_f32);
    return tool_narrow(dtype, tool_widen(MLXN_F32, tool_narrow(MLXN_F32, sum)));
}

static void compare_accumulated(const tool_job *job, const tool_job *wide, void *const *before, check_result *result) {
    for (size_t k = job->op->input_count; k < job->argument_count; k++) {
        for (size_t i = 0; i < job->counts[k]; i++) {
            uint32_t start = tool_get(job->dtype, before[k], i), gradient = tool_get(MLXN_F32, wide->arrays[k], i);
            uint32_t bits = tool_get(job->dtype, job->arrays[k], i), right = accumulated(job->dtype, start, gradient);
            if (bits != right) {
                const int digits = tool_digits(job->dtype);
                check_fail(result, "%s[%zu] is 0x%0*x, expected 0x%0*x exactly: 0x%0*x plus the gradient 0x%08x in f32",
                           job->op->arguments[k].name, i, digits, bits, digits, right, digits, start, gradient);
            }
        }
    }
}

static void run_accumulating(tool_session *session, tool_job *job, tool_job *wide, check_result *result) {
    void *before[MLXN_MAX_ARGUMENTS] = {NULL};
    bool intact = true;
    for (size_t k = 0; k < job->argument_count; k++) {
        tool_draw_wide(job->dtype, TOOL_SEED(k), job->arrays[k], job->counts[k]);
        size_t bytes = job->counts[k] * mlxn_dtype_size(job->dtype);
        before[k] = tool_allocate(bytes, 1);
        memcpy(before[k], job->arrays[k], bytes);
    }
    widen_inputs(job, wide);
    if (tool_job_run(wide, session->encoder, MLXN_OVERWRITE, &intact) != MLXN_OK ||
        tool_job_run(job, session->encoder, MLXN_ACCUMULATE, &intact) != MLXN_OK) {
        check_fail_call(result);
    } else {
        compare_accumulated(job, wide, before, result);
    }
    if (!intact) {
        check_fail(result, "wrote beyond an output");
    }
    for (size_t k = 0; k < job->argument_count; k++) {
        free(before[k]);
    }
}

void check_accumulate(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result) {
    if (!op->accumulates) {
        result->skipped = true;
        return;
    }
    const tool_extents extents =
        op->elementwise ? (tool_extents){1, {1021, 1}, 1, 1} : (tool_extents){1, {2, 1}, 37, 1100};
    tool_job job = {0}, wide = {0};
    if (tool_job_create(session->device, op, dtype, extents, 1, &job) != MLXN_OK ||
        tool_job_create(session->device, op, MLXN_F32, extents, 0, &wide) != MLXN_OK) {
        check_fail_call(result);
    } else {
        run_accumulating(session, &job, &wide, result);
        snprintf(result->text, sizeof result->text, "exact");
    }
    tool_job_destroy(&job);
    tool_job_destroy(&wide);
}

/* ---- digests ---- */

/* The shapes of the second digest: what kernels treat in ways of their own. `offset` elements precede every argument in
 * its memory. docs/numerics.md lists them. */
typedef struct shape_class {
    tool_extents extents;
    size_t offset;
} shape_class;

static const shape_class elementwise_shapes[] = {
    {{1, {1, 1}, 1, 1}, 0},   {{1, {2, 1}, 1, 1}, 0},    {{1, {3, 1}, 1, 1}, 1},    {{1, {257, 1}, 1, 1}, 0},
    {{2, {3, 341}, 1, 1}, 2}, {{1, {4099, 1}, 1, 1}, 3}, {{1, {8191, 1}, 1, 1}, 7}, {{1, {16384, 1}, 1, 1}, 0}};

static const shape_class matrix_shapes[] = {
    {{0, {1, 1}, 16384, 4}, 0},  /* narrow */
    {{0, {1, 1}, 4, 16384}, 0},  /* flat */
    {{1, {1021, 1}, 8, 8}, 0},   /* many tiny ones */
    {{0, {1, 1}, 1, 20011}, 0},  /* one row */
    {{0, {1, 1}, 20011, 1}, 0},  /* one column */
    {{0, {1, 1}, 257, 1031}, 1}, /* odd rows at odd places */
    {{2, {3, 2}, 67, 129}, 3},   /* a batch of these */
    {{0, {1, 1}, 5, 40009}, 5},  /* many segments of a row */
    {{0, {1, 1}, 30011, 5}, 7},  /* many leaves of a column */
    {{0, {1, 1}, 37, 1100}, 2},  /* few rows */
    {{0, {1, 1}, 64, 100}, 0},   /* whole leaves, few */
    {{0, {1, 1}, 2048, 256}, 0}, /* whole tiles */
    {{0, {1, 1}, 1, 1}, 1},
};

static const shape_class whole_elementwise = {{1, {65549, 1}, 1, 1}, 0}, whole_matrix = {{1, {2, 1}, 131, 2119}, 0};

/* Adds the bytes of the outputs, one after the other, of an op on inputs drawn by tool_draw_wide with TOOL_SEED(argument). */
static bool add_to_digest(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, const shape_class *shape,
                          XXH3_state_t *state, check_result *result) {
    tool_job job;
    bool intact;
    if (tool_job_create(session->device, op, dtype, shape->extents, shape->offset, &job) != MLXN_OK) {
        check_fail_call(result);
        return false;
    }
    for (size_t k = 0; k < op->input_count; k++) {
        tool_draw_wide(dtype, TOOL_SEED(k), job.arrays[k], job.counts[k]);
    }
    if (tool_job_run(&job, session->encoder, MLXN_OVERWRITE, &intact) != MLXN_OK) {
        check_fail_call(result);
    } else if (!intact) {
        check_fail(result, "wrote beyond an output");
    }
    for (size_t k = op->input_count; k < job.argument_count; k++) {
        XXH3_128bits_update(state, job.arrays[k], job.counts[k] * mlxn_dtype_size(dtype));
    }
    tool_job_destroy(&job);
    return !result->failed;
}

static void write_digest(const XXH3_state_t *state, char text[33]) {
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    snprintf(text, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

/* "[2] 131x2119" or "[65549]", and where the arguments begin. Returns `text`. */
static char *shape_text(const mlxn_op_info *op, const shape_class *shape, char text[80]) {
    char batch[48] = "";
    if (shape->extents.batch_rank > 0) {
        snprintf(batch, sizeof batch, shape->extents.batch_rank > 1 ? "[%lld,%lld]" : "[%lld]",
                 (long long)shape->extents.batch[0], (long long)shape->extents.batch[1]);
    }
    if (op->elementwise) {
        snprintf(text, 80, "%s at element %zu", batch, shape->offset);
    } else {
        snprintf(text, 80, "%s%s%lldx%lld at element %zu", batch, *batch ? " " : "", (long long)shape->extents.n,
                 (long long)shape->extents.m, shape->offset);
    }
    return text;
}

/* The device's digest after every shape must be that of a single CPU thread. */
static void compare_digests(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, const shape_class *shapes,
                            size_t count, check_result *result) {
    tool_session single;
    char text[33], right[33], where[80];
    if (!tool_open_named("cpu", 1, &single)) {
        check_fail_call(result);
        return;
    }
    XXH3_state_t state, right_state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_reset(&right_state);
    for (size_t i = 0; i < count && !result->failed; i++) {
        if (add_to_digest(session, op, dtype, &shapes[i], &state, result) &&
            add_to_digest(&single, op, dtype, &shapes[i], &right_state, result)) {
            write_digest(&state, text);
            write_digest(&right_state, right);
            snprintf(result->text, sizeof result->text, "%s", text);
            if (strcmp(text, right) != 0) {
                check_fail(result, "%s with the shape %s, but %s on one CPU thread", text,
                           shape_text(op, &shapes[i], where), right);
            }
        }
    }
    tool_close(&single);
}

void check_digest(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result) {
    compare_digests(session, op, dtype, op->elementwise ? &whole_elementwise : &whole_matrix, 1, result);
}

void check_shapes(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result) {
    if (op->elementwise) {
        compare_digests(session, op, dtype, elementwise_shapes, sizeof elementwise_shapes / sizeof *elementwise_shapes,
                        result);
    } else {
        compare_digests(session, op, dtype, matrix_shapes, sizeof matrix_shapes / sizeof *matrix_shapes, result);
    }
}
