/* The verbs of the program: one table, which the parser, the help and main() read. */
#ifndef MLXN_TOOL_VERBS_H
#define MLXN_TOOL_VERBS_H

#include "args.h"

extern const tool_verb tool_verbs[];
extern const size_t tool_verb_count;

tool_exit tool_devices(const tool_arguments *arguments);
tool_exit tool_ops(const tool_arguments *arguments);
tool_exit tool_run(const tool_arguments *arguments);
tool_exit tool_check(const tool_arguments *arguments);
tool_exit tool_bench(const tool_arguments *arguments);

/* Writes the help of the program, or of one verb. */
void tool_print_help(FILE *out, const tool_verb *verb);

#endif
