/* A gradient against central differences of the device's own forward, in f32.
 *
 * The scalar L = sum of dy * forward(inputs), with dy drawn at random, is differentiated by every element of
 * every input; the difference of L is divided by the difference of the inputs as they were rounded. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "elements.h"

#define STEP 0x1p-8
#define TOLERANCE 1e-2 /* of max(1, |difference|) */

typedef struct gradient_check {
    tool_job forward, gradient;
    size_t upstream; /* the gradient's argument that holds dy */
    double worst;
} gradient_check;

static float as_float(const void *array, size_t index) {
    return (float)tool_widen(MLXN_F32, tool_get(MLXN_F32, array, index));
}

static bool run(tool_session *session, tool_job *job, check_result *result) {
    bool intact;
    if (tool_job_run(job, session->encoder, MLXN_OVERWRITE, &intact) != MLXN_OK) {
        check_fail_call(result);
        return false;
    }
    return true;
}

/* Fills the gradient's inputs by their names: dy at random, the others from the forward's arguments. */
static bool connect(gradient_check *check, check_result *result) {
    const mlxn_op_info *forward = check->forward.op, *gradient = check->gradient.op;
    const char *y = forward->arguments[forward->input_count].name;
    for (size_t k = 0; k < gradient->input_count; k++) {
        const char *name = gradient->arguments[k].name;
        int source = tool_find_argument(forward, "", name, 0, check->forward.argument_count);
        if (source >= 0) {
            memcpy(check->gradient.arrays[k], check->forward.arrays[source], check->gradient.counts[k] * sizeof(float));
        } else if (tool_find_argument(gradient, "d", y, k, k + 1) >= 0) {
            check->upstream = k;
            tool_draw_wide(MLXN_F32, TOOL_SEED(k), check->gradient.arrays[k], check->gradient.counts[k]);
        } else {
            check_fail(result, "input %s is no argument of %s", name, forward->name);
            return false;
        }
    }
    return true;
}

/* The difference quotient of L by element `index` of the forward's input `input`. */
static bool difference(tool_session *session, gradient_check *check, size_t input, size_t index, double *quotient,
                       check_result *result) {
    tool_job *forward = &check->forward;
    const size_t y = forward->op->input_count, count = forward->counts[y];
    const float x = as_float(forward->arrays[input], index);
    double *sums = tool_allocate(count, sizeof *sums), total = 0;
    float points[2] = {(float)(x - STEP), (float)(x + STEP)};
    bool good = true;
    for (int side = 0; side < 2 && good; side++) {
        tool_set(MLXN_F32, forward->arrays[input], index, tool_narrow(MLXN_F32, points[side]));
        good = run(session, forward, result);
        for (size_t i = 0; i < count && good; i++) {
            sums[i] += (side ? 1 : -1) * (double)as_float(forward->arrays[y], i);
        }
    }
    for (size_t i = 0; i < count; i++) {
        total += (double)as_float(check->gradient.arrays[check->upstream], i) * sums[i];
    }
    tool_set(MLXN_F32, forward->arrays[input], index, tool_narrow(MLXN_F32, x));
    free(sums);
    *quotient = total / ((double)points[1] - (double)points[0]);
    return good;
}

static void compare(tool_session *session, gradient_check *check, check_result *result) {
    const mlxn_op_info *forward = check->forward.op, *gradient = check->gradient.op;
    for (size_t k = gradient->input_count; k < check->gradient.argument_count; k++) {
        const char *name = gradient->arguments[k].name;
        int input = *name == 'd' ? tool_find_argument(forward, "", name + 1, 0, forward->input_count) : -1;
        if (input < 0) {
            check_fail(result, "output %s is the gradient of no input of %s", name, forward->name);
            return;
        }
        for (size_t i = 0; i < check->gradient.counts[k]; i++) {
            double expected;
            if (!difference(session, check, (size_t)input, i, &expected, result)) {
                return;
            }
            double value = (double)as_float(check->gradient.arrays[k], i);
            double error = fabs(value - expected) / fmax(1, fabs(expected));
            check->worst = fmax(check->worst, error);
            if (!(error <= TOLERANCE)) {
                check_fail(result, "%s[%zu] is %.9g, by differences %.9g, tolerance %g of max(1, |difference|)", name,
                           i, value, expected, TOLERANCE);
            }
        }
    }
}

void check_gradient(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result) {
    const mlxn_op_info *forward = op->forward ? mlxn_op_find(op->forward) : NULL;
    if (!forward || dtype != MLXN_F32) {
        result->skipped = true;
        return;
    }
    const tool_extents extents = op->elementwise ? (tool_extents){1, {19, 1}, 1, 1} : (tool_extents){1, {2, 1}, 6, 4};
    gradient_check check = {.worst = 0};
    if (tool_job_create(session->device, forward, dtype, extents, 0, &check.forward) != MLXN_OK ||
        tool_job_create(session->device, op, dtype, extents, 0, &check.gradient) != MLXN_OK) {
        check_fail_call(result);
    } else {
        for (size_t k = 0; k < forward->input_count; k++) {
            tool_draw_near_one(dtype, TOOL_SEED(k), check.forward.arrays[k], check.forward.counts[k]);
        }
        if (run(session, &check.forward, result) && connect(&check, result) && run(session, &check.gradient, result)) {
            compare(session, &check, result);
        }
        snprintf(result->text, sizeof result->text, "%.1e", check.worst);
    }
    tool_job_destroy(&check.forward);
    tool_job_destroy(&check.gradient);
}
