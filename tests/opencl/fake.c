/* In the place of the backend's library.c: what lets a test replace functions of the driver. */
#include <dlfcn.h>

#include "backend/opencl/library.h"
#include "opencl_test.h"

enum { MAX_FAKES = 16 };
static struct {
    const char *name;
    void *function, *real;
} fakes[MAX_FAKES];
static size_t fake_count;

bool fake_no_loader;
const char *fake_missing_function;

void fake_function(const char *name, void *function) {
    assert_true(fake_count < MAX_FAKES);
    fakes[fake_count].name = name;
    fakes[fake_count++].function = function;
}

void *real_function(const char *name) {
    for (size_t i = 0; i < fake_count; i++)
        if (strcmp(fakes[i].name, name) == 0)
            return fakes[i].real;
    return NULL;
}

void *mlxn_opencl_open_library(void) {
    return fake_no_loader ? NULL : dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
}

void *mlxn_opencl_find_function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (fake_missing_function != NULL && strcmp(name, fake_missing_function) == 0)
        return NULL;
    for (size_t i = 0; i < fake_count; i++)
        if (strcmp(fakes[i].name, name) == 0) {
            fakes[i].real = found;
            return fakes[i].function;
        }
    return found;
}
