/* The error of results against the op's formula in float64, in units in the last place. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "elements.h"

/* The reference itself is off by a few units of float64, which are 2^-29 of f32's. */
#define REFERENCE_ERROR 1e-6

/* Whether a formula such as "y = a * b", "y[i,j] = lhs[i] * rhs[j]" or "y = sqrt(x)" is one operation of
 * IEEE for each output, and the result therefore correctly rounded. */
static bool rounds_once(const mlxn_op_info *op) {
    const char *at = strchr(op->formula, '=');
    size_t operations = 0;
    bool bracket = false;
    for (at = at ? at : op->formula; *at; at++) {
        bracket = *at == '[' || (bracket && *at != ']');
        bool root = strncmp(at, "sqrt(", 5) == 0;
        if (bracket || *at == ']') {
            continue;
        }
        if (root || (strchr("+-*/", *at) && at[1] == ' ')) {
            operations++;
            at += root ? 4 : 0;
        } else if (*at == '(' || *at == '^' || (isalpha((unsigned char)*at) && strncmp(at, "sum", 3) == 0)) {
            return false;
        }
    }
    return operations == op->output_count;
}

/* Each rounding may be off by half a unit. An elementwise formula of several operations has a few; a sum in the
 * canonical order adds at most 32 terms in a row, and then neighbours, in a handful of levels. */
static double tolerance_of(const mlxn_op_info *op, mlxn_dtype dtype) {
    const double tolerance = check_has_truth(op, dtype) || rounds_once(op) ? 0.5 : op->elementwise ? 4 : 20;
    return tolerance + REFERENCE_ERROR;
}

/* How far `bits` are from `expected`, in units in the last place at `magnitude`, which is the result's own or,
 * of a sum, that of the sum of its terms' absolute values. */
static double error_in_ulp(mlxn_dtype dtype, uint32_t bits, double expected, double magnitude) {
    uint32_t right = tool_narrow(dtype, expected);
    double value = tool_widen(dtype, bits);
    if (isnan(expected) || isnan(value) || isinf(value) || isinf(tool_widen(dtype, right))) {
        return bits == right ? 0 : (double)INFINITY;
    }
    return fabs(value - expected) / tool_ulp(dtype, magnitude);
}

/* The inputs of element `index` of an elementwise op: " for a = 0x3f800000, b = 0x40000000". Returns `text`. */
static char *inputs_text(const tool_job *job, size_t index, char *text, size_t size) {
    *text = '\0';
    for (size_t k = 0; k < job->op->input_count && job->op->elementwise; k++) {
        size_t length = strlen(text);
        snprintf(text + length, size - length, "%s %s = 0x%0*x", k ? "," : " for", job->op->arguments[k].name,
                 tool_digits(job->dtype), tool_get(job->dtype, job->arrays[k], index));
    }
    return text;
}

static void compare(const tool_job *job, double tolerance, double *worst, check_result *result) {
    const mlxn_op_info *op = job->op;
    double *expected[MLXN_MAX_ARGUMENTS], *magnitudes[MLXN_MAX_ARGUMENTS] = {NULL};
    tool_job_reference(job, false, expected);
    if (!op->elementwise) {
        tool_job_reference(job, true, magnitudes);
    }
    for (size_t k = 0; k < op->output_count; k++) {
        size_t argument = op->input_count + k;
        for (size_t i = 0; i < job->counts[argument]; i++) {
            uint32_t bits = tool_get(job->dtype, job->arrays[argument], i);
            double magnitude = magnitudes[k] ? magnitudes[k][i] : expected[k][i];
            double error = error_in_ulp(job->dtype, bits, expected[k][i], magnitude);
            *worst = fmax(*worst, error);
            if (error > tolerance) {
                char inputs[128];
                check_fail(result,
                           "%s[%zu] of %lld x N=%lld x M=%lld is %.9g (0x%0*x), expected %.17g%s: off by %.3f ulp, "
                           "tolerance %.3f",
                           op->arguments[argument].name, i, (long long)job->batch, (long long)job->extents.n,
                           (long long)job->extents.m, tool_widen(job->dtype, bits), tool_digits(job->dtype), bits,
                           expected[k][i], inputs_text(job, i, inputs, sizeof inputs), error, tolerance);
            }
        }
        free(expected[k]);
        free(magnitudes[k]);
    }
}

static void check_extents(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, tool_extents extents,
                          double *worst, check_result *result) {
    tool_job job;
    bool intact;
    if (result->failed) {
        return; /* the first failure is the one that is told; a kernel that does not compile would be tried again */
    }
    if (tool_job_create(session->device, op, dtype, extents, 0, &job) != MLXN_OK) {
        check_fail_call(result);
        return;
    }
    for (size_t k = 0; k < op->input_count; k++) {
        uint64_t seed = (uint64_t)job.batch * 1000003 + (uint64_t)extents.n * 1009 + (uint64_t)extents.m;
        tool_draw_wide(dtype, TOOL_SEED(k) ^ seed << 8, job.arrays[k], job.counts[k]);
    }
    if (tool_job_run(&job, session->encoder, MLXN_OVERWRITE, &intact) != MLXN_OK) {
        check_fail_call(result);
    } else {
        compare(&job, tolerance_of(op, dtype), worst, result);
        if (!intact) {
            check_fail(result, "wrote beyond an output of %lld x N=%lld x M=%lld", (long long)job.batch,
                       (long long)extents.n, (long long)extents.m);
        }
    }
    tool_job_destroy(&job);
}

void check_oracle(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result) {
    /* Every small shape, then those that cross the edges of vectors, segments of 1024 and leaves of 32. */
    static const int64_t larger[][3] = {{1, 33, 1025}, {1, 70, 2100}, {2, 5, 3000},  {3, 1000, 5},
                                        {1, 1, 5000},  {1, 5000, 1},  {1, 257, 300}, {2, 64, 1024}};
    double worst = 0;
    if (op->elementwise) {
        for (int64_t count = 1; count <= 67; count++) {
            check_extents(session, op, dtype, (tool_extents){1, {count, 1}, 1, 1}, &worst, result);
        }
        check_extents(session, op, dtype, (tool_extents){2, {257, 307}, 1, 1}, &worst, result);
        check_extents(session, op, dtype, (tool_extents){0, {1, 1}, 1, 1}, &worst, result);
    } else {
        for (int64_t n = 1; n <= 9; n++) {
            for (int64_t m = 1; m <= 9; m++) {
                check_extents(session, op, dtype, (tool_extents){0, {1, 1}, n, m}, &worst, result);
            }
        }
        for (size_t i = 0; i < sizeof larger / sizeof *larger; i++) {
            const int64_t *e = larger[i];
            check_extents(session, op, dtype, (tool_extents){1, {e[0], 1}, e[1], e[2]}, &worst, result);
        }
    }
    snprintf(result->text, sizeof result->text, "%.3f ulp", worst);
}
