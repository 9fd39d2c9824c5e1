/* Devices: the list of what is here, opening, and the list of what is open, which fork needs. */
#include "core/device.h"

#include <stdlib.h>
#include <string.h>

#include "core/environment.h"

/* Every open device. Before a fork all locks are taken, in the order list, compilations, devices, registries, so that the
 * child finds none of them held by a thread that it has not. */
static mlxn_device *open_devices;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void) {
    pthread_mutex_lock(&list_lock);
    for (mlxn_device *device = open_devices; device != NULL; device = device->next) {
        pthread_mutex_lock(&device->registry.compiling);
    }
    for (mlxn_device *device = open_devices; device != NULL; device = device->next) {
        pthread_mutex_lock(&device->lock);
    }
    for (mlxn_device *device = open_devices; device != NULL; device = device->next) {
        pthread_mutex_lock(&device->registry.lock);
    }
}

static void after_fork_in_parent(void) {
    for (mlxn_device *device = open_devices; device != NULL; device = device->next) {
        pthread_mutex_unlock(&device->registry.lock);
        pthread_mutex_unlock(&device->lock);
        pthread_mutex_unlock(&device->registry.compiling);
    }
    pthread_mutex_unlock(&list_lock);
}

static void after_fork_in_child(void) {
    for (mlxn_device *device = open_devices; device != NULL; device = device->next) {
        device->backend->forked(device);
    }
    after_fork_in_parent();
}

static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Finds entry `index` of all backends' entries together. */
static const mlxn_backend *entry_at(size_t *index) {
    for (size_t i = 0; i < mlxn_backend_count; i++) {
        const size_t count = mlxn_backends[i]->count();
        if (*index < count) {
            return mlxn_backends[i];
        }
        *index -= count;
    }
    return NULL;
}

/* The entries of all backends. */
static size_t count_entries(void) {
    size_t count = 0;
    for (size_t i = 0; i < mlxn_backend_count; i++) {
        count += mlxn_backends[i]->count();
    }
    return count;
}

size_t mlxn_device_count(void) {
    const mlxn_environment_kept kept = mlxn_enter_drivers();
    const size_t count = count_entries();
    mlxn_leave_driver(&kept);
    return count;
}

static void describe(const mlxn_backend *backend, size_t index, mlxn_device_info *info) {
    *info = (mlxn_device_info){.size = sizeof *info};
    backend->describe(index, info);
}

/* Whether a device of the backend can have this name: the others' drivers need not be woken for it. */
static bool may_have(const mlxn_backend *backend, const char *name) {
    const size_t length = strlen(backend->prefix);
    return strncmp(name, backend->prefix, length) == 0 && (name[length] == '\0' || name[length] == ':');
}

/* An entry of the list. */
typedef struct entry {
    const mlxn_backend *backend;
    size_t index; /* there */
    mlxn_device_info info;
} entry;

/* The entry called `name`. False if there is none. */
static bool find_name(const char *name, entry *found) {
    for (size_t i = 0; i < mlxn_backend_count; i++) {
        found->backend = mlxn_backends[i];
        const size_t count = may_have(found->backend, name) ? found->backend->count() : 0;
        for (found->index = 0; found->index < count; found->index++) {
            describe(found->backend, found->index, &found->info);
            if (strcmp(found->info.name, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The best entry: the first graphics processor, else the first device of all. */
static bool find_best(entry *found) {
    for (int gpu = 1; gpu >= 0; gpu--) {
        for (size_t i = 0; i < mlxn_backend_count; i++) {
            found->backend = mlxn_backends[i];
            const size_t count = found->backend->count();
            for (found->index = 0; found->index < count; found->index++) {
                describe(found->backend, found->index, &found->info);
                if (found->info.available && (found->info.gpu || gpu == 0)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* What a NULL name opens: $MLXN_DEVICE, or the best. */
static bool find(const char *name, entry *found) {
    if (name == NULL) {
        name = getenv("MLXN_DEVICE");
    }
    return name == NULL || name[0] == '\0' ? find_best(found) : find_name(name, found);
}

mlxn_status mlxn_device_at(size_t index, mlxn_device_info *info) {
    if (info == NULL || info->size != sizeof *info) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT,
                         info == NULL ? "mlxn_device_at: info is NULL"
                                      : "mlxn_device_at: info->size is %zu, expected %zu",
                         info == NULL ? (size_t)0 : info->size, sizeof *info);
    }
    const size_t count = mlxn_device_count();
    if (index >= count) {
        return mlxn_fail(MLXN_NOT_FOUND, "mlxn_device_at: there is no entry %zu, the list has %zu", index, count);
    }
    const mlxn_environment_kept kept = mlxn_enter_drivers();
    entry best;
    const mlxn_backend *backend = entry_at(&index);
    describe(backend, index, info);
    info->is_default = find(NULL, &best) && best.backend == backend && best.index == index;
    mlxn_leave_driver(&kept);
    return MLXN_OK;
}

static mlxn_status check_options(const mlxn_device_options *options) {
    if (options == NULL) {
        return MLXN_OK;
    }
    if (options->size != sizeof *options) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_device_open: options->size is %zu, expected %zu", options->size,
                         sizeof *options);
    }
    const mlxn_allocator *allocator = options->allocator;
    if (allocator != NULL && (allocator->allocate == NULL || allocator->free == NULL)) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_device_open: options->allocator lacks a function");
    }
    return MLXN_OK;
}

static void link_device(mlxn_device *device) {
    pthread_mutex_lock(&list_lock);
    device->next = open_devices;
    if (open_devices != NULL) {
        open_devices->previous = device;
    }
    open_devices = device;
    pthread_mutex_unlock(&list_lock);
}

static void unlink_device(mlxn_device *device) {
    pthread_mutex_lock(&list_lock);
    if (device->next != NULL) {
        device->next->previous = device->previous;
    }
    *(device->previous != NULL ? &device->previous->next : &open_devices) = device->next;
    pthread_mutex_unlock(&list_lock);
}

static void free_device(mlxn_device *device) {
    if (device->cache_folder != NULL) {
        mlxn_free(&device->allocator, device->cache_folder, strlen(device->cache_folder) + 1);
    }
    pthread_mutex_destroy(&device->lock);
    const mlxn_allocator allocator = device->allocator;
    mlxn_free(&allocator, device, sizeof *device);
}

/* Says that there is no device called `name`, and what there is of its kind. */
static mlxn_status no_device(const char *name, const char *source) {
    for (size_t i = 0; i < mlxn_backend_count; i++) {
        const mlxn_backend *backend = mlxn_backends[i];
        if (may_have(backend, name)) {
            mlxn_device_info first;
            const size_t count = backend->count();
            describe(backend, 0, &first);
            return count == 1 && !first.available
                       ? mlxn_fail(MLXN_NOT_FOUND, "mlxn_device_open: there is no device \"%.40s\" here%s: %s", name,
                                   source, first.reason)
                       : mlxn_fail(MLXN_NOT_FOUND,
                                   "mlxn_device_open: there is no device \"%.40s\" here%s: the first of %zu is %s",
                                   name, source, count, first.name);
        }
    }
    return mlxn_fail(MLXN_NOT_FOUND, "mlxn_device_open: there is no device \"%.40s\" here%s", name, source);
}

static mlxn_status open_device(const char *name, const mlxn_device_options *options, mlxn_device **device) {
    mlxn_status status = check_options(options);
    if (status != MLXN_OK) {
        return status;
    }
    entry found;
    if (!find(name, &found)) {
        const char *asked = name != NULL ? name : getenv("MLXN_DEVICE");
        return no_device(asked != NULL ? asked : "", name == NULL ? " (MLXN_DEVICE names it)" : "");
    }
    if (!found.info.available) {
        return mlxn_fail(MLXN_NOT_FOUND, "mlxn_device_open: %s is not available: %s", found.info.name,
                         found.info.reason);
    }
    const mlxn_allocator *allocator =
        options != NULL && options->allocator != NULL ? options->allocator : &mlxn_default_allocator;
    mlxn_device *opened = mlxn_allocate(allocator, sizeof *opened, _Alignof(mlxn_device));
    if (opened == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "mlxn_device_open: no memory for the handle");
    }
    *opened = (mlxn_device){.references = 1,
                            .backend = found.backend,
                            .allocator = *allocator,
                            .info = found.info,
                            .lock = PTHREAD_MUTEX_INITIALIZER};
    mlxn_registry_init(&opened->registry);
    status = opened->backend->open(opened, found.index, options);
    if (status != MLXN_OK) {
        mlxn_registry_clear(opened);
        free_device(opened);
        return status;
    }
    pthread_once(&fork_once, watch_forks);
    link_device(opened);
    *device = opened;
    return MLXN_OK;
}

mlxn_status mlxn_device_open(const char *name, const mlxn_device_options *options, mlxn_device **device) {
    if (device == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_device_open: device is NULL");
    }
    *device = NULL;
    const mlxn_environment_kept kept = mlxn_enter_drivers();
    const mlxn_status status = open_device(name, options, device);
    mlxn_leave_driver(&kept);
    return status;
}

mlxn_device *mlxn_device_retain(mlxn_device *device) {
    atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
    return device;
}

void mlxn_device_release(mlxn_device *device) {
    if (atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) == 1) {
        unlink_device(device);
        mlxn_registry_clear(device);
        const mlxn_environment_kept kept = mlxn_enter_driver(device);
        device->backend->close(device);
        mlxn_leave_driver(&kept);
        free_device(device);
    }
}

void mlxn_device_destroy(mlxn_device *device) {
    if (device != NULL) {
        mlxn_device_release(device);
    }
}

mlxn_status mlxn_device_get_info(const mlxn_device *device, mlxn_device_info *info) {
    if (device == NULL || info == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_device_get_info: %s is NULL", device == NULL ? "device" : "info");
    }
    if (info->size != sizeof *info) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_device_get_info: info->size is %zu, expected %zu", info->size,
                         sizeof *info);
    }
    *info = device->info;
    return MLXN_OK;
}
