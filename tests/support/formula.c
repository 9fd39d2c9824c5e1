#include "formula.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct parser {
    const mlxn_op_info *op;
    const float *inputs;
    const char *at;
    bool bad;
} parser;

static float sum(parser *p);

static void skip(parser *p) {
    while (*p->at == ' ')
        p->at++;
}

static bool take(parser *p, char c) {
    skip(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static float call(parser *p, const char *name, size_t length) {
    float arguments[3] = {0};
    size_t count = 0;
    do {
        if (count < 3)
            arguments[count] = sum(p);
        count++;
    } while (!p->bad && take(p, ','));
    if (!take(p, ')'))
        p->bad = true;
    if (length == 4 && memcmp(name, "sqrt", 4) == 0 && count == 1)
        return sqrtf(arguments[0]);
    if (length == 3 && memcmp(name, "fma", 3) == 0 && count == 3)
        return fmaf(arguments[0], arguments[1], arguments[2]);
    p->bad = true;
    return 0;
}

static float factor(parser *p) {
    if (take(p, '(')) {
        const float value = sum(p);
        if (!take(p, ')'))
            p->bad = true;
        return value;
    }
    skip(p);
    const char *name = p->at;
    while (isalnum((unsigned char)*p->at) || *p->at == '_')
        p->at++;
    const size_t length = (size_t)(p->at - name);
    for (size_t i = 0; i < p->op->input_count; i++) {
        const char *argument = p->op->arguments[i].name;
        if (strlen(argument) == length && memcmp(argument, name, length) == 0)
            return p->inputs[i];
    }
    if (length > 0 && take(p, '('))
        return call(p, name, length);
    p->bad = true;
    return 0;
}

static float product(parser *p) {
    float value = factor(p);
    while (!p->bad) {
        if (take(p, '*'))
            value = value * factor(p);
        else if (take(p, '/'))
            value = value / factor(p);
        else
            break;
    }
    return value;
}

static float sum(parser *p) {
    float value = product(p);
    while (!p->bad) {
        if (take(p, '+'))
            value = value + product(p);
        else if (take(p, '-'))
            value = value - product(p);
        else
            break;
    }
    return value;
}

bool formula_evaluate(const mlxn_op_info *op, size_t output, const float *inputs, float *result) {
    const char *name = op->arguments[op->input_count + output].name;
    const size_t length = strlen(name);
    for (const char *at = op->formula; (at = strstr(at, name)) != NULL; at++) {
        if (at != op->formula && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
            continue;
        parser p = {.op = op, .inputs = inputs, .at = at + length};
        if (!take(&p, '='))
            continue;
        *result = sum(&p);
        skip(&p);
        return !p.bad && (*p.at == '\0' || *p.at == ',' || *p.at == ';');
    }
    return false;
}
