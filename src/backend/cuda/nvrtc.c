/* Finding NVRTC, and compiling with it. */
#include "backend/cuda/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int nvrtcResult;
typedef struct nvrtcProgram_st *nvrtcProgram;
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_OUT_OF_MEMORY = 1 };

static struct {
#define FUNCTION(name, symbol, result, arguments) result(*name) arguments;
#include "backend/cuda/nvrtc.def"
#undef FUNCTION
} nvrtc;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool opened;

const char *const mlxn_nvrtc_options[] = {"--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true",
                                          "--std=c++17"};
const size_t mlxn_nvrtc_option_count = sizeof mlxn_nvrtc_options / sizeof *mlxn_nvrtc_options;

/* As in driver.c. */
static bool find(void *library, const char *symbol, void *function) {
    void *found = dlsym(library, symbol);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool open_at(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return false;
    }
#define FUNCTION(name, symbol, result, arguments) &&find(library, #symbol, &nvrtc.name)
    const bool whole = true
#include "backend/cuda/nvrtc.def"
        ;
#undef FUNCTION
    if (!whole) {
        dlclose(library);
    }
    return whole;
}

static bool open_in(const char *folder, const char *name) {
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && open_at(path);
}

/* Where NVRTC may be, the best guess first: what MLXN_NVRTC names, what the loader finds, what a toolkit has installed.
 * A driver loads what compilers of its own version of CUDA, or an older one, have made. */
static bool open_anywhere(int driver) {
    const char *asked = getenv("MLXN_NVRTC");
    if (asked != NULL && asked[0] != '\0') {
        return open_at(asked);
    }
    const bool newest = driver >= 13000;
    const char *const names[] = {newest ? "libnvrtc.so.13" : "libnvrtc.so.12",
                                 newest ? "libnvrtc.so.12" : "libnvrtc.so.13", "libnvrtc.so"};
    static const char *const homes[] = {"CUDA_HOME", "CUDA_PATH"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (open_at(names[i])) {
            return true;
        }
        for (size_t k = 0; k < sizeof homes / sizeof *homes; k++) {
            const char *home = getenv(homes[k]);
            char folder[2048];
            if (home != NULL && home[0] != '\0' &&
                snprintf(folder, sizeof folder, "%s/lib64", home) < (int)sizeof folder && open_in(folder, names[i])) {
                return true;
            }
        }
        if (open_in("/usr/local/cuda/lib64", names[i])) {
            return true;
        }
    }
    return false;
}

/* The newest architecture that this NVRTC knows and that is not newer than the device: its own if `*exact`. 0 if none. */
static int architecture_for(int capability, bool *exact) {
    int count = 0, best = 0;
    int list[64];
    *exact = false;
    if (nvrtc.GetNumSupportedArchs(&count) != NVRTC_SUCCESS || count < 1 || count > 64 ||
        nvrtc.GetSupportedArchs(list) != NVRTC_SUCCESS) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (list[i] <= capability && list[i] > best) {
            best = list[i];
        }
    }
    *exact = best == capability;
    return best;
}

mlxn_status mlxn_nvrtc_target_for(int driver, int capability, mlxn_nvrtc_target *target) {
    pthread_mutex_lock(&lock);
    opened = opened || open_anywhere(driver);
    const bool found = opened;
    pthread_mutex_unlock(&lock);
    if (!found) {
        const char *asked = getenv("MLXN_NVRTC");
        const bool named = asked != NULL && asked[0] != '\0';
        return mlxn_fail(MLXN_COMPILE_FAILED, "kernels are compiled by NVRTC, which %s%.200s%s",
                         named ? "MLXN_NVRTC says is " : "is not here: neither libnvrtc.so.13 nor .12 was found (",
                         named ? asked : "MLXN_NVRTC may name the file)", named ? ", where it is not" : "");
    }
    int major = 0, minor = 0;
    bool exact;
    const int architecture = architecture_for(capability, &exact);
    if (nvrtc.Version(&major, &minor) != NVRTC_SUCCESS || architecture == 0) {
        return mlxn_fail(MLXN_COMPILE_FAILED, "NVRTC %d.%d compiles for no device as old as sm_%d", major, minor,
                         capability);
    }
    snprintf(target->compiler, sizeof target->compiler, "NVRTC %d.%d", major, minor);
    /* sm_90a has what is Hopper's alone. */
    snprintf(target->architecture, sizeof target->architecture, "--gpu-architecture=%s_%d%s", exact ? "sm" : "compute",
             architecture, exact && architecture == 90 ? "a" : "");
    target->number = architecture;
    target->cubin = exact;
    return MLXN_OK;
}

static mlxn_status failed(const char *name, const char *call, nvrtcResult result) {
    return mlxn_fail(result == NVRTC_ERROR_OUT_OF_MEMORY ? MLXN_OUT_OF_MEMORY : MLXN_COMPILE_FAILED, "%s: %s: %s", name,
                     call, nvrtc.GetErrorString(result));
}

/* The failure of a compilation, with what the compiler has to say. */
static mlxn_status refused(const mlxn_allocator *allocator, const char *name, nvrtcProgram program,
                           nvrtcResult result) {
    size_t bytes = 0;
    char *report = NULL;
    if (nvrtc.GetProgramLogSize(program, &bytes) == NVRTC_SUCCESS && bytes > 1) {
        report = mlxn_allocate(allocator, bytes, 1);
    }
    if (report == NULL || nvrtc.GetProgramLog(program, report) != NVRTC_SUCCESS) {
        mlxn_free(allocator, report, bytes);
        return failed(name, "nvrtcCompileProgram", result);
    }
    report[bytes - 1] = '\0';
    const mlxn_status status =
        mlxn_fail(MLXN_COMPILE_FAILED, "%s: nvrtcCompileProgram: %s\n%s", name, nvrtc.GetErrorString(result), report);
    mlxn_free(allocator, report, bytes);
    return status;
}

static mlxn_status take_image(const mlxn_allocator *allocator, bool cubin, const char *name, nvrtcProgram program,
                              void **image, size_t *bytes) {
    *bytes = 0;
    nvrtcResult result = (cubin ? nvrtc.GetCUBINSize : nvrtc.GetPTXSize)(program, bytes);
    if (result != NVRTC_SUCCESS || *bytes == 0) {
        return failed(name, cubin ? "nvrtcGetCUBINSize" : "nvrtcGetPTXSize", result);
    }
    *image = mlxn_allocate(allocator, *bytes, 64);
    if (*image == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "%s: no memory for the compiled kernel", name);
    }
    result = (cubin ? nvrtc.GetCUBIN : nvrtc.GetPTX)(program, *image);
    if (result != NVRTC_SUCCESS) {
        mlxn_free(allocator, *image, *bytes);
        return failed(name, cubin ? "nvrtcGetCUBIN" : "nvrtcGetPTX", result);
    }
    return MLXN_OK;
}

mlxn_status mlxn_nvrtc_compile(const mlxn_allocator *allocator, const mlxn_nvrtc_target *target, const char *name,
                               const char *text, void **image, size_t *bytes) {
    nvrtcProgram program = NULL;
    nvrtcResult result = nvrtc.CreateProgram(&program, text, name, 0, NULL, NULL);
    if (result != NVRTC_SUCCESS) {
        return failed(name, "nvrtcCreateProgram", result);
    }
    const char *options[sizeof mlxn_nvrtc_options / sizeof *mlxn_nvrtc_options + 1];
    memcpy(options, mlxn_nvrtc_options, sizeof mlxn_nvrtc_options);
    options[mlxn_nvrtc_option_count] = target->architecture;
    result = nvrtc.CompileProgram(program, (int)mlxn_nvrtc_option_count + 1, options);
    const mlxn_status status = result == NVRTC_SUCCESS
                                   ? take_image(allocator, target->cubin, name, program, image, bytes)
                                   : refused(allocator, name, program, result);
    nvrtc.DestroyProgram(&program);
    return status;
}
