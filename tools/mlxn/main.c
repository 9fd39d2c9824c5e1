/* mlxn: run, prove and time the kernels of the library from the command line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "text.h"
#include "verbs.h"

static tool_exit act(const tool_arguments *arguments) {
    if (tool_given(arguments, TOOL_OPTION_HELP)) {
        tool_print_help(stdout, arguments->verb);
        return TOOL_SUCCESS;
    }
    if (tool_given(arguments, TOOL_OPTION_VERSION)) {
        printf("mlxn %s\n", mlxn_version());
        return TOOL_SUCCESS;
    }
    return arguments->verb->run(arguments);
}

int main(int argc, char **argv) {
    tool_arguments arguments;
    char message[512];
    if (tool_parse(tool_verbs, tool_verb_count, argc, argv, &arguments, message, sizeof message) != TOOL_SUCCESS) {
        tool_error("%s", message);
        return TOOL_USAGE;
    }
    tool_exit code = act(&arguments);
    tool_progress_end();
    if ((fflush(stdout) || ferror(stdout)) && code == TOOL_SUCCESS) {
        tool_error("standard output: %s", strerror(errno));
        return TOOL_FAILURE;
    }
    return (int)code;
}
