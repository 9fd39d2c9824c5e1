/* mlxn run */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "job.h"
#include "text.h"
#include "verbs.h"

/* One op on files, from the command line to its results. */
typedef struct file_run {
    const tool_arguments *arguments;
    const mlxn_op_info *op;
    tool_session session;
    mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
    tool_output outputs[MLXN_MAX_ARGUMENTS];
} file_run;

/* The names of the op's arguments from `begin` on: "lhs, rhs". Returns `text`. */
static char *list_names(const mlxn_op_info *op, size_t begin, size_t end, char *text, size_t size) {
    *text = '\0';
    for (size_t k = begin; k < end; k++) {
        size_t length = strlen(text);
        snprintf(text + length, size - length, "%s%s", k > begin ? ", " : "", op->arguments[k].name);
    }
    return text;
}

/* "op: argument", for messages about one argument. Returns `text`. */
static char *describe(const file_run *run, size_t k, char *text, size_t size) {
    snprintf(text, size, "%s: %s", run->op->name, run->op->arguments[k].name);
    return text;
}

static bool check_usage(const file_run *run) {
    const mlxn_op_info *op = run->op;
    const size_t inputs = run->arguments->operand_count - 1, outputs = run->arguments->output_count;
    char names[128];
    if (inputs != op->input_count) {
        tool_error("%s takes %zu input%s (%s), got %zu", op->name, op->input_count, op->input_count == 1 ? "" : "s",
                   list_names(op, 0, op->input_count, names, sizeof names), inputs);
        return false;
    }
    if (outputs != op->output_count) {
        tool_error("%s gives %zu output%s (%s), got %zu after -o", op->name, op->output_count,
                   op->output_count == 1 ? "" : "s",
                   list_names(op, op->input_count, op->input_count + op->output_count, names, sizeof names), outputs);
        return false;
    }
    if (tool_given(run->arguments, TOOL_OPTION_ACCUMULATE) && !op->accumulates) {
        tool_error("%s does not accumulate", op->name);
        return false;
    }
    return true;
}

static bool parse_outputs(file_run *run) {
    for (size_t k = 0; k < run->op->output_count; k++) {
        const char *name = run->op->arguments[run->op->input_count + k].name;
        if (!tool_parse_output(run->op->name, run->arguments->outputs[k], name, &run->outputs[k])) {
            return false;
        }
    }
    return true;
}

/* The file as a buffer of the dtype asked for; a buffer of its own if it is to be written. */
static mlxn_buffer *load(const file_run *run, size_t k, const char *reference, bool writable) {
    char what[128];
    describe(run, k, what, sizeof what);
    mlxn_buffer *loaded = tool_load(run->session.device, reference, what);
    if (!loaded) {
        return NULL;
    }
    mlxn_dtype dtype = mlxn_buffer_dtype(loaded);
    bool convert = tool_given(run->arguments, TOOL_OPTION_DTYPE) && dtype != run->arguments->dtype;
    if (!convert && !writable) {
        return loaded;
    }
    mlxn_buffer *copy = tool_convert(run->session.device, loaded, convert ? run->arguments->dtype : dtype, what);
    mlxn_buffer_destroy(loaded);
    return copy;
}

/* Says what the library found wrong, and which file each argument came from. */
static void report(const file_run *run) {
    char files[512] = "";
    for (size_t k = 0; k < run->op->input_count; k++) {
        size_t length = strlen(files);
        snprintf(files + length, sizeof files - length, "%s%s = %s", k ? ", " : "", run->op->arguments[k].name,
                 run->arguments->operands[k + 1]);
    }
    tool_error("%s (%s)", mlxn_last_error(), files);
}

static bool create_output(file_run *run, size_t k) {
    const mlxn_op_info *op = run->op;
    const size_t argument = op->input_count + k;
    if (tool_given(run->arguments, TOOL_OPTION_ACCUMULATE)) {
        run->buffers[argument] = load(run, argument, run->arguments->outputs[k], true);
        return run->buffers[argument] != NULL;
    }
    size_t rank;
    int64_t shape[MLXN_MAX_RANK];
    if (mlxn_op_output_shape(op->name, (const mlxn_buffer *const *)run->buffers, op->input_count, k, &rank, shape) !=
            MLXN_OK ||
        mlxn_buffer_create(run->session.device, mlxn_buffer_dtype(run->buffers[0]), rank, shape,
                           &run->buffers[argument]) != MLXN_OK) {
        report(run);
        return false;
    }
    return true;
}

static bool prepare(file_run *run) {
    for (size_t k = 0; k < run->op->input_count; k++) {
        run->buffers[k] = load(run, k, run->arguments->operands[k + 1], false);
        if (!run->buffers[k]) {
            return false;
        }
    }
    for (size_t k = 0; k < run->op->output_count; k++) {
        if (!create_output(run, k)) {
            return false;
        }
        run->outputs[k].buffer = run->buffers[run->op->input_count + k];
    }
    return true;
}

static bool execute(const file_run *run) {
    const mlxn_mode mode = tool_given(run->arguments, TOOL_OPTION_ACCUMULATE) ? MLXN_ACCUMULATE : MLXN_OVERWRITE;
    tool_progress("%s", run->op->name);
    if (mlxn_encode(run->session.encoder, run->op->name, run->buffers, run->op->input_count + run->op->output_count,
                    mode) != MLXN_OK ||
        mlxn_encoder_commit_and_wait(run->session.encoder) != MLXN_OK) {
        report(run);
        return false;
    }
    return true;
}

static tool_exit run_on_device(file_run *run) {
    if (!tool_open(run->arguments, &run->session)) {
        return TOOL_FAILURE;
    }
    bool good = prepare(run) && execute(run) &&
                tool_save(run->session.device, run->op->name, run->outputs, run->op->output_count);
    for (size_t k = 0; k < MLXN_MAX_ARGUMENTS; k++) {
        mlxn_buffer_destroy(run->buffers[k]);
    }
    tool_close(&run->session);
    return good ? TOOL_SUCCESS : TOOL_FAILURE;
}

tool_exit tool_run(const tool_arguments *arguments) {
    if (arguments->operand_count == 0) {
        tool_error("run: no op given (see mlxn run --help)");
        return TOOL_USAGE;
    }
    file_run run = {.arguments = arguments, .op = mlxn_op_find(arguments->operands[0])};
    if (!run.op) {
        tool_error("unknown op '%s' (see mlxn ops)", arguments->operands[0]);
        return TOOL_USAGE;
    }
    tool_exit code = check_usage(&run) && parse_outputs(&run) ? run_on_device(&run) : TOOL_USAGE;
    for (size_t k = 0; k < MLXN_MAX_ARGUMENTS; k++) {
        free(run.outputs[k].path);
    }
    return code;
}
