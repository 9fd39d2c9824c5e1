/* Writes what other files repeat of src/ops/ops.def: the prototypes of the elementwise ops in the public
 * header and their table in the documentation. Each file holds a block between two marker lines; the text
 * between them is replaced, the rest is kept.
 *
 *     generate [--check] HEADER TABLE
 *
 * --check writes nothing and fails if a block is stale. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_WIDTH 120

typedef struct op_line {
    const char *name;
    const char *formula;
    const char *saved;                /* what backward reads besides dy, of an op with one input */
    const char *gradient_formulas[2]; /* the second is NULL for an op with one input */
} op_line;

static const op_line ops[] = {
#define UNARY(name, forward, saved, gradient, formula, gradient_formula) \
    {#name, formula, #saved, {gradient_formula, NULL}},
#define BINARY(name, forward, gradient_a, gradient_b, formula, formula_a, formula_b) \
    {#name, formula, NULL, {formula_a, formula_b}},
#define SPECIAL(...)
#include "ops/ops.def"
#undef UNARY
#undef BINARY
#undef SPECIAL
};

static bool is_binary(const op_line *op) {
    return op->gradient_formulas[1] != NULL;
}

/* Writes a declaration, its parameters broken at the line width and aligned behind the parenthesis. */
static void write_prototype(FILE *out, const char *name, const char *suffix, const char *const *buffers, bool mode) {
    int indent = fprintf(out, "MLXN_API mlxn_status mlxn_%s%s(", name, suffix);
    int column = indent + fprintf(out, "mlxn_encoder *encoder");
    for (const char *const *buffer = buffers; *buffer || mode; ++buffer) {
        char parameter[64];
        bool last = *buffer ? !buffer[1] && !mode : true;
        if (*buffer) {
            snprintf(parameter, sizeof parameter, "mlxn_buffer *%s", *buffer);
        } else {
            snprintf(parameter, sizeof parameter, "mlxn_mode mode");
        }
        /* The comma before it, the blank, and what follows it: a comma or the end of the declaration. */
        if (column + 2 + (int)strlen(parameter) + (last ? 2 : 1) > LINE_WIDTH) {
            fprintf(out, ",\n%*s%s", indent, "", parameter);
            column = indent + (int)strlen(parameter);
        } else {
            column += fprintf(out, ", %s", parameter);
        }
        if (!*buffer) {
            break;
        }
    }
    fprintf(out, ");\n");
}

static void write_prototypes(FILE *out) {
    for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
        const op_line *op = &ops[i];
        if (is_binary(op)) {
            fprintf(out, "\n/* y = %s.  a, b and y have one shape, any. y may be the very memory of a or b. */\n",
                    op->formula);
            write_prototype(out, op->name, "", (const char *[]){"a", "b", "y", NULL}, false);
            fprintf(out,
                    "\n/* The gradients of mlxn_%s in one pass: da = %s, db = %s.\n"
                    " * All have one shape, any. In overwrite mode da or db may be the very memory of a, b or dy; da "
                    "and db\n"
                    " * never overlap. */\n",
                    op->name, op->gradient_formulas[0], op->gradient_formulas[1]);
            write_prototype(out, op->name, "_backward", (const char *[]){"a", "b", "dy", "da", "db", NULL}, true);
        } else {
            fprintf(out, "\n/* y = %s.  x and y have one shape, any. y may be the very memory of x. */\n", op->formula);
            write_prototype(out, op->name, "", (const char *[]){"x", "y", NULL}, false);
            fprintf(out,
                    "\n/* The gradient of mlxn_%s: dx = %s%s.\n"
                    " * All have one shape, any. In overwrite mode dx may be the very memory of %s or dy. */\n",
                    op->name, op->gradient_formulas[0],
                    strcmp(op->saved, "y") == 0 ? ", where y is the forward's output" : "", op->saved);
            write_prototype(out, op->name, "_backward", (const char *[]){op->saved, "dy", "dx", NULL}, true);
        }
    }
    fprintf(out, "\n");
}

static void write_table(FILE *out) {
    fprintf(out, "\n| op | formula | gradient op | gradient |\n|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
        const op_line *op = &ops[i];
        if (is_binary(op)) {
            fprintf(out, "| `%s a b → y` | y = %s | `%s_backward a b dy → da db` | da = %s, db = %s |\n", op->name,
                    op->formula, op->name, op->gradient_formulas[0], op->gradient_formulas[1]);
        } else {
            fprintf(out, "| `%s x → y` | y = %s | `%s_backward %s dy → dx` | dx = %s |\n", op->name, op->formula,
                    op->name, op->saved, op->gradient_formulas[0]);
        }
    }
    fprintf(out, "\n");
}

static int fail(const char *path, const char *what) {
    fprintf(stderr, "generate: %s: %s\n", path, what);
    return EXIT_FAILURE;
}

/* The whole file as a string, or NULL. */
static char *read_file(const char *path) {
    char *text = NULL;
    size_t size = 0;
    FILE *in = fopen(path, "rb");
    FILE *copy = in ? open_memstream(&text, &size) : NULL;
    if (!copy) {
        if (in) {
            fclose(in);
        }
        return NULL;
    }
    for (int c = getc(in); c != EOF; c = getc(in)) {
        putc(c, copy);
    }
    bool failed = ferror(in) || ferror(copy);
    fclose(in);
    failed |= fclose(copy) != 0;
    if (failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* Written beside the file and renamed, so that a failure leaves the old one. */
static int replace_file(const char *path, const char *text) {
    char temporary[4096];
    if (snprintf(temporary, sizeof temporary, "%s.new", path) >= (int)sizeof temporary) {
        return fail(path, "the path is too long");
    }
    FILE *out = fopen(temporary, "wb");
    if (!out) {
        return fail(temporary, strerror(errno));
    }
    bool failed = fputs(text, out) == EOF;
    failed |= fclose(out) != 0;
    if (failed || rename(temporary, path) != 0) {
        int status = fail(path, strerror(errno));
        remove(temporary);
        return status;
    }
    return EXIT_SUCCESS;
}

/* Replaces what stands between the line holding `begin` and the line holding `end`. */
static int update(const char *path, const char *begin, const char *end, void (*write)(FILE *out), bool check) {
    char *old = read_file(path);
    if (!old) {
        return fail(path, strerror(errno));
    }
    const char *from = strstr(old, begin);
    from = from ? strchr(from, '\n') : NULL;
    const char *to = from ? strstr(from, end) : NULL;
    char *new = NULL;
    size_t size = 0;
    FILE *out = to ? open_memstream(&new, &size) : NULL;
    int status = EXIT_SUCCESS;
    if (!out) {
        status = fail(path, "the marker lines of the generated block are missing");
    } else {
        fprintf(out, "%.*s\n", (int)(from - old), old);
        write(out);
        fputs(to, out);
        if (fclose(out) != 0) {
            status = fail(path, strerror(errno));
        } else if (strcmp(old, new) != 0) {
            status = check ? fail(path, "stale; run make generate") : replace_file(path, new);
        }
    }
    free(old);
    free(new);
    return status;
}

int main(int argc, char **argv) {
    bool check = argc > 1 && strcmp(argv[1], "--check") == 0;
    if (argc != (check ? 4 : 3)) {
        fprintf(stderr, "usage: generate [--check] HEADER TABLE\n");
        return 2;
    }
    const char *header = argv[check ? 2 : 1], *table = argv[check ? 3 : 2];
    int status = update(header, "/* BEGIN elementwise ops", "/* END elementwise ops", write_prototypes, check);
    int table_status = update(table, "<!-- BEGIN elementwise ops", "<!-- END elementwise ops", write_table, check);
    return status ? status : table_status;
}
