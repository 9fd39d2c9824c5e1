/* mlxn check: the report. */
#include "check.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report_file.h"
#include "text.h"
#include "verbs.h"

static const struct {
    const char *title;
    int width;
    bool quick; /* done with --quick too */
    check_function run;
} checks[] = {
    {"oracle", 10, false, check_oracle},  {"gradient", 9, false, check_gradient},
    {"special", 9, false, check_special}, {"accumulate", 11, true, check_accumulate},
    {"digest", 32, true, check_digest},   {"shapes", 32, true, check_shapes},
};
enum { CHECK_COUNT = sizeof checks / sizeof *checks };

static const mlxn_dtype dtypes[] = {MLXN_F32, MLXN_F16, MLXN_BF16};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

typedef struct check_totals {
    size_t passed, failed;
    json_t *rows; /* for --json: an object for each op and dtype */
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

static const char *outcome(const check_result *result) {
    return result->skipped ? "-" : result->failed ? "FAILED" : result->text;
}

/* The row of an op and dtype, which is made when it is first asked for. */
static json_t *json_row(check_totals *totals, const mlxn_op_info *op, mlxn_dtype dtype) {
    for (size_t i = 0; i < json_array_size(totals->rows); i++) {
        json_t *row = json_array_get(totals->rows, i);
        if (strcmp(json_string_value(json_object_get(row, "op")), op->name) == 0 &&
            strcmp(json_string_value(json_object_get(row, "dtype")), mlxn_dtype_name(dtype)) == 0) {
            return row;
        }
    }
    json_array_append_new(totals->rows, json_pack("{s:s, s:s}", "op", op->name, "dtype", mlxn_dtype_name(dtype)));
    return json_array_get(totals->rows, json_array_size(totals->rows) - 1);
}

static bool write_json(const tool_session *session, const check_totals *totals, const char *path) {
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:O}", "mlxn", mlxn_version(), "device", session->info.name,
                  "description", session->info.description, "detail", session->info.detail, "passed",
                  (json_int_t)totals->passed, "failed", (json_int_t)totals->failed, "results", totals->rows);
    const bool good = tool_write_json(root, path);
    json_decref(root);
    return good;
}

static void print_failure(const char *title, const check_result *result, const mlxn_op_info *op, mlxn_dtype dtype,
                          const tool_arguments *arguments, const tool_session *session, const char *extra) {
    printf("  FAILED %s: %s\n  repeat: mlxn check %s --dtype %s --device %s", title, result->reason, op->name,
           mlxn_dtype_name(dtype), session->info.name);
    if (arguments->threads) {
        printf(" --threads %zu", arguments->threads);
    }
    printf("%s%s\n", tool_given(arguments, TOOL_OPTION_QUICK) ? " --quick" : "", extra);
}

static void check_op(const tool_arguments *arguments, tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype,
                     check_totals *totals) {
    check_result results[CHECK_COUNT] = {0};
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        if (tool_given(arguments, TOOL_OPTION_QUICK) && !checks[i].quick) {
            results[i].skipped = true;
            continue;
        }
        tool_progress("%s %s: %s", op->name, mlxn_dtype_name(dtype), checks[i].title);
        checks[i].run(session, op, dtype, &results[i]);
        count_result(&results[i], totals);
    }
    tool_progress_end();
    json_t *row = json_row(totals, op, dtype);
    printf("%-27s %-5s", op->name, mlxn_dtype_name(dtype));
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        printf(" %-*s", i + 1 < CHECK_COUNT ? checks[i].width : 0, outcome(&results[i]));
        json_object_set_new(row, checks[i].title, json_string(outcome(&results[i])));
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
    json_object_set_new(json_row(totals, op, dtype), "every_input", json_string(outcome(&result)));
    printf("%-27s %-5s every input: %s  (%.1f s)\n", op->name, mlxn_dtype_name(dtype), outcome(&result),
           tool_seconds() - start);
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
    check_totals totals = {0, 0, json_array()};
    for_each(arguments, &session, ops, count, check_op, &totals);
    if (tool_given(arguments, TOOL_OPTION_EXHAUSTIVE)) {
        for_each(arguments, &session, ops, count, check_op_exhaustively, &totals);
    }
    printf("%zu passed, %zu failed\n", totals.passed, totals.failed);
    const bool written = !arguments->json || write_json(&session, &totals, arguments->json);
    json_decref(totals.rows);
    tool_close(&session);
    return totals.failed || !written ? TOOL_FAILURE : TOOL_SUCCESS;
}

tool_exit tool_check(const tool_arguments *arguments) {
    const mlxn_op_info **ops = tool_allocate(mlxn_op_count(), sizeof *ops);
    size_t count;
    tool_exit code = TOOL_USAGE;
    if (tool_select_ops(arguments, ops, &count)) {
        code = tool_can_write(arguments->json) ? check_ops(arguments, ops, count) : TOOL_FAILURE;
    }
    free(ops);
    return code;
}
