#include "core/registry.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "core/device.h"

void mlxn_registry_init(mlxn_registry *registry) {
    *registry = (mlxn_registry){.lock = PTHREAD_MUTEX_INITIALIZER};
}

static void free_kernel(const mlxn_allocator *allocator, mlxn_kernel *kernel) {
    if (kernel->name_bytes > 0) {
        mlxn_free(allocator, (void *)(uintptr_t)kernel->name, kernel->name_bytes);
    }
    mlxn_free(allocator, kernel, sizeof *kernel);
}

void mlxn_registry_clear(mlxn_device *device) {
    mlxn_registry *registry = &device->registry;
    for (size_t i = 0; i < registry->count; i++) {
        free_kernel(&device->allocator, registry->kernels[i]);
    }
    mlxn_free(&device->allocator, registry->kernels, registry->capacity * sizeof *registry->kernels);
    mlxn_free(&device->allocator, registry->slots, registry->slot_count * sizeof *registry->slots);
    pthread_mutex_destroy(&registry->lock);
}

/* The slot of `name`: where it is, or the free one where it would go. There always is a free one. */
static uint32_t *slot_of(const mlxn_registry *registry, const char *name) {
    const size_t mask = registry->slot_count - 1;
    size_t at = (size_t)XXH3_64bits(name, strlen(name)) & mask;
    while (registry->slots[at] != 0 && strcmp(registry->kernels[registry->slots[at] - 1]->name, name) != 0) {
        at = (at + 1) & mask;
    }
    return &registry->slots[at];
}

/* Makes room for one more kernel, with at most half of the slots in use. */
static bool make_room(const mlxn_allocator *allocator, mlxn_registry *registry) {
    if (registry->count == registry->capacity) {
        void *kernels = registry->kernels;
        if (!mlxn_grow(allocator, &kernels, &registry->capacity, sizeof *registry->kernels)) {
            return false;
        }
        registry->kernels = kernels;
    }
    if (2 * (registry->count + 1) <= registry->slot_count) {
        return true;
    }
    mlxn_registry larger = *registry;
    larger.slot_count = registry->slot_count > 0 ? 2 * registry->slot_count : 64;
    larger.slots = mlxn_allocate_zeroed(allocator, larger.slot_count * sizeof *larger.slots);
    if (larger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < registry->count; i++) {
        *slot_of(&larger, registry->kernels[i]->name) = (uint32_t)i + 1;
    }
    mlxn_free(allocator, registry->slots, registry->slot_count * sizeof *registry->slots);
    registry->slots = larger.slots;
    registry->slot_count = larger.slot_count;
    return true;
}

static mlxn_status add(mlxn_device *device, const mlxn_kernel *kernel) {
    mlxn_registry *registry = &device->registry;
    mlxn_kernel *copy = mlxn_allocate(&device->allocator, sizeof *copy, _Alignof(mlxn_kernel));
    if (copy == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "no memory to add kernel \"%.80s\"", kernel->name);
    }
    *copy = *kernel;
    mlxn_status status = MLXN_OK;
    pthread_mutex_lock(&registry->lock);
    if (!make_room(&device->allocator, registry)) {
        status = mlxn_fail(MLXN_OUT_OF_MEMORY, "no memory to add kernel \"%.80s\"", kernel->name);
    } else {
        uint32_t *slot = slot_of(registry, kernel->name);
        if (*slot != 0) {
            status =
                mlxn_fail(MLXN_ALREADY_EXISTS, "a kernel called \"%.80s\" is in the registry already", kernel->name);
        } else {
            registry->kernels[registry->count++] = copy;
            *slot = (uint32_t)registry->count;
        }
    }
    pthread_mutex_unlock(&registry->lock);
    if (status != MLXN_OK) {
        mlxn_free(&device->allocator, copy, sizeof *copy);
    }
    return status;
}

mlxn_status mlxn_registry_add_built_in(mlxn_device *device, const char *name, mlxn_function function) {
    return add(device, &(mlxn_kernel){.name = name, .function = function, .built_in = true});
}

mlxn_status mlxn_registry_add_function(mlxn_device *device, const char *name, mlxn_function function) {
    if (device == NULL || name == NULL || function == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_registry_add_function: %s is NULL",
                         device == NULL ? "device"
                         : name == NULL ? "name"
                                        : "function");
    }
    if (name[0] == '\0') {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_registry_add_function: name is empty");
    }
    if (!device->backend->takes_functions) {
        return mlxn_fail(MLXN_UNSUPPORTED, "mlxn_registry_add_function: %s runs source code, not functions",
                         device->info.name);
    }
    const size_t bytes = strlen(name) + 1;
    char *copy = mlxn_allocate(&device->allocator, bytes, 1);
    if (copy == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "mlxn_registry_add_function: no memory for the name");
    }
    memcpy(copy, name, bytes);
    const mlxn_status status = add(device, &(mlxn_kernel){.name = copy, .function = function, .name_bytes = bytes});
    if (status != MLXN_OK) {
        mlxn_free(&device->allocator, copy, bytes);
    }
    return status;
}

mlxn_status mlxn_registry_add_source(mlxn_device *device, const char *name, const char *source) {
    if (device == NULL || name == NULL || source == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_registry_add_source: %s is NULL",
                         device == NULL ? "device"
                         : name == NULL ? "name"
                                        : "source");
    }
    return mlxn_fail(MLXN_UNSUPPORTED, "mlxn_registry_add_source: %s runs functions, not source code",
                     device->info.name);
}

const mlxn_kernel *mlxn_registry_find(mlxn_device *device, const char *name) {
    mlxn_registry *registry = &device->registry;
    pthread_mutex_lock(&registry->lock);
    const uint32_t index = registry->slot_count > 0 ? *slot_of(registry, name) : 0;
    const mlxn_kernel *kernel = index != 0 ? registry->kernels[index - 1] : NULL;
    pthread_mutex_unlock(&registry->lock);
    return kernel;
}

size_t mlxn_registry_count(const mlxn_device *device) {
    if (device == NULL) {
        return 0;
    }
    mlxn_registry *registry = (mlxn_registry *)(uintptr_t)&device->registry;
    pthread_mutex_lock(&registry->lock);
    const size_t count = registry->count;
    pthread_mutex_unlock(&registry->lock);
    return count;
}

const char *mlxn_registry_name(const mlxn_device *device, size_t index) {
    if (device == NULL) {
        return NULL;
    }
    mlxn_registry *registry = (mlxn_registry *)(uintptr_t)&device->registry;
    pthread_mutex_lock(&registry->lock);
    const char *name = index < registry->count ? registry->kernels[index]->name : NULL;
    pthread_mutex_unlock(&registry->lock);
    return name;
}
