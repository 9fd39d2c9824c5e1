/* The command line, taken apart. Parsing has no side effect and allocates nothing: it fills a struct or
 * explains in one line what is wrong, so that it can be fuzzed. */
#ifndef MLXN_TOOL_ARGS_H
#define MLXN_TOOL_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <mlxn/mlxn.h>

/* Exit codes of the program. */
typedef enum tool_exit { TOOL_SUCCESS = 0, TOOL_FAILURE = 1, TOOL_USAGE = 2 } tool_exit;

#define TOOL_MAX_OPERANDS 64
#define TOOL_MAX_SIZES 16

/* Options, as bits of the set that a verb accepts. --help is accepted everywhere. */
typedef enum tool_option {
    TOOL_OPTION_OUTPUT = 1 << 0,
    TOOL_OPTION_DEVICE = 1 << 1,
    TOOL_OPTION_THREADS = 1 << 2,
    TOOL_OPTION_DTYPE = 1 << 3,
    TOOL_OPTION_ACCUMULATE = 1 << 4,
    TOOL_OPTION_EXHAUSTIVE = 1 << 5,
    TOOL_OPTION_SIZE = 1 << 6,
    TOOL_OPTION_SHAPE = 1 << 7,
    TOOL_OPTION_REPS = 1 << 8,
    TOOL_OPTION_OVERHEAD = 1 << 9,
    TOOL_OPTION_JSON = 1 << 10,
    TOOL_OPTION_PLOT = 1 << 11,
    TOOL_OPTION_HELP = 1 << 12,
    TOOL_OPTION_VERSION = 1 << 13,
    TOOL_OPTION_QUICK = 1 << 14,
} tool_option;

typedef struct tool_verb tool_verb;

/* Texts point into argv. What was not given is NULL, 0 or false. */
typedef struct tool_arguments {
    const tool_verb *verb; /* NULL for a bare --help or --version */
    unsigned given;        /* the set of options that came */
    const char *operands[TOOL_MAX_OPERANDS];
    size_t operand_count;
    const char *outputs[TOOL_MAX_OPERANDS];
    size_t output_count;
    const char *device;
    size_t threads;
    mlxn_dtype dtype;
    size_t sizes[TOOL_MAX_SIZES]; /* bytes, each at least 1 */
    size_t size_count;
    int64_t n, m; /* --shape */
    size_t reps;
    const char *json;
    const char *plot;
} tool_arguments;

struct tool_verb {
    const char *name;
    const char *operands; /* as the usage line shows them */
    const char *summary;  /* one line */
    const char *details;  /* the rest of its help */
    unsigned options;     /* the set it accepts */
    bool takes_operands;
    tool_exit (*run)(const tool_arguments *arguments);
};

/* Takes argv[1 … argc) apart. On failure returns TOOL_USAGE with one line of text in `message`. */
tool_exit tool_parse(const tool_verb *verbs, size_t verb_count, int argc, char *const *argv, tool_arguments *arguments,
                     char *message, size_t message_size);

/* The verb called `name`, or NULL. */
const tool_verb *tool_find_verb(const tool_verb *verbs, size_t verb_count, const char *name);

/* Writes what the options that a verb accepts mean, one a line. */
void tool_print_options(FILE *out, unsigned accepted);

static inline bool tool_given(const tool_arguments *arguments, tool_option option) {
    return (arguments->given & (unsigned)option) != 0;
}

#endif
