/* The program's command line: any words parse to a struct that keeps its promises, or to a message. */
#include <stdlib.h>
#include <string.h>

#include "tools/mlxn/verbs.h"

#define MAX_WORDS 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}

static bool is_one_of(const char *text, char *const *words, int count) {
    for (int i = 0; i < count; i++) {
        /* A value may be the end of a word: --json=FILE, -oFILE. */
        if (text >= words[i] && text <= words[i] + strlen(words[i])) {
            return true;
        }
    }
    return false;
}

static void check_success(const tool_arguments *arguments, char *const *words, int count) {
    require(arguments->verb || tool_given(arguments, TOOL_OPTION_HELP) || tool_given(arguments, TOOL_OPTION_VERSION));
    require(arguments->operand_count <= TOOL_MAX_OPERANDS && arguments->output_count <= TOOL_MAX_OPERANDS);
    require(arguments->size_count <= TOOL_MAX_SIZES);
    for (size_t i = 0; i < arguments->operand_count; i++) {
        require(is_one_of(arguments->operands[i], words, count));
    }
    for (size_t i = 0; i < arguments->output_count; i++) {
        require(is_one_of(arguments->outputs[i], words, count));
    }
    for (size_t i = 0; i < arguments->size_count; i++) {
        require(arguments->sizes[i] > 0);
    }
    require(!arguments->device || *arguments->device);
    require(!tool_given(arguments, TOOL_OPTION_SHAPE) || (arguments->n > 0 && arguments->m > 0));
    require(!tool_given(arguments, TOOL_OPTION_THREADS) || arguments->threads > 0);
    require(!tool_given(arguments, TOOL_OPTION_DTYPE) || mlxn_dtype_size(arguments->dtype) > 0);
    unsigned accepted = TOOL_OPTION_HELP | TOOL_OPTION_VERSION | (arguments->verb ? arguments->verb->options : 0u);
    require((arguments->given & ~accepted) == 0);
}

/* The input is the words, one a line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), name[] = "mlxn", message[256] = "";
    char *words[MAX_WORDS + 1] = {name};
    int count = 1;
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *at = text; at < text + size && count < MAX_WORDS;) {
        char *end = memchr(at, '\n', (size_t)(text + size - at));
        words[count++] = at;
        if (!end) {
            break;
        }
        *end = '\0';
        at = end + 1;
    }
    tool_arguments arguments;
    tool_exit code = tool_parse(tool_verbs, tool_verb_count, count, words, &arguments, message, sizeof message);
    require(code == TOOL_SUCCESS || code == TOOL_USAGE);
    if (code == TOOL_SUCCESS) {
        require(!*message);
        check_success(&arguments, words, count);
    } else {
        require(*message && strlen(message) < sizeof message);
    }
    free(text);
    return 0;
}
