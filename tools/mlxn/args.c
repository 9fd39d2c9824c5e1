#include "args.h"

#include <stdarg.h>
#include <string.h>

#define MAX_THREADS 4096
#define MAX_REPS 100000

typedef struct option_row {
    const char *name;
    char letter;
    tool_option option;
    const char *value; /* what the help calls the value; NULL if the option takes none */
    const char *help;
    const char *expected; /* what a bad value is told */
} option_row;

static const option_row options[] = {
    {"--output", 'o', TOOL_OPTION_OUTPUT, "FILE...", "where the outputs go; every file from here on is one", NULL},
    {"--device", 'd', TOOL_OPTION_DEVICE, "NAME",
     "run on this device (default: $MLXN_DEVICE or the best; see mlxn devices)", NULL},
    {"--threads", 't', TOOL_OPTION_THREADS, "N", "CPU threads (default: as many as this process may use)",
     "a whole number from 1 to 4096"},
    {"--dtype", 0, TOOL_OPTION_DTYPE, "T", "f32, f16 or bf16", "f32, f16 or bf16"},
    {"--accumulate", 0, TOOL_OPTION_ACCUMULATE, NULL, "add the gradient to what the output files hold", NULL},
    {"--exhaustive", 0, TOOL_OPTION_EXHAUSTIVE, NULL, "also all 2^32 inputs of every elementary function", NULL},
    {"--quick", 0, TOOL_OPTION_QUICK, NULL, "only the checks that compare bits, on small arrays", NULL},
    {"--size", 0, TOOL_OPTION_SIZE, "BYTES,...", "bytes each job moves; K, M and G are powers of 1024",
     "bytes such as 64K,256M, at most 2^50"},
    {"--shape", 0, TOOL_OPTION_SHAPE, "NxM", "the extents N and M (elementwise ops take N*M elements)",
     "NxM such as 8192x256, at most 2^50 elements"},
    {"--reps", 0, TOOL_OPTION_REPS, "N", "timings of which the median is reported (default 9)",
     "a whole number from 1 to 100000"},
    {"--overhead", 0, TOOL_OPTION_OVERHEAD, NULL, "time small work instead: one op and its wait, a replay of 1000",
     NULL},
    {"--json", 0, TOOL_OPTION_JSON, "FILE", "write the results as JSON", NULL},
    {"--plot", 0, TOOL_OPTION_PLOT, "FILE.svg", "draw the results with gnuplot", NULL},
    {"--help", 'h', TOOL_OPTION_HELP, NULL, "show this help", NULL},
    {"--version", 'V', TOOL_OPTION_VERSION, NULL, "show the version", NULL},
};
enum { OPTION_COUNT = sizeof options / sizeof *options };

/* Where parsing stands. */
typedef struct parser {
    tool_arguments *arguments;
    const tool_verb *verbs;
    size_t verb_count;
    char *message;
    size_t message_size;
} parser;

__attribute__((format(printf, 2, 3))) static bool fail(const parser *p, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int written = vsnprintf(p->message, p->message_size, format, list);
    va_end(list);
    const char *verb = p->arguments->verb ? p->arguments->verb->name : NULL;
    if (written >= 0 && (size_t)written < p->message_size) {
        snprintf(p->message + written, p->message_size - (size_t)written, " (see mlxn %s%s--help)", verb ? verb : "",
                 verb ? " " : "");
    }
    return false;
}

/* A whole decimal number in [1, limit] at the front of `text`; *end is what follows it. */
static bool parse_number(const char *text, uint64_t limit, uint64_t *number, const char **end) {
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (limit - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *number = value;
    *end = at;
    return at != text && value > 0;
}

static bool parse_count(const char *text, size_t limit, size_t *count) {
    uint64_t number;
    const char *end;
    if (!parse_number(text, limit, &number, &end) || *end) {
        return false;
    }
    *count = (size_t)number;
    return true;
}

static bool parse_sizes(const char *text, tool_arguments *arguments) {
    arguments->size_count = 0;
    for (;;) {
        uint64_t number;
        const char *end;
        if (arguments->size_count == TOOL_MAX_SIZES || !parse_number(text, (uint64_t)1 << 50, &number, &end)) {
            return false;
        }
        unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
        end += shift ? 1 : 0;
        if (number > ((uint64_t)1 << 50) >> shift) {
            return false;
        }
        arguments->sizes[arguments->size_count++] = (size_t)(number << shift);
        if (!*end) {
            return true;
        }
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
}

static bool parse_shape(const char *text, tool_arguments *arguments) {
    uint64_t n, m;
    const char *end;
    if (!parse_number(text, (uint64_t)1 << 40, &n, &end) || *end != 'x' ||
        !parse_number(end + 1, (uint64_t)1 << 40, &m, &end) || *end || m > ((uint64_t)1 << 50) / n) {
        return false;
    }
    arguments->n = (int64_t)n;
    arguments->m = (int64_t)m;
    return true;
}

static bool parse_dtype(const char *text, tool_arguments *arguments) {
    return mlxn_dtype_from_name(text, &arguments->dtype) == MLXN_OK &&
           (arguments->dtype == MLXN_F32 || arguments->dtype == MLXN_F16 || arguments->dtype == MLXN_BF16);
}

static bool add_operand(const parser *p, const char *text) {
    tool_arguments *arguments = p->arguments;
    if (!arguments->verb->takes_operands) {
        return fail(p, "%s takes no argument '%s'", arguments->verb->name, text);
    }
    bool output = tool_given(arguments, TOOL_OPTION_OUTPUT);
    size_t *count = output ? &arguments->output_count : &arguments->operand_count;
    if (*count == TOOL_MAX_OPERANDS) {
        return fail(p, "too many arguments, at '%s'", text);
    }
    (output ? arguments->outputs : arguments->operands)[(*count)++] = text;
    return true;
}

static bool apply(const parser *p, const option_row *row, const char *value) {
    tool_arguments *arguments = p->arguments;
    bool good = true;
    switch (row->option) {
    case TOOL_OPTION_DEVICE:
        arguments->device = value;
        break;
    case TOOL_OPTION_JSON:
        arguments->json = value;
        break;
    case TOOL_OPTION_PLOT:
        arguments->plot = value;
        break;
    case TOOL_OPTION_THREADS:
        good = parse_count(value, MAX_THREADS, &arguments->threads);
        break;
    case TOOL_OPTION_REPS:
        good = parse_count(value, MAX_REPS, &arguments->reps);
        break;
    case TOOL_OPTION_DTYPE:
        good = parse_dtype(value, arguments);
        break;
    case TOOL_OPTION_SIZE:
        good = parse_sizes(value, arguments);
        break;
    case TOOL_OPTION_SHAPE:
        good = parse_shape(value, arguments);
        break;
    default: /* the others are flags, or take their values as operands */
        break;
    }
    return good ? true : fail(p, "%s: bad value '%s', expected %s", row->name, value, row->expected);
}

/* The option that `text` names, and where its value begins if it came as --name=value or -nvalue. */
static const option_row *match(const char *text, const char **value) {
    *value = NULL;
    for (const option_row *row = options; row < options + OPTION_COUNT; row++) {
        size_t length = strlen(row->name);
        if (strncmp(text, row->name, length) == 0 && (!text[length] || text[length] == '=')) {
            *value = text[length] ? text + length + 1 : NULL;
            return row;
        }
        if (row->letter && text[1] == row->letter) {
            *value = text[2] ? text + 2 : NULL;
            return row;
        }
    }
    return NULL;
}

/* Takes the option at argv[*index], with its value if it has one, and moves *index to the last word taken. */
static bool take_option(const parser *p, int argc, char *const *argv, int *index) {
    tool_arguments *arguments = p->arguments;
    const char *text = argv[*index], *value;
    const option_row *row = match(text, &value);
    if (!row) {
        return fail(p, "unknown option '%s'", text);
    }
    unsigned always = TOOL_OPTION_HELP | (arguments->verb ? 0u : TOOL_OPTION_VERSION);
    unsigned accepted = always | (arguments->verb ? arguments->verb->options : 0u);
    if (!(accepted & (unsigned)row->option)) {
        return arguments->verb ? fail(p, "%s does not take %s", arguments->verb->name, row->name)
                               : fail(p, "%s must follow the verb", row->name);
    }
    if (!row->value && value) {
        return fail(p, "%s takes no value", row->name);
    }
    if (row->value && (!value || !*value)) {
        /* No value is itself an option: `--json --plot` is a forgotten value, not a file called --plot. */
        if (value || *index + 1 >= argc || argv[*index + 1][0] == '-' || !argv[*index + 1][0]) {
            const char *next = value || *index + 1 >= argc ? "" : argv[*index + 1];
            return *next ? fail(p, "%s needs a value, not '%s'", row->name, next)
                         : fail(p, "%s needs a value", row->name);
        }
        value = argv[++*index];
    }
    arguments->given |= (unsigned)row->option;
    return row->option == TOOL_OPTION_OUTPUT ? add_operand(p, value) : apply(p, row, value);
}

static bool take_verb(const parser *p, const char *text) {
    p->arguments->verb = tool_find_verb(p->verbs, p->verb_count, text);
    return p->arguments->verb ? true : fail(p, "unknown verb '%s'", text);
}

tool_exit tool_parse(const tool_verb *verbs, size_t verb_count, int argc, char *const *argv, tool_arguments *arguments,
                     char *message, size_t message_size) {
    memset(arguments, 0, sizeof *arguments);
    parser p = {.arguments = arguments, .verbs = verbs, .verb_count = verb_count, .message_size = message_size};
    p.message = message;
    bool options_over = false;
    for (int i = 1; i < argc; i++) {
        bool good;
        if (!options_over && strcmp(argv[i], "--") == 0) {
            options_over = true;
            continue;
        }
        if (!options_over && argv[i][0] == '-' && argv[i][1]) {
            good = take_option(&p, argc, argv, &i);
        } else if (!arguments->verb) {
            good = take_verb(&p, argv[i]);
        } else {
            good = add_operand(&p, argv[i]);
        }
        if (!good) {
            return TOOL_USAGE;
        }
    }
    if (!arguments->verb && !arguments->given) {
        fail(&p, "no verb given");
        return TOOL_USAGE;
    }
    return TOOL_SUCCESS;
}

const tool_verb *tool_find_verb(const tool_verb *verbs, size_t verb_count, const char *name) {
    for (size_t i = 0; i < verb_count; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

void tool_print_options(FILE *out, unsigned accepted) {
    for (const option_row *row = options; row < options + OPTION_COUNT; row++) {
        if (accepted & (unsigned)row->option) {
            char left[40];
            snprintf(left, sizeof left, "%c%c%s %s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
                     row->letter ? "," : " ", row->name, row->value ? " " : "", row->value ? row->value : "");
            fprintf(out, "  %-26s %s\n", left, row->help);
        }
    }
}
