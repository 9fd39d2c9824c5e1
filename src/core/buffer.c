#include "core/buffer.h"

#include <inttypes.h>
#include <string.h>

#include "core/environment.h"

mlxn_storage *mlxn_storage_retain(mlxn_storage *storage) {
    atomic_fetch_add_explicit(&storage->references, 1, memory_order_relaxed);
    return storage;
}

void mlxn_storage_release(mlxn_storage *storage) {
    if (atomic_fetch_sub_explicit(&storage->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    mlxn_device *device = storage->device;
    if (!storage->wrapped) {
        const mlxn_environment_kept kept = mlxn_enter_driver(device);
        device->backend->release(device, &storage->memory);
        mlxn_leave_driver(&kept);
    } else if (storage->release != NULL) {
        storage->release(storage->context, storage->memory.host);
    }
    mlxn_free(&device->allocator, storage, sizeof *storage);
    mlxn_device_release(device);
}

/* A storage without memory yet. */
static mlxn_status new_storage(mlxn_device *device, const char *call, mlxn_storage **storage) {
    mlxn_storage *created = mlxn_allocate(&device->allocator, sizeof *created, _Alignof(mlxn_storage));
    if (created == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "%s: no memory for the handle", call);
    }
    *created = (mlxn_storage){.references = 1, .device = mlxn_device_retain(device)};
    *storage = created;
    return MLXN_OK;
}

static mlxn_status create_storage(mlxn_device *device, size_t bytes, const char *call, mlxn_storage **storage) {
    mlxn_memory memory;
    mlxn_status status = device->backend->allocate(device, bytes, &memory);
    if (status == MLXN_OUT_OF_MEMORY) {
        return mlxn_fail(status, "%s: %s has no %zu bytes of memory free", call, device->info.name, bytes);
    }
    if (status != MLXN_OK) {
        return status; /* a device that does not work, in the backend's words */
    }
    status = new_storage(device, call, storage);
    if (status != MLXN_OK) {
        device->backend->release(device, &memory);
        return status;
    }
    (*storage)->memory = memory;
    return MLXN_OK;
}

mlxn_status mlxn_storage_create(mlxn_device *device, size_t bytes, const char *call, mlxn_storage **storage) {
    const mlxn_environment_kept kept = mlxn_enter_driver(device);
    const mlxn_status status = create_storage(device, bytes, call, storage);
    mlxn_leave_driver(&kept);
    return status;
}

/* Checks dtype, rank and shape and fills them in, with the element count and the bytes. */
static mlxn_status describe(const char *call, mlxn_dtype dtype, size_t rank, const int64_t *shape,
                            mlxn_buffer *buffer) {
    const size_t size = mlxn_dtype_size(dtype);
    if (size == 0) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %d is no dtype", call, (int)dtype);
    }
    if (rank > MLXN_MAX_RANK) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: rank is %zu, expected at most %d", call, rank, MLXN_MAX_RANK);
    }
    if (shape == NULL && rank > 0) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: shape is NULL", call);
    }
    /* Zero extents are left out of the product, so that a shape is refused for its other extents alone. */
    int64_t product = (int64_t)size;
    bool empty = false;
    char text[MLXN_SHAPE_TEXT];
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] < 0) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: shape is %s, extents must not be negative", call,
                             mlxn_shape_text(text, rank, shape));
        }
        if (shape[i] == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(product, shape[i], &product)) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: shape %s of %s is more bytes than 63 bits count", call,
                             mlxn_shape_text(text, rank, shape), mlxn_dtype_name(dtype));
        }
    }
    buffer->dtype = dtype;
    buffer->rank = rank;
    if (rank > 0) {
        memcpy(buffer->shape, shape, rank * sizeof *shape);
    }
    buffer->bytes = empty ? 0 : (size_t)product;
    buffer->count = (int64_t)(buffer->bytes / size);
    return MLXN_OK;
}

/* The handle itself; takes over the reference to described->storage. */
static mlxn_status publish(const char *call, const mlxn_buffer *described, mlxn_buffer **buffer) {
    mlxn_buffer *created =
        mlxn_allocate(&described->storage->device->allocator, sizeof *created, _Alignof(mlxn_buffer));
    if (created == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "%s: no memory for the handle", call);
    }
    *created = *described;
    *buffer = created;
    return MLXN_OK;
}

/* The start of every function that makes a buffer: `source` is what the buffer is made of. */
static mlxn_status begin(const char *call, const char *source_name, const void *source, mlxn_buffer **buffer) {
    if (buffer == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: the result's pointer is NULL", call);
    }
    *buffer = NULL;
    return source != NULL ? MLXN_OK : mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s is NULL", call, source_name);
}

mlxn_status mlxn_buffer_create(mlxn_device *device, mlxn_dtype dtype, size_t rank, const int64_t *shape,
                               mlxn_buffer **buffer) {
    static const char call[] = "mlxn_buffer_create";
    mlxn_buffer made = {0};
    mlxn_status status = begin(call, "device", device, buffer);
    if (status == MLXN_OK) {
        status = describe(call, dtype, rank, shape, &made);
    }
    if (status == MLXN_OK) {
        status = mlxn_storage_create(device, made.bytes, call, &made.storage);
    }
    if (status != MLXN_OK) {
        return status;
    }
    status = publish(call, &made, buffer);
    if (status != MLXN_OK) {
        mlxn_storage_release(made.storage);
    }
    return status;
}

mlxn_status mlxn_buffer_wrap(mlxn_device *device, mlxn_dtype dtype, size_t rank, const int64_t *shape, void *memory,
                             const mlxn_wrap_options *options, mlxn_buffer **buffer) {
    static const char call[] = "mlxn_buffer_wrap";
    mlxn_buffer made = {0};
    mlxn_status status = begin(call, "device", device, buffer);
    if (status == MLXN_OK) {
        status = describe(call, dtype, rank, shape, &made);
    }
    if (status != MLXN_OK) {
        return status;
    }
    if (memory == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: memory is NULL", call);
    }
    if (options != NULL && options->size != sizeof *options) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: options->size is %zu, expected %zu", call, options->size,
                         sizeof *options);
    }
    if ((uintptr_t)memory % mlxn_dtype_size(dtype) != 0) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: memory is not aligned to the %zu bytes of %s", call,
                         mlxn_dtype_size(dtype), mlxn_dtype_name(dtype));
    }
    if (made.bytes > UINTPTR_MAX - (uintptr_t)memory) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %zu bytes from there leave the address space", call, made.bytes);
    }
    if (device->backend->compile != NULL) {
        return mlxn_fail(MLXN_UNSUPPORTED, "%s: %s does not work in host memory", call, device->info.name);
    }
    status = new_storage(device, call, &made.storage);
    if (status != MLXN_OK) {
        return status;
    }
    made.storage->wrapped = true;
    made.storage->memory = (mlxn_memory){.address = (uintptr_t)memory, .host = memory, .bytes = made.bytes};
    status = publish(call, &made, buffer);
    if (status != MLXN_OK) {
        mlxn_storage_release(made.storage);
    } else if (options != NULL) {
        made.storage->read_only = options->read_only;
        made.storage->release = options->release;
        made.storage->context = options->context;
    }
    return status;
}

/* A window into `buffer` from element `offset` on. */
static mlxn_status window(const char *call, const mlxn_buffer *buffer, int64_t offset, const mlxn_buffer *shaped,
                          mlxn_buffer **view) {
    mlxn_buffer made = *shaped;
    made.storage = buffer->storage;
    made.offset = buffer->offset + (size_t)offset * mlxn_dtype_size(buffer->dtype);
    const mlxn_status status = publish(call, &made, view);
    if (status == MLXN_OK) {
        mlxn_storage_retain(made.storage);
    }
    return status;
}

mlxn_status mlxn_buffer_view(const mlxn_buffer *buffer, int64_t offset, size_t rank, const int64_t *shape,
                             mlxn_buffer **view) {
    static const char call[] = "mlxn_buffer_view";
    mlxn_buffer made = {0};
    mlxn_status status = begin(call, "buffer", buffer, view);
    if (status == MLXN_OK) {
        status = describe(call, buffer->dtype, rank, shape, &made);
    }
    if (status != MLXN_OK) {
        return status;
    }
    if (offset < 0 || offset > buffer->count || made.count > buffer->count - offset) {
        char text[MLXN_SHAPE_TEXT];
        return mlxn_fail(MLXN_INVALID_ARGUMENT,
                         "%s: offset %" PRId64 " and shape %s do not lie within the buffer's %" PRId64 " elements",
                         call, offset, mlxn_shape_text(text, rank, shape), buffer->count);
    }
    return window(call, buffer, offset, &made, view);
}

mlxn_status mlxn_buffer_reshape(const mlxn_buffer *buffer, size_t rank, const int64_t *shape, mlxn_buffer **reshaped) {
    static const char call[] = "mlxn_buffer_reshape";
    mlxn_buffer made = {0};
    mlxn_status status = begin(call, "buffer", buffer, reshaped);
    if (status == MLXN_OK) {
        status = describe(call, buffer->dtype, rank, shape, &made);
    }
    if (status != MLXN_OK) {
        return status;
    }
    if (made.count != buffer->count) {
        char text[MLXN_SHAPE_TEXT];
        return mlxn_fail(MLXN_SHAPE_MISMATCH, "%s: shape %s has %" PRId64 " elements, expected %" PRId64, call,
                         mlxn_shape_text(text, rank, shape), made.count, buffer->count);
    }
    return window(call, buffer, 0, &made, reshaped);
}

void mlxn_buffer_destroy(mlxn_buffer *buffer) {
    if (buffer != NULL) {
        mlxn_storage *storage = buffer->storage;
        mlxn_free(&storage->device->allocator, buffer, sizeof *buffer);
        mlxn_storage_release(storage);
    }
}

/* Checks a copy between the buffer and `data`. */
static mlxn_status check_copy(const char *call, const mlxn_buffer *buffer, size_t offset, size_t size,
                              const void *data) {
    if (buffer == NULL || (data == NULL && size > 0)) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s is NULL", call, buffer == NULL ? "buffer" : "data");
    }
    if (offset > buffer->bytes || size > buffer->bytes - offset) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT,
                         "%s: %zu bytes from offset %zu do not lie within the buffer's %zu bytes", call, size, offset,
                         buffer->bytes);
    }
    return MLXN_OK;
}

mlxn_status mlxn_buffer_read(const mlxn_buffer *buffer, size_t offset, size_t size, void *data) {
    mlxn_status status = check_copy("mlxn_buffer_read", buffer, offset, size, data);
    if (status == MLXN_OK && size > 0) {
        mlxn_device *device = buffer->storage->device;
        pthread_mutex_lock(&device->lock);
        const mlxn_environment_kept kept = mlxn_enter_driver(device);
        status = device->backend->copy_out(device, &buffer->storage->memory, buffer->offset + offset, size, data);
        mlxn_leave_driver(&kept);
        pthread_mutex_unlock(&device->lock);
    }
    return status;
}

mlxn_status mlxn_buffer_write(mlxn_buffer *buffer, size_t offset, size_t size, const void *data) {
    mlxn_status status = check_copy("mlxn_buffer_write", buffer, offset, size, data);
    if (status == MLXN_OK && buffer->storage->read_only) {
        status = mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_buffer_write: the buffer is read-only");
    }
    if (status == MLXN_OK && size > 0) {
        mlxn_device *device = buffer->storage->device;
        pthread_mutex_lock(&device->lock);
        const mlxn_environment_kept kept = mlxn_enter_driver(device);
        status = device->backend->copy_in(device, &buffer->storage->memory, buffer->offset + offset, size, data);
        mlxn_leave_driver(&kept);
        pthread_mutex_unlock(&device->lock);
    }
    return status;
}

mlxn_status mlxn_buffer_map(const mlxn_buffer *buffer, void **data) {
    if (buffer == NULL || data == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_buffer_map: %s is NULL", buffer == NULL ? "buffer" : "data");
    }
    mlxn_storage *storage = buffer->storage;
    if (storage->memory.host == NULL) {
        return mlxn_fail(MLXN_UNSUPPORTED, "mlxn_buffer_map: the memory of %s is not the host's",
                         storage->device->info.name);
    }
    /* Work that is committed holds the lock until it is done. */
    pthread_mutex_lock(&storage->device->lock);
    pthread_mutex_unlock(&storage->device->lock);
    *data = (char *)storage->memory.host + buffer->offset;
    return MLXN_OK;
}

mlxn_dtype mlxn_buffer_dtype(const mlxn_buffer *buffer) {
    return buffer != NULL ? buffer->dtype : MLXN_F32;
}

size_t mlxn_buffer_rank(const mlxn_buffer *buffer) {
    return buffer != NULL ? buffer->rank : 0;
}

const int64_t *mlxn_buffer_shape(const mlxn_buffer *buffer) {
    return buffer != NULL ? buffer->shape : NULL;
}

int64_t mlxn_buffer_count(const mlxn_buffer *buffer) {
    return buffer != NULL ? buffer->count : 0;
}

size_t mlxn_buffer_bytes(const mlxn_buffer *buffer) {
    return buffer != NULL ? buffer->bytes : 0;
}

bool mlxn_buffer_read_only(const mlxn_buffer *buffer) {
    return buffer != NULL && buffer->storage->read_only;
}
