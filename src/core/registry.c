#include "core/registry.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "core/device.h"
#include "core/environment.h"

void mlxn_registry_init(mlxn_registry *registry) {
    *registry = (mlxn_registry){.lock = PTHREAD_MUTEX_INITIALIZER, .compiling = PTHREAD_MUTEX_INITIALIZER};
}

static void free_kernel(mlxn_device *device, mlxn_kernel *kernel) {
    if (kernel->compiled != NULL) {
        device->backend->unload(device, kernel);
    }
    if (kernel->failure != NULL) {
        mlxn_free(&device->allocator, kernel->failure, strlen(kernel->failure) + 1);
    }
    if (kernel->copied_bytes > 0) {
        mlxn_free(&device->allocator, (void *)(uintptr_t)kernel->name, kernel->copied_bytes);
    }
    mlxn_free(&device->allocator, kernel, sizeof *kernel);
}

void mlxn_registry_clear(mlxn_device *device) {
    mlxn_registry *registry = &device->registry;
    const mlxn_environment_kept kept = mlxn_enter_driver(device);
    for (size_t i = 0; i < registry->count; i++) {
        free_kernel(device, registry->kernels[i]);
    }
    mlxn_leave_driver(&kept);
    mlxn_free(&device->allocator, registry->kernels, registry->capacity * sizeof *registry->kernels);
    mlxn_free(&device->allocator, registry->slots, registry->slot_count * sizeof *registry->slots);
    pthread_mutex_destroy(&registry->lock);
    pthread_mutex_destroy(&registry->compiling);
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
    if (copy->copied_bytes > 0 && copy->function == NULL) {
        copy->text = copy->own_text;
    }
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

mlxn_status mlxn_registry_add_built_in(mlxn_device *device, const mlxn_kernel *kernel) {
    mlxn_kernel built_in = *kernel;
    built_in.built_in = true;
    return add(device, &built_in);
}

/* Adds a kernel of the user's, a function or a text. `what` is that argument's name. */
static mlxn_status add_users(const char *call, mlxn_device *device, const char *name, mlxn_function function,
                             const char *text, const char *what) {
    if (device == NULL || name == NULL || (function == NULL && text == NULL)) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s is NULL", call,
                         device == NULL ? "device"
                         : name == NULL ? "name"
                                        : what);
    }
    if (name[0] == '\0') {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: name is empty", call);
    }
    if ((device->backend->compile == NULL) != (function != NULL)) {
        return mlxn_fail(MLXN_UNSUPPORTED, "%s: %s runs %s", call, device->info.name,
                         function != NULL ? "source code, not functions" : "functions, not source code");
    }
    const size_t name_bytes = strlen(name) + 1, text_bytes = text != NULL ? strlen(text) + 1 : 0;
    char *copy = mlxn_allocate(&device->allocator, name_bytes + text_bytes, 1);
    if (copy == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "%s: no memory for the name", call);
    }
    memcpy(copy, name, name_bytes);
    if (text != NULL) {
        memcpy(copy + name_bytes, text, text_bytes);
    }
    const mlxn_status status = add(device, &(mlxn_kernel){.name = copy,
                                                          .function = function,
                                                          .copied_bytes = name_bytes + text_bytes,
                                                          .own_text = {copy + name_bytes}});
    if (status != MLXN_OK) {
        mlxn_free(&device->allocator, copy, name_bytes + text_bytes);
    }
    return status;
}

mlxn_status mlxn_registry_add_function(mlxn_device *device, const char *name, mlxn_function function) {
    return add_users("mlxn_registry_add_function", device, name, function, NULL, "function");
}

mlxn_status mlxn_registry_add_source(mlxn_device *device, const char *name, const char *source) {
    return add_users("mlxn_registry_add_source", device, name, NULL, source, "source");
}

/* Keeps the thread's message. Without memory for it, the text will be tried again. */
static void remember_failure(const mlxn_device *device, mlxn_kernel *kernel) {
    const char *message = mlxn_last_error();
    const size_t bytes = strlen(message) + 1;
    char *failure = mlxn_allocate(&device->allocator, bytes, 1);
    if (failure != NULL) {
        memcpy(failure, message, bytes);
        kernel->failure = failure;
    }
}

static mlxn_status compile_once(mlxn_device *device, mlxn_kernel *kernel) {
    const char *failure = kernel->failure;
    if (failure != NULL) {
        return mlxn_fail(MLXN_COMPILE_FAILED, "%s", failure);
    }
    if (kernel->compiled != NULL) {
        return MLXN_OK;
    }
    const mlxn_environment_kept kept = mlxn_enter_driver(device);
    const mlxn_status status = device->backend->compile(device, kernel);
    mlxn_leave_driver(&kept);
    /* Our own texts compile: what failed there, as any other failure, is not the text's, and may pass. */
    if (status == MLXN_COMPILE_FAILED && !kernel->built_in) {
        remember_failure(device, kernel);
    }
    return status;
}

mlxn_status mlxn_registry_compile(mlxn_device *device, mlxn_kernel *kernel) {
    if (kernel->text == NULL || kernel->compiled != NULL) {
        return MLXN_OK;
    }
    if (kernel->failure != NULL) { /* without waiting for another kernel's compilation */
        return compile_once(device, kernel);
    }
    pthread_mutex_lock(&device->registry.compiling);
    const mlxn_status status = compile_once(device, kernel);
    pthread_mutex_unlock(&device->registry.compiling);
    return status;
}

mlxn_kernel *mlxn_registry_find(mlxn_device *device, const char *name) {
    mlxn_registry *registry = &device->registry;
    pthread_mutex_lock(&registry->lock);
    const uint32_t index = registry->slot_count > 0 ? *slot_of(registry, name) : 0;
    mlxn_kernel *kernel = index != 0 ? registry->kernels[index - 1] : NULL;
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
