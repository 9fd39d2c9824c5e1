/* The kernel registry of a device: name → kernel. */
#ifndef MLXN_CORE_REGISTRY_H
#define MLXN_CORE_REGISTRY_H

#include <pthread.h>

#include "mlxn/mlxn.h"

/* A kernel. On the CPU it is a function; a GPU backend keeps source and compiled form behind `state`. */
typedef struct mlxn_kernel {
    const char *name;
    mlxn_function function;
    bool built_in;
    size_t name_bytes; /* of the copied name, 0 for a static one */
} mlxn_kernel;

typedef struct mlxn_registry {
    pthread_mutex_t lock;
    mlxn_kernel **kernels; /* in the order they were added */
    size_t count, capacity;
    uint32_t *slots; /* open addressing: index + 1 into kernels, 0 = free */
    size_t slot_count;
} mlxn_registry;

void mlxn_registry_init(mlxn_registry *registry);
void mlxn_registry_clear(mlxn_device *device);

/* Adds a built-in kernel with a static name. */
mlxn_status mlxn_registry_add_built_in(mlxn_device *device, const char *name, mlxn_function function);

/* The kernel called `name`, or NULL. It lives as long as the device. */
const mlxn_kernel *mlxn_registry_find(mlxn_device *device, const char *name);

#endif
