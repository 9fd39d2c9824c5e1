/* What a backend is to the core: a table of functions. A backend knows no op. */
#ifndef MLXN_CORE_BACKEND_H
#define MLXN_CORE_BACKEND_H

#include "mlxn/mlxn.h"

typedef struct mlxn_kernel mlxn_kernel;
typedef struct mlxn_list mlxn_list;

/* Memory of a device. `address` is where its bytes are for the device, `host` where they are for the host, or
 * NULL; both may be the same. A driver that names memory by handles keeps one in `handle`; `address` is then a number
 * that no other memory of the device shares. */
typedef struct mlxn_memory {
    uintptr_t address;
    void *host;
    size_t bytes;
    void *handle;
} mlxn_memory;

typedef struct mlxn_backend {
    /* "cpu", "cuda": what the names of its devices begin with. */
    const char *prefix;

    /* The devices of this backend, at least one entry; an entry that is not available says why. */
    size_t (*count)(void);
    void (*describe)(size_t index, mlxn_device_info *info);

    /* Opens entry `index`: fills device->info, device->state and, on a GPU, device->local_bytes and device->cache_folder,
     * and adds the built-in kernels. */
    mlxn_status (*open)(mlxn_device *device, size_t index, const mlxn_device_options *options);
    void (*close)(mlxn_device *device);

    /* Zero-filled memory, aligned to 64 bytes. */
    mlxn_status (*allocate)(mlxn_device *device, size_t bytes, mlxn_memory *memory);
    void (*release)(mlxn_device *device, mlxn_memory *memory);

    /* Copies, after the committed work of the device is done. Called with the device's lock held. */
    mlxn_status (*copy_out)(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size, void *data);
    mlxn_status (*copy_in)(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size,
                           const void *data);

    /* Turns the kernel's text into kernel->compiled, by way of the disk cache. NULL where kernels are functions of the
     * host and work in its memory. Called by one thread at a time. */
    mlxn_status (*compile)(mlxn_device *device, mlxn_kernel *kernel);
    void (*unload)(mlxn_device *device, mlxn_kernel *kernel);

    /* Executes a list, all of it or the rest of it by the time `wait` returns. Called with the device's lock
     * held, so that lists run in the order of their commits. */
    mlxn_status (*commit)(mlxn_device *device, mlxn_list *list, bool timing);
    mlxn_status (*wait)(mlxn_device *device, mlxn_list *list);

    /* Frees list->state, what commits have kept with a list: it is about to change, and its work is done. NULL where
     * nothing is kept. */
    void (*forget)(mlxn_device *device, mlxn_list *list);

    /* In a forked child, with the device's locks held: forget what did not survive. */
    void (*forked)(mlxn_device *device);
} mlxn_backend;

/* Defined in src/mlxn.c, the best first. */
extern const mlxn_backend *const mlxn_backends[];
extern const size_t mlxn_backend_count;

#endif
