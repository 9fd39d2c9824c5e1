/* mlxn ops */
#include <stdio.h>
#include <stdlib.h>

#include "job.h"
#include "verbs.h"

static void print_arguments(const mlxn_op_info *op, size_t begin, size_t end) {
    for (size_t k = begin; k < end; k++) {
        printf(" %s[...", op->arguments[k].name);
        for (const char *dim = op->arguments[k].dims; *dim; dim++) {
            printf(",%c", *dim);
        }
        putchar(']');
    }
}

static void print_op(const mlxn_op_info *op) {
    printf("%s\n  formula    %s\n  arguments ", op->name, op->formula);
    print_arguments(op, 0, op->input_count);
    fputs(" ->", stdout);
    print_arguments(op, op->input_count, op->input_count + op->output_count);
    if (op->forward) {
        printf("\n  gradient of %s%s\n", op->forward, op->accumulates ? "; can accumulate" : "");
    } else {
        printf("\n  gradient   %s\n", op->backward);
    }
    puts("  dtypes     f32 f16 bf16");
}

tool_exit tool_ops(const tool_arguments *arguments) {
    const mlxn_op_info **ops = tool_allocate(mlxn_op_count(), sizeof *ops);
    size_t count;
    bool found = tool_select_ops(arguments, ops, &count);
    for (size_t i = 0; found && i < count; i++) {
        print_op(ops[i]);
    }
    free(ops);
    return found ? TOOL_SUCCESS : TOOL_USAGE;
}
