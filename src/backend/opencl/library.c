#include "backend/opencl/library.h"

#include <dlfcn.h>

void *mlxn_opencl_open_library(void) {
    return dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
}

void *mlxn_opencl_find_function(void *library, const char *name) {
    return dlsym(library, name);
}
