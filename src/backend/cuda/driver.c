/* Finding the CUDA driver. */
#include "backend/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

mlxn_cuda_driver mlxn_cuda;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;
static char reason[160];
static int device_count, version;
static atomic_bool forked;

static void in_child(void) {
    atomic_store(&forked, true);
}

/* ISO C has no conversion from an object's pointer to a function's; POSIX says that the bits are the same. */
static bool find(void *library, const char *symbol, void *function, bool optional) {
    void *found = dlsym(library, symbol);
    memcpy(function, &found, sizeof found);
    if (found == NULL && !optional) {
        snprintf(reason, sizeof reason, "libcuda.so.1 has no %s: a newer driver is needed", symbol);
        return false;
    }
    return true;
}

static bool find_all(void *library) {
#define FUNCTION(name, symbol, arguments) &&find(library, #symbol, &mlxn_cuda.name, false)
#define OPTIONAL(name, symbol, arguments) &&find(library, #symbol, &mlxn_cuda.name, true)
    return true
#include "backend/cuda/driver.def"
        ;
#undef FUNCTION
#undef OPTIONAL
}

static bool works(const char *call, CUresult result) {
    if (result != CUDA_SUCCESS) {
        snprintf(reason, sizeof reason, "%s: %s", call, mlxn_cuda_error_of(result).text);
    }
    return result == CUDA_SUCCESS;
}

static void load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(reason, sizeof reason, "no CUDA driver (libcuda.so.1 not found)");
        return;
    }
    /* The library stays open: a started driver has threads of its own. */
    if (!find_all(library)) {
        return;
    }
    pthread_atfork(NULL, NULL, in_child);
    if (!works("cuInit", mlxn_cuda.Init(0)) || !works("cuDriverGetVersion", mlxn_cuda.DriverGetVersion(&version)) ||
        !works("cuDeviceGetCount", mlxn_cuda.DeviceGetCount(&device_count))) {
        return;
    }
    if (device_count < 1) {
        snprintf(reason, sizeof reason, "the CUDA driver knows no device");
        return;
    }
    loaded = true;
}

const char *mlxn_cuda_load(void) {
    pthread_once(&once, load);
    return loaded ? NULL : reason;
}

int mlxn_cuda_device_count(void) {
    return device_count;
}

int mlxn_cuda_version(void) {
    return version;
}

bool mlxn_cuda_forked(void) {
    return atomic_load_explicit(&forked, memory_order_relaxed);
}

mlxn_cuda_error mlxn_cuda_error_of(CUresult result) {
    mlxn_cuda_error error;
    const char *name = NULL;
    if (mlxn_cuda.GetErrorString(result, &error.text) != CUDA_SUCCESS || error.text == NULL) {
        error.text = "unknown error";
    }
    if (mlxn_cuda.GetErrorName(result, &name) == CUDA_SUCCESS && name != NULL) {
        snprintf(error.name, sizeof error.name, "%s", name);
    } else {
        snprintf(error.name, sizeof error.name, "CUDA_ERROR_%d", result);
    }
    return error;
}
