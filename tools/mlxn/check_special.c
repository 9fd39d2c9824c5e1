/* Special values in every lane and tail position.
 *
 * A row of special values is one element of each argument. Rows stand beside each other in turn, and alone
 * among ordinary elements, in arrays of every small length that begin at odd places of their memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "elements.h"

#define LONGEST 67        /* more than two vectors of any instruction set, and a tail */
#define ORDINARY SIZE_MAX /* no row: an element of ones */

/* The rows that the dtype can hold, with their bits in it. */
typedef struct special_rows {
    size_t count;
    uint32_t (*bits)[MLXN_MAX_ARGUMENTS];
} special_rows;

/* The bits in `dtype` of the very number that f32 bits stand for. A NaN that signals keeps signalling: it
 * becomes the one with the lowest bit alone. */
static bool convert(mlxn_dtype dtype, uint32_t f32, uint32_t *bits) {
    if (tool_is_nan(MLXN_F32, f32)) {
        uint32_t quiet = tool_canonical_nan(dtype);
        bool signals = !(f32 & 0x00400000);
        *bits = signals ? tool_narrow(dtype, (double)INFINITY) | 1 : quiet;
        return true;
    }
    double value = tool_widen(MLXN_F32, f32);
    *bits = tool_narrow(dtype, value);
    return tool_widen(dtype, *bits) == value;
}

static special_rows make_rows(const mlxn_op_info *op, mlxn_dtype dtype) {
    special_rows made = {0, tool_allocate(op->special_count, sizeof *made.bits)};
    for (size_t r = 0; r < op->special_count; r++) {
        bool held = true;
        for (size_t k = 0; k < op->input_count; k++) {
            held = convert(dtype, op->special[r].in[k], &made.bits[made.count][k]) && held;
        }
        for (size_t k = 0; k < op->output_count; k++) {
            held = convert(dtype, op->special[r].out[k], &made.bits[made.count][op->input_count + k]) && held;
        }
        made.count += held ? 1 : 0;
    }
    return made;
}

/* Puts rows[which[i]] at element i of every input, runs, and looks at the outputs of all that are no ordinary
 * elements. */
static void check_placed(tool_session *session, tool_job *job, const special_rows *rows, const size_t *which,
                         check_result *result) {
    const mlxn_op_info *op = job->op;
    const uint32_t one = tool_narrow(job->dtype, 1);
    for (size_t i = 0; i < (size_t)job->batch; i++) {
        for (size_t k = 0; k < op->input_count; k++) {
            tool_set(job->dtype, job->arrays[k], i, which[i] == ORDINARY ? one : rows->bits[which[i]][k]);
        }
    }
    bool intact;
    if (tool_job_run(job, session->encoder, MLXN_OVERWRITE, &intact) != MLXN_OK) {
        check_fail_call(result);
        return;
    }
    if (!intact) {
        check_fail(result, "wrote beyond an output of %lld elements", (long long)job->batch);
    }
    for (size_t i = 0; i < (size_t)job->batch; i++) {
        for (size_t k = op->input_count; which[i] != ORDINARY && k < job->argument_count; k++) {
            uint32_t bits = tool_get(job->dtype, job->arrays[k], i), right = rows->bits[which[i]][k];
            if (bits != right) {
                const int digits = tool_digits(job->dtype);
                check_fail(result,
                           "%s[%zu] of %lld elements, %zu from their memory's start, is 0x%0*x, expected 0x%0*x "
                           "exactly, for %s = 0x%0*x",
                           op->arguments[k].name, i, (long long)job->batch, job->offset, digits, bits, digits, right,
                           op->arguments[0].name, digits, rows->bits[which[i]][0]);
            }
        }
    }
}

static void check_length(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, const special_rows *rows,
                         size_t length, check_result *result) {
    tool_job job;
    const tool_extents extents = {1, {(int64_t)length, 1}, 1, 1};
    if (tool_job_create(session->device, op, dtype, extents, length % 17, &job) != MLXN_OK) {
        check_fail_call(result);
        return;
    }
    size_t *which = tool_allocate(length, sizeof *which);
    for (size_t row = 0; row < rows->count && !result->failed; row++) {
        for (size_t i = 0; i < length; i++) {
            which[i] = (row + i) % rows->count;
        }
        check_placed(session, &job, rows, which, result);
        /* Alone: in the last place of every length, and in every place of the longest. */
        for (size_t place = length == LONGEST ? 0 : length - 1; place < length && !result->failed; place++) {
            for (size_t i = 0; i < length; i++) {
                which[i] = i == place ? row : ORDINARY;
            }
            check_placed(session, &job, rows, which, result);
        }
    }
    free(which);
    tool_job_destroy(&job);
}

void check_special(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result) {
    special_rows rows = make_rows(op, dtype);
    result->skipped = rows.count == 0;
    for (size_t length = 1; length <= LONGEST && rows.count && !result->failed; length++) {
        check_length(session, op, dtype, &rows, length, result);
    }
    snprintf(result->text, sizeof result->text, "%zu rows", rows.count);
    free(rows.bits);
}
