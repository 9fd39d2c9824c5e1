/* The device: its backend, its registry, its locks. */
#ifndef MLXN_CORE_DEVICE_H
#define MLXN_CORE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/backend.h"
#include "core/memory.h"
#include "core/registry.h"
#include "core/status.h"

struct mlxn_device {
    atomic_size_t references; /* the handle, its buffers and its encoders */
    const mlxn_backend *backend;
    mlxn_allocator allocator;
    mlxn_device_info info;
    void *state;          /* the backend's */
    size_t local_bytes;   /* GPU: local memory of a group, at most */
    char *cache_folder;   /* GPU: of compiled kernels; NULL = nothing is kept */
    pthread_mutex_t lock; /* held while work is committed or memory copied: what fixes the order of work */
    mlxn_registry registry;
    mlxn_device *next, *previous; /* the list of open devices, which fork needs */
};

mlxn_device *mlxn_device_retain(mlxn_device *device);
void mlxn_device_release(mlxn_device *device);

#endif
