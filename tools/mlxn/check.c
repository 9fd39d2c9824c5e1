/* mlxn check: the report. */
#include "check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "verbs.h"

static const struct {
    const char *title;
    int width;
    check_function run;
} checks[] = {
    {"oracle", 10, check_oracle},         {"gradient", 9, check_gradient}, {"special", 9, check_special},
    {"accumulate", 11, check_accumulate}, {"digest", 32, check_digest},
};
enum { CHECK_COUNT = sizeof checks / sizeof *checks };

static const mlxn_dtype dtypes[] = {MLXN_F32, MLXN_F16, MLXN_BF16};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

typedef struct check_totals {
    size_t passed, failed;
} check_totals;

void check_fail(check_result *result, const char *format, ...) {
    if (!result->failed) {
        va_list list;
        va_start(list, format);
        vsnprintf(result->reason, sizeof result->reason, format, list);
        va_end(list);
    }
    result->failed = true;
}

void check_fail_call(check_result *result) {
    check_fail(result, "%s", mlxn_last_error());
}

static void count_result(const check_result *result, check_totals *totals) {
    if (!result->skipped) {
        *(result->failed ? &totals->failed : &totals->passed) += 1;
    }
}

static void print_failure(const char *title, const check_result *result, const mlxn_op_info *op, mlxn_dtype dtype,
                          const tool_arguments *arguments, const tool_session *session, const char *extra) {
    printf("  FAILED %s: %s\n  repeat: mlxn check %s --dtype %s --device %s", title, result->reason, op->name,
           mlxn_dtype_name(dtype), session->info.name);
    if (arguments->threads) {
        printf(" --threads %zu", arguments->threads);
    }
    printf("%s\n", extra);
}

static void check_op(const tool_arguments *arguments, tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype,
                     check_totals *totals) {
    check_result results[CHECK_COUNT] = {0};
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        tool_progress("%s %s: %s", op->name, mlxn_dtype_name(dtype), checks[i].title);
        checks[i].run(session, op, dtype, &results[i]);
        count_result(&results[i], totals);
    }
    tool_progress_end();
    printf("%-27s %-5s", op->name, mlxn_dtype_name(dtype));
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        const char *text = results[i].skipped ? "-" : results[i].failed ? "FAILED" : results[i].text;
        printf(" %-*s", i + 1 < CHECK_COUNT ? checks[i].width : 0, text);
    }
    putchar('\n');
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        if (results[i].failed) {
            print_failure(checks[i].title, &results[i], op, dtype, arguments, session, "");
        }
    }
    fflush(stdout);
}

static void check_op_exhaustively(const tool_arguments *arguments, tool_session *session, const mlxn_op_info *op,
                                  mlxn_dtype dtype, check_totals *totals) {
    check_result result = {0};
    double start = tool_seconds();
    check_every_input(session, op, dtype, &result);
    tool_progress_end();
    if (result.skipped) {
        return;
    }
    count_result(&result, totals);
    printf("%-27s %-5s every input: %s  (%.1f s)\n", op->name, mlxn_dtype_name(dtype),
           result.failed ? "FAILED" : result.text, tool_seconds() - start);
    if (result.failed) {
        print_failure("every input", &result, op, dtype, arguments, session, " --exhaustive");
    }
    fflush(stdout);
}

typedef void (*op_step)(const tool_arguments *, tool_session *, const mlxn_op_info *, mlxn_dtype, check_totals *);

static void for_each(const tool_arguments *arguments, tool_session *session, const mlxn_op_info *const *ops,
                     size_t count, op_step step, check_totals *totals) {
    for (size_t i = 0; i < count; i++) {
        for (size_t d = 0; d < DTYPE_COUNT; d++) {
            if (!tool_given(arguments, TOOL_OPTION_DTYPE) || arguments->dtype == dtypes[d]) {
                step(arguments, session, ops[i], dtypes[d], totals);
            }
        }
    }
}

static tool_exit check_ops(const tool_arguments *arguments, const mlxn_op_info *const *ops, size_t count) {
    tool_session session;
    if (!tool_open(arguments, &session)) {
        return TOOL_FAILURE;
    }
    printf("mlxn %s on %s: %s (%s)\n%-27s %-5s", mlxn_version(), session.info.name, session.info.description,
           session.info.detail, "op", "dtype");
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        printf(" %-*s", i + 1 < CHECK_COUNT ? checks[i].width : 0, checks[i].title);
    }
    putchar('\n');
    check_totals totals = {0, 0};
    for_each(arguments, &session, ops, count, check_op, &totals);
    if (tool_given(arguments, TOOL_OPTION_EXHAUSTIVE)) {
        for_each(arguments, &session, ops, count, check_op_exhaustively, &totals);
    }
    printf("%zu passed, %zu failed\n", totals.passed, totals.failed);
    tool_close(&session);
    return totals.failed ? TOOL_FAILURE : TOOL_SUCCESS;
}

tool_exit tool_check(const tool_arguments *arguments) {
    const mlxn_op_info **ops = tool_allocate(mlxn_op_count(), sizeof *ops);
    size_t count;
    tool_exit code = TOOL_USAGE;
    if (tool_select_ops(arguments, ops, &count)) {
        code = check_ops(arguments, ops, count);
    }
    free(ops);
    return code;
}
