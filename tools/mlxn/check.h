/* mlxn check: what each check gets and gives. A check is one function in the table of check.c. */
#ifndef MLXN_TOOL_CHECK_H
#define MLXN_TOOL_CHECK_H

#include "job.h"

/* What a check says of an op in a dtype. */
typedef struct check_result {
    bool skipped; /* it says nothing of such an op */
    bool failed;
    char text[40];    /* its column in the report */
    char reason[512]; /* of a failure: input, index, both values, tolerance */
} check_result;

typedef void (*check_function)(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result);

void check_oracle(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result);
void check_gradient(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result);
void check_special(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result);
void check_accumulate(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result);
void check_digest(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result);
void check_shapes(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result);

/* Every input there is. Skipped where no truth ships for the op. */
void check_every_input(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result);

/* Whether the digests of all right results of the op in the dtype ship with the program. */
bool check_has_truth(const mlxn_op_info *op, mlxn_dtype dtype);

/* Marks the result as failed, for the first reason that comes. */
__attribute__((format(printf, 2, 3))) void check_fail(check_result *result, const char *format, ...);

/* Marks the result as failed by a library call. */
void check_fail_call(check_result *result);

#endif
