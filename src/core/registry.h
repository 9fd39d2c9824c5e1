/* The kernel registry of a device: name → kernel. */
#ifndef MLXN_CORE_REGISTRY_H
#define MLXN_CORE_REGISTRY_H

#include <pthread.h>

#include "mlxn/mlxn.h"

/* A kernel: on the CPU a function; on a GPU a text, which the backend compiles when it is first needed. */
typedef struct mlxn_kernel {
    const char *name; /* and entry point */
    mlxn_function function;
    const char *const *text; /* pieces, ended by NULL */
    bool built_in;
    size_t copied_bytes;      /* of the name and the text that are the kernel's own, 0 for static ones */
    const char *own_text[2];  /* where such a text is kept */
    _Atomic(void *) compiled; /* the backend's */
    _Atomic(char *) failure;  /* why the text does not compile, once that is known */
} mlxn_kernel;

typedef struct mlxn_registry {
    pthread_mutex_t lock;
    pthread_mutex_t compiling; /* held while a kernel is compiled; taken before the device's lock where both are */
    mlxn_kernel **kernels;     /* in the order they were added */
    size_t count, capacity;
    uint32_t *slots; /* open addressing: index + 1 into kernels, 0 = free */
    size_t slot_count;
} mlxn_registry;

void mlxn_registry_init(mlxn_registry *registry);
void mlxn_registry_clear(mlxn_device *device);

/* Adds a built-in kernel: its name, and its function or its text, static. */
mlxn_status mlxn_registry_add_built_in(mlxn_device *device, const mlxn_kernel *kernel);

/* The kernel called `name`, or NULL. It lives as long as the device. */
mlxn_kernel *mlxn_registry_find(mlxn_device *device, const char *name);

/* Compiles the kernel if it has a text and was not compiled yet. A text that does not compile is not tried again: the
 * compiler may take long to find that out, and its answer will be the same. */
mlxn_status mlxn_registry_compile(mlxn_device *device, mlxn_kernel *kernel);

#endif
