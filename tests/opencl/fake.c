/* dlopen and dlsym of the library under test, which let a test take the place of functions of the driver. */
#define _GNU_SOURCE
#include <dlfcn.h>

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

/* The C library's own, by the versions that it has had. */
static void *next(const char *name) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *found = NULL;
    for (size_t i = 0; i < sizeof versions / sizeof *versions && found == NULL; i++)
        found = dlvsym(RTLD_NEXT, name, versions[i]);
    if (found == NULL)
        abort();
    return found;
}

void *dlopen(const char *file, int mode) {
    if (fake_no_loader && file != NULL && strstr(file, "libOpenCL") != NULL)
        return NULL;
    void *(*real)(const char *, int);
    *(void **)&real = next("dlopen");
    return real(file, mode);
}

void *dlsym(void *restrict library, const char *restrict name) {
    void *(*real)(void *, const char *);
    *(void **)&real = next("dlsym");
    if (fake_missing_function != NULL && strcmp(name, fake_missing_function) == 0)
        return NULL;
    void *found = real(library, name);
    for (size_t i = 0; i < fake_count; i++)
        if (strcmp(fakes[i].name, name) == 0 &&
            fakes[i].real == NULL) { /* the first to ask is the library under test */
            fakes[i].real = found;
            return fakes[i].function;
        }
    return found;
}
