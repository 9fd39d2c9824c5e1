/* The compiler: a compiled kernel is its text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "fake_work.h"

typedef int nvrtcResult;
typedef struct nvrtcProgram_st {
    char *text;
    int options;
} program, *nvrtcProgram;

#define FUNCTION(name, symbol, result, arguments) result symbol arguments;
#include "backend/cuda/nvrtc.def"
#undef FUNCTION

static const int architectures[] = {75, 80, 90};
static const char report[] = "kernel(1): error: this is a mistake\n";

int nvrtcVersion(int *major, int *minor) {
    fake_look_at_environment();
    *major = 13;
    *minor = 0;
    return 0;
}

const char *nvrtcGetErrorString(int result) {
    fake_look_at_environment();
    return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}

int nvrtcGetNumSupportedArchs(int *count) {
    fake_look_at_environment();
    *count = 0;
    while (*count < 3 && architectures[*count] <= fake.newest)
        ++*count;
    return 0;
}

int nvrtcGetSupportedArchs(int *list) {
    fake_look_at_environment();
    int count;
    nvrtcGetNumSupportedArchs(&count);
    memcpy(list, architectures, (size_t)count * sizeof *list);
    return 0;
}

int nvrtcCreateProgram(program **made, const char *text, const char *name, int count, const char *const *headers,
                       const char *const *names) {
    fake_look_at_environment();
    (void)name;
    (void)count;
    (void)headers;
    (void)names;
    *made = malloc(sizeof **made);
    **made = (program){strdup(text), 0};
    return 0;
}

int nvrtcDestroyProgram(program **made) {
    fake_look_at_environment();
    free((*made)->text);
    free(*made);
    *made = NULL;
    return 0;
}

int nvrtcCompileProgram(program *made, int count, const char *const *options) {
    fake_look_at_environment();
    int architecture = 0;
    fake.compilations++;
    for (int i = 0; i < count; i++) {
        sscanf(options[i], "--gpu-architecture=%*[a-z]_%d", &architecture);
        made->options += strcmp(options[i], "--fmad=false") == 0 || strcmp(options[i], "--prec-div=true") == 0 ||
                         strcmp(options[i], "--gpu-architecture=sm_90a") == 0;
    }
    char *word = strstr(made->text, "AWAIT();");
    if (word != NULL && architecture < 90)
        memset(word, ' ', strlen("AWAIT();")); /* the prelude makes nothing of it */
    const bool right = fake.capability != 90 || fake.newest != 90 || made->options == 3;
    return strstr(made->text, "mistake") != NULL || !right ? 6 : 0;
}

static int size_of(program *made, size_t *bytes) {
    *bytes = strlen(made->text) + 1;
    return 0;
}

static int image_of(program *made, char *image) {
    memcpy(image, made->text, strlen(made->text) + 1);
    return 0;
}

int nvrtcGetPTXSize(program *made, size_t *bytes) {
    fake_look_at_environment();
    return size_of(made, bytes);
}

int nvrtcGetPTX(program *made, char *ptx) {
    fake_look_at_environment();
    return image_of(made, ptx);
}

int nvrtcGetCUBINSize(program *made, size_t *bytes) {
    fake_look_at_environment();
    return size_of(made, bytes);
}

int nvrtcGetCUBIN(program *made, char *cubin) {
    fake_look_at_environment();
    return image_of(made, cubin);
}

int nvrtcGetProgramLogSize(program *made, size_t *bytes) {
    fake_look_at_environment();
    (void)made;
    *bytes = sizeof report;
    return 0;
}

int nvrtcGetProgramLog(program *made, char *text) {
    fake_look_at_environment();
    (void)made;
    memcpy(text, report, sizeof report);
    return 0;
}
