#include "formula.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* A formula in postfix order: numbers from 0 push an input, operators take the last values. */
enum { ADD = -5, SUBTRACT, MULTIPLY, DIVIDE, SQRT, FMA = -6, LONGEST = 32 };

typedef struct program {
    const mlxn_op_info *op;
    size_t output;
    bool readable;
    size_t length;
    signed char step[LONGEST];
} program;

typedef struct parser {
    program *made;
    const char *at;
} parser;

static void sum(parser *p);

static void emit(parser *p, int step) {
    if (p->made->length == LONGEST)
        p->made->readable = false;
    else
        p->made->step[p->made->length++] = (signed char)step;
}

static bool take(parser *p, char c) {
    while (*p->at == ' ')
        p->at++;
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static void call(parser *p, const char *name, size_t length) {
    size_t count = 0;
    do {
        sum(p);
        count++;
    } while (p->made->readable && take(p, ','));
    const bool is_sqrt = length == 4 && memcmp(name, "sqrt", 4) == 0 && count == 1;
    const bool is_fma = length == 3 && memcmp(name, "fma", 3) == 0 && count == 3;
    p->made->readable = p->made->readable && take(p, ')') && (is_sqrt || is_fma);
    emit(p, is_sqrt ? SQRT : FMA);
}

static void factor(parser *p) {
    if (take(p, '(')) {
        sum(p);
        p->made->readable = p->made->readable && take(p, ')');
        return;
    }
    const char *name = p->at;
    while (isalnum((unsigned char)*p->at) || *p->at == '_')
        p->at++;
    const size_t length = (size_t)(p->at - name);
    const mlxn_op_info *op = p->made->op;
    for (size_t i = 0; i < op->input_count; i++)
        if (strlen(op->arguments[i].name) == length && memcmp(op->arguments[i].name, name, length) == 0) {
            emit(p, (int)i);
            return;
        }
    if (length > 0 && take(p, '('))
        call(p, name, length);
    else
        p->made->readable = false;
}

static void product(parser *p) {
    factor(p);
    while (p->made->readable) {
        if (take(p, '*')) {
            factor(p);
            emit(p, MULTIPLY);
        } else if (take(p, '/')) {
            factor(p);
            emit(p, DIVIDE);
        } else {
            break;
        }
    }
}

static void sum(parser *p) {
    product(p);
    while (p->made->readable) {
        if (take(p, '+')) {
            product(p);
            emit(p, ADD);
        } else if (take(p, '-')) {
            product(p);
            emit(p, SUBTRACT);
        } else {
            break;
        }
    }
}

static program compile(const mlxn_op_info *op, size_t output) {
    program made = {.op = op, .output = output};
    const char *name = op->arguments[op->input_count + output].name;
    for (const char *at = op->formula; (at = strstr(at, name)) != NULL; at++) {
        if (at != op->formula && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
            continue;
        parser p = {&made, at + strlen(name)};
        if (!take(&p, '='))
            continue;
        made.readable = true;
        sum(&p);
        made.readable = made.readable && (take(&p, '\0') || take(&p, ',') || take(&p, ';'));
        break;
    }
    return made;
}

static float run(const program *p, const float *inputs) {
    float stack[LONGEST] = {0};
    size_t top = 0;
    for (size_t i = 0; i < p->length; i++) {
        const int step = p->step[i];
        if (step >= 0) {
            stack[top++] = inputs[step];
            continue;
        }
        top -= step == SQRT ? 1 : step == FMA ? 3 : 2;
        const float a = stack[top], b = stack[top + 1];
        stack[top] = step == ADD        ? a + b
                     : step == SUBTRACT ? a - b
                     : step == MULTIPLY ? a * b
                     : step == DIVIDE   ? a / b
                     : step == SQRT     ? sqrtf(a)
                                        : fmaf(a, b, stack[top + 2]);
        top++;
    }
    return stack[0];
}

bool formula_evaluate(const mlxn_op_info *op, size_t output, const float *inputs, float *result) {
    static program last; /* calls come in long runs for one op */
    if (last.op != op || last.output != output)
        last = compile(op, output);
    if (last.readable)
        *result = run(&last, inputs);
    return last.readable;
}
