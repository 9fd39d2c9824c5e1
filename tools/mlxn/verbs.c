#include "verbs.h"

#define ON_A_DEVICE (TOOL_OPTION_DEVICE | TOOL_OPTION_THREADS)

const tool_verb tool_verbs[] = {
    {"devices", "", "list the devices, the default marked; why a backend is absent",
     "The device marked with * is the one that is used where --device does not name another.\n", 0, false,
     tool_devices},
    {"ops", "[OP...]", "list the ops: formula, arguments, gradient, dtypes",
     "Arguments stand in the order in which mlxn run takes them: inputs -> outputs. \"...\" stands for any\n"
     "number of leading extents, alike in all arguments of the op.\n",
     0, true, tool_ops},
    {"run", "OP IN... -o OUT...", "run an op on files",
     "IN is a .npy file, a .safetensors file with one tensor, or FILE.safetensors:TENSOR. OUT is a .npy file,\n"
     "FILE.safetensors:TENSOR, or a .safetensors file, whose tensor is then called like the argument. Other\n"
     "tensors of an existing .safetensors file are kept. Outputs are written all or none, and may replace\n"
     "inputs. All inputs must have one dtype; --dtype converts them first, rounding to nearest even.\n",
     ON_A_DEVICE | TOOL_OPTION_OUTPUT | TOOL_OPTION_DTYPE | TOOL_OPTION_ACCUMULATE, true, tool_run},
    {"check", "[OP...]", "prove the numerics on this machine",
     "Checks each op in each dtype: its error against a float64 reference in units in the last place, its\n"
     "gradient against finite differences of the device's own forward, its special values in every lane and\n"
     "tail position, its accumulate mode to the bit, and prints digests of result bits, of one shape and of\n"
     "many odd ones, that are the same on every machine. Exit 1 if a check fails.\n",
     ON_A_DEVICE | TOOL_OPTION_DTYPE | TOOL_OPTION_EXHAUSTIVE | TOOL_OPTION_QUICK | TOOL_OPTION_JSON, true, tool_check},
    {"bench", "[OP...]", "time ops beside the device's own copy, fill and read",
     "Per op, dtype and size: the median time, the speed in GB/s (10^9 bytes, counting each input read once\n"
     "and each output written once), the fastest plain loop with a like share of writes, timed in turns\n"
     "with the op, and the ratio of both.\n",
     ON_A_DEVICE | TOOL_OPTION_DTYPE | TOOL_OPTION_SIZE | TOOL_OPTION_SHAPE | TOOL_OPTION_REPS | TOOL_OPTION_OVERHEAD |
         TOOL_OPTION_JSON | TOOL_OPTION_PLOT,
     true, tool_bench},
};
const size_t tool_verb_count = sizeof tool_verbs / sizeof *tool_verbs;

void tool_print_help(FILE *out, const tool_verb *verb) {
    if (verb) {
        fprintf(out, "Usage: mlxn %s%s%s%s\n\n%c%s.\n\n%s\nOptions:\n", verb->name, verb->options ? " [OPTION...]" : "",
                *verb->operands ? " " : "", verb->operands, verb->summary[0] - 'a' + 'A', verb->summary + 1,
                verb->details);
        tool_print_options(out, verb->options | TOOL_OPTION_HELP);
        return;
    }
    fputs("Usage: mlxn VERB [OPTION...] [ARGUMENT...]\n\n"
          "Neural-network compute kernels with their gradients, the same bits on every device.\n\nVerbs:\n",
          out);
    for (size_t i = 0; i < tool_verb_count; i++) {
        char left[40];
        snprintf(left, sizeof left, "%s %s", tool_verbs[i].name, tool_verbs[i].operands);
        fprintf(out, "  %-26s %s\n", left, tool_verbs[i].summary);
    }
    fputs("\nOptions:\n", out);
    tool_print_options(out, TOOL_OPTION_HELP | TOOL_OPTION_VERSION);
    fputs("\nmlxn VERB --help tells more. Exit status: 0 success, 1 failure, 2 wrong usage.\n", out);
}
