/* Storage and the buffers that are windows into it. */
#ifndef MLXN_CORE_BUFFER_H
#define MLXN_CORE_BUFFER_H

#include "core/device.h"

/* Reference-counted memory of a device. */
typedef struct mlxn_storage {
    atomic_size_t references;
    mlxn_device *device;
    mlxn_memory memory;
    bool wrapped; /* the caller's memory */
    bool read_only;
    void (*release)(void *context, void *memory);
    void *context;
} mlxn_storage;

struct mlxn_buffer {
    mlxn_storage *storage;
    size_t offset; /* bytes */
    size_t bytes;
    int64_t count;
    mlxn_dtype dtype;
    size_t rank;
    int64_t shape[MLXN_MAX_RANK];
};

/* New memory of the device, with one reference. `call` names the caller in messages. */
mlxn_status mlxn_storage_create(mlxn_device *device, size_t bytes, const char *call, mlxn_storage **storage);
mlxn_storage *mlxn_storage_retain(mlxn_storage *storage);
void mlxn_storage_release(mlxn_storage *storage);

#endif
