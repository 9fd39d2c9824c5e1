#include "core/encoder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/environment.h"

/* Records and what follows them live in chunks that a reset keeps. */
typedef struct chunk {
    struct chunk *next;
    size_t bytes; /* of the whole chunk */
    size_t used;
} chunk;
enum { CHUNK_BYTES = 1 << 16, CHUNK_HEADER = 64 };

/* Memory for intermediate results, which dispatches of different waves share. */
typedef struct scratch {
    mlxn_storage *storage;
    size_t taken_at; /* the list's length then; not_taken: not since the last reset */
} scratch;
static const size_t not_taken = SIZE_MAX;

struct mlxn_encoder {
    mlxn_device *device;
    mlxn_status status; /* the sticky one */
    bool committed;
    bool timing;
    bool timed; /* a commit with timing has run */
    mlxn_list list;
    size_t wave; /* the first record since the last barrier */
    chunk *chunks, *current;
    scratch *scratch;
    size_t scratch_count, scratch_capacity;
    char message[1024];
};

/* A dispatch is compared with those it may run beside, which is why there are not many of them. */
enum { MAX_WAVE = 16 };

static chunk *new_chunk(const mlxn_allocator *allocator, size_t bytes) {
    chunk *created = mlxn_allocate(allocator, bytes, 64);
    if (created != NULL) {
        *created = (chunk){.bytes = bytes, .used = CHUNK_HEADER};
    }
    return created;
}

/* `bytes` of the arena, aligned to 16, or NULL. */
static void *arena_take(mlxn_encoder *encoder, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    chunk *current = encoder->current;
    if (current->used + bytes > current->bytes) {
        if (current->next == NULL) {
            current->next = new_chunk(&encoder->device->allocator, CHUNK_BYTES);
            if (current->next == NULL) {
                return NULL;
            }
        }
        current = encoder->current = current->next;
        current->used = CHUNK_HEADER;
    }
    void *taken = (char *)current + current->used;
    current->used += bytes;
    return taken;
}

mlxn_status mlxn_encoder_create(mlxn_device *device, const mlxn_encoder_options *options, mlxn_encoder **encoder) {
    if (encoder == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encoder_create: encoder is NULL");
    }
    *encoder = NULL;
    if (device == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encoder_create: device is NULL");
    }
    if (options != NULL && options->size != sizeof *options) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encoder_create: options->size is %zu, expected %zu",
                         options->size, sizeof *options);
    }
    mlxn_encoder *created = mlxn_allocate(&device->allocator, sizeof *created, _Alignof(mlxn_encoder));
    chunk *first = new_chunk(&device->allocator, CHUNK_BYTES);
    if (created == NULL || first == NULL) {
        mlxn_free(&device->allocator, created, sizeof *created);
        mlxn_free(&device->allocator, first, CHUNK_BYTES);
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "mlxn_encoder_create: no memory for the encoder");
    }
    *created = (mlxn_encoder){.device = mlxn_device_retain(device),
                              .timing = options != NULL && options->timing,
                              .chunks = first,
                              .current = first};
    *encoder = created;
    return MLXN_OK;
}

void mlxn_encoder_rewind(mlxn_encoder *encoder, size_t count) {
    while (encoder->list.count > count) {
        const mlxn_record *record = encoder->list.records[--encoder->list.count];
        for (uint32_t i = 0; i < record->slice_count; i++) {
            mlxn_storage_release(record->slices[i].storage);
        }
    }
    /* The wave goes back to the last barrier that is left. */
    encoder->wave = count;
    while (encoder->wave > 0 && (encoder->wave == count || !encoder->list.records[encoder->wave]->barrier)) {
        encoder->wave--;
    }
}

/* Waits for the encoder's work and empties the list. */
static void finish_work(mlxn_encoder *encoder) {
    const mlxn_backend *backend = encoder->device->backend;
    const mlxn_environment_kept kept = mlxn_enter_driver(encoder->device);
    backend->wait(encoder->device, &encoder->list);
    if (backend->forget != NULL) {
        backend->forget(encoder->device, &encoder->list);
    }
    mlxn_leave_driver(&kept);
    mlxn_encoder_rewind(encoder, 0);
}

void mlxn_encoder_destroy(mlxn_encoder *encoder) {
    if (encoder == NULL) {
        return;
    }
    mlxn_device *device = encoder->device;
    const mlxn_allocator *allocator = &device->allocator;
    finish_work(encoder);
    for (size_t i = 0; i < encoder->scratch_count; i++) {
        mlxn_storage_release(encoder->scratch[i].storage);
    }
    mlxn_free(allocator, encoder->scratch, encoder->scratch_capacity * sizeof *encoder->scratch);
    mlxn_free(allocator, encoder->list.records, encoder->list.capacity * sizeof(mlxn_record *));
    for (chunk *at = encoder->chunks, *next; at != NULL; at = next) {
        next = at->next;
        mlxn_free(allocator, at, at->bytes);
    }
    mlxn_free(allocator, encoder, sizeof *encoder);
    mlxn_device_release(device);
}

mlxn_status mlxn_encoder_reset(mlxn_encoder *encoder) {
    if (encoder == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encoder_reset: encoder is NULL");
    }
    finish_work(encoder);
    encoder->status = MLXN_OK;
    encoder->message[0] = '\0';
    encoder->committed = encoder->timed = false;
    for (size_t i = 0; i < encoder->scratch_count; i++) {
        encoder->scratch[i].taken_at = not_taken;
    }
    encoder->current = encoder->chunks;
    encoder->current->used = CHUNK_HEADER;
    return MLXN_OK;
}

mlxn_device *mlxn_encoder_device(const mlxn_encoder *encoder) {
    return encoder->device;
}

mlxn_status mlxn_encoder_fail(mlxn_encoder *encoder, mlxn_status status) {
    if (encoder->status == MLXN_OK) {
        encoder->status = status;
        snprintf(encoder->message, sizeof encoder->message, "%s", mlxn_last_error());
    }
    return status;
}

mlxn_status mlxn_encoder_open_for(mlxn_encoder *encoder, const char *call) {
    if (encoder->status != MLXN_OK) {
        return mlxn_fail(encoder->status, "%s", encoder->message);
    }
    if (encoder->committed) {
        return mlxn_encoder_fail(
            encoder,
            mlxn_fail(MLXN_INVALID_STATE, "%s: the encoder is committed, expected one open for recording", call));
    }
    return MLXN_OK;
}

mlxn_slice mlxn_slice_of(const mlxn_buffer *buffer, mlxn_access access) {
    return (mlxn_slice){buffer->storage, buffer->offset, buffer->bytes, access};
}

uintptr_t mlxn_slice_begin(const mlxn_slice *slice) {
    return slice->storage->memory.address + slice->offset;
}

bool mlxn_slices_overlap(const mlxn_slice *a, const mlxn_slice *b) {
    return mlxn_slice_begin(a) < mlxn_slice_begin(b) + b->bytes && mlxn_slice_begin(b) < mlxn_slice_begin(a) + a->bytes;
}

/* Whether two dispatches touch the same memory and one of them writes it. */
static bool conflict(const mlxn_record *a, const mlxn_record *b) {
    for (uint32_t i = 0; i < a->slice_count; i++) {
        for (uint32_t j = 0; j < b->slice_count; j++) {
            const unsigned either = (unsigned)a->slices[i].access | (unsigned)b->slices[j].access;
            if ((either & MLXN_WRITE) != 0 && mlxn_slices_overlap(&a->slices[i], &b->slices[j])) {
                return true;
            }
        }
    }
    return false;
}

static bool needs_barrier(const mlxn_encoder *encoder, const mlxn_record *record) {
    if (encoder->list.count - encoder->wave == MAX_WAVE) {
        return true;
    }
    for (size_t i = encoder->wave; i < encoder->list.count; i++) {
        if (conflict(encoder->list.records[i], record)) {
            return true;
        }
    }
    return false;
}

/* A record with room for its slices, host pointers and constants, which follow it. */
static mlxn_record *new_record(mlxn_encoder *encoder, const mlxn_recording *recording) {
    const size_t count = recording->slice_count;
    const size_t head = (sizeof(mlxn_record) + 15) & ~(size_t)15;
    const size_t constants = (recording->constant_bytes + 15) & ~(size_t)15;
    char *memory = arena_take(encoder, head + constants + count * (sizeof(mlxn_slice) + sizeof(void *)));
    if (memory == NULL) {
        return NULL;
    }
    mlxn_record *record = (mlxn_record *)memory;
    mlxn_slice *slices = (mlxn_slice *)(memory + head + constants);
    void **pointers = (void **)(slices + count);
    *record = (mlxn_record){
        .call = {.buffers = pointers, .constants = memory + head}, .slices = slices, .slice_count = (uint32_t)count};
    if (recording->constant_bytes > 0) {
        memcpy(memory + head, recording->constants, recording->constant_bytes);
    }
    for (size_t i = 0; i < count; i++) {
        slices[i] = recording->slices[i];
        pointers[i] = (void *)mlxn_slice_begin(&slices[i]);
    }
    return record;
}

mlxn_status mlxn_encoder_record(mlxn_encoder *encoder, const mlxn_recording *recording) {
    mlxn_device *device = encoder->device;
    mlxn_kernel *kernel = mlxn_registry_find(device, recording->kernel);
    if (kernel == NULL) {
        return mlxn_fail(MLXN_NOT_FOUND, "%s: %s has no kernel of this name", recording->kernel, device->info.name);
    }
    const mlxn_status status = mlxn_registry_compile(device, kernel);
    if (status != MLXN_OK) {
        return status;
    }
    mlxn_list *list = &encoder->list;
    if (list->count == list->capacity) {
        void *records = list->records;
        if (!mlxn_grow(&device->allocator, &records, &list->capacity, sizeof(mlxn_record *))) {
            return mlxn_fail(MLXN_OUT_OF_MEMORY, "%s: no memory for the encoder's list", recording->kernel);
        }
        list->records = records;
    }
    mlxn_record *record = new_record(encoder, recording);
    if (record == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "%s: no memory for the encoder's list", recording->kernel);
    }
    size_t written = 0;
    for (size_t i = 0; i < recording->slice_count; i++) {
        mlxn_storage_retain(record->slices[i].storage);
        if ((record->slices[i].access & MLXN_WRITE) != 0) {
            written += record->slices[i].bytes;
        }
    }
    record->kernel = kernel;
    record->constant_bytes = (uint32_t)recording->constant_bytes;
    record->local_bytes = recording->local_bytes;
    record->resident_groups = recording->resident_groups;
    memcpy(record->call.grid, recording->grid, sizeof record->call.grid);
    memcpy(record->group, recording->group, sizeof record->group);
    record->groups = recording->grid[0] * recording->grid[1] * recording->grid[2];
    record->cost = recording->cost;
    record->call.streaming = device->info.cache_bytes > 0 && written > device->info.cache_bytes / 2;
    record->barrier = needs_barrier(encoder, record);
    if (record->barrier) {
        encoder->wave = list->count;
    }
    list->records[list->count++] = record;
    return MLXN_OK;
}

/* Whether a dispatch of the wave that is being recorded uses it, or the next will. The waves before are done by then. */
static bool is_busy(const mlxn_encoder *encoder, const scratch *its) {
    const mlxn_list *list = &encoder->list;
    bool busy = its->taken_at == list->count;
    for (size_t i = encoder->wave; !busy && i < list->count; i++) {
        for (uint32_t k = 0; !busy && k < list->records[i]->slice_count; k++) {
            busy = list->records[i]->slices[k].storage == its->storage;
        }
    }
    return busy;
}

/* The first that is large enough and not busy, or `scratch_count`. `*small`: one that is not busy, or `scratch_count`. */
static size_t find_scratch(const mlxn_encoder *encoder, size_t bytes, size_t *small) {
    *small = encoder->scratch_count;
    for (size_t i = 0; i < encoder->scratch_count; i++) {
        if (!is_busy(encoder, &encoder->scratch[i])) {
            if (encoder->scratch[i].storage->memory.bytes >= bytes) {
                return i;
            }
            *small = i;
        }
    }
    return encoder->scratch_count;
}

mlxn_status mlxn_encoder_scratch(mlxn_encoder *encoder, size_t bytes, mlxn_slice *slice) {
    size_t small, fit = find_scratch(encoder, bytes, &small);
    if (fit == encoder->scratch_count) {
        if (fit == encoder->scratch_capacity) {
            void *grown = encoder->scratch;
            if (!mlxn_grow(&encoder->device->allocator, &grown, &encoder->scratch_capacity, sizeof *encoder->scratch)) {
                return mlxn_fail(MLXN_OUT_OF_MEMORY, "no memory for intermediate results");
            }
            encoder->scratch = grown;
        }
        mlxn_storage *created;
        const mlxn_status status = mlxn_storage_create(encoder->device, bytes, "intermediate results", &created);
        if (status != MLXN_OK) {
            return status;
        }
        if (small < encoder->scratch_count) {
            /* It takes the place of what is too small, so that growing shapes do not pile memory up. */
            fit = small;
            mlxn_storage_release(encoder->scratch[fit].storage);
        } else {
            encoder->scratch_count++;
        }
        encoder->scratch[fit].storage = created;
    }
    encoder->scratch[fit].taken_at = encoder->list.count;
    *slice = (mlxn_slice){encoder->scratch[fit].storage, 0, bytes, MLXN_READ_WRITE};
    return MLXN_OK;
}

mlxn_status mlxn_encoder_commit(mlxn_encoder *encoder) {
    if (encoder == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encoder_commit: encoder is NULL");
    }
    if (encoder->status != MLXN_OK) {
        return mlxn_fail(encoder->status, "%s", encoder->message);
    }
    mlxn_device *device = encoder->device;
    encoder->committed = true;
    pthread_mutex_lock(&device->lock);
    const mlxn_environment_kept kept = mlxn_enter_driver(device);
    const mlxn_status status = device->backend->commit(device, &encoder->list, encoder->timing);
    mlxn_leave_driver(&kept);
    pthread_mutex_unlock(&device->lock);
    encoder->timed = encoder->timing && status == MLXN_OK;
    return status;
}

mlxn_status mlxn_encoder_wait(mlxn_encoder *encoder) {
    if (encoder == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encoder_wait: encoder is NULL");
    }
    const mlxn_environment_kept kept = mlxn_enter_driver(encoder->device);
    const mlxn_status status = encoder->device->backend->wait(encoder->device, &encoder->list);
    mlxn_leave_driver(&kept);
    return status;
}

mlxn_status mlxn_encoder_commit_and_wait(mlxn_encoder *encoder) {
    const mlxn_status status = mlxn_encoder_commit(encoder);
    return status == MLXN_OK ? mlxn_encoder_wait(encoder) : status;
}

const char *mlxn_encoder_message(const mlxn_encoder *encoder) {
    return encoder != NULL ? encoder->message : "";
}

size_t mlxn_encoder_dispatches(const mlxn_encoder *encoder) {
    return encoder != NULL ? encoder->list.count : 0;
}

mlxn_status mlxn_encoder_timing(const mlxn_encoder *encoder, size_t index, const char **kernel, uint64_t *nanoseconds) {
    if (encoder == NULL || kernel == NULL || nanoseconds == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encoder_timing: %s is NULL",
                         encoder == NULL  ? "encoder"
                         : kernel == NULL ? "kernel"
                                          : "nanoseconds");
    }
    if (!encoder->timed) {
        return mlxn_fail(MLXN_INVALID_STATE, encoder->timing
                                                 ? "mlxn_encoder_timing: nothing was committed yet"
                                                 : "mlxn_encoder_timing: the encoder was created without timing");
    }
    if (index >= encoder->list.count) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encoder_timing: index is %zu, expected less than %zu", index,
                         encoder->list.count);
    }
    *kernel = encoder->list.records[index]->kernel->name;
    *nanoseconds = encoder->list.records[index]->nanoseconds;
    return MLXN_OK;
}

/* ---- kernels that users add --------------------------------------------------------------------- */

static const char dispatch_call[] = "mlxn_encoder_dispatch";

static mlxn_status check_bindings(const mlxn_encoder *encoder, const mlxn_dispatch *dispatch, mlxn_slice *slices) {
    for (size_t i = 0; i < dispatch->binding_count; i++) {
        const mlxn_binding *binding = &dispatch->bindings[i];
        if (binding->buffer == NULL) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s: buffer %zu is NULL", dispatch_call, dispatch->kernel, i);
        }
        if (binding->buffer->storage->device != encoder->device) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s: buffer %zu is another device's", dispatch_call,
                             dispatch->kernel, i);
        }
        if (binding->access < MLXN_READ || binding->access > MLXN_READ_WRITE) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s: buffer %zu has access %d, expected 1, 2 or 3",
                             dispatch_call, dispatch->kernel, i, (int)binding->access);
        }
        if ((binding->access & MLXN_WRITE) != 0 && binding->buffer->storage->read_only) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s: buffer %zu is read-only and would be written",
                             dispatch_call, dispatch->kernel, i);
        }
        slices[i] = mlxn_slice_of(binding->buffer, binding->access);
        for (size_t j = 0; j < i; j++) {
            const bool same = mlxn_slice_begin(&slices[i]) == mlxn_slice_begin(&slices[j]) &&
                              slices[i].bytes == slices[j].bytes && slices[i].access == MLXN_READ_WRITE &&
                              slices[j].access == MLXN_READ_WRITE;
            const unsigned either = (unsigned)slices[i].access | (unsigned)slices[j].access;
            if ((either & MLXN_WRITE) != 0 && !same && mlxn_slices_overlap(&slices[i], &slices[j])) {
                return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s: buffers %zu and %zu overlap and one is written",
                                 dispatch_call, dispatch->kernel, j, i);
            }
        }
    }
    return MLXN_OK;
}

static mlxn_status check_dispatch(const mlxn_encoder *encoder, const mlxn_dispatch *dispatch) {
    if (dispatch->size != sizeof *dispatch) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: dispatch->size is %zu, expected %zu", dispatch_call,
                         dispatch->size, sizeof *dispatch);
    }
    if (dispatch->kernel == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: dispatch->kernel is NULL", dispatch_call);
    }
    const mlxn_kernel *kernel = mlxn_registry_find(encoder->device, dispatch->kernel);
    if (kernel == NULL) {
        return mlxn_fail(MLXN_NOT_FOUND, "%s: the registry has no kernel \"%.80s\"", dispatch_call, dispatch->kernel);
    }
    if (kernel->built_in) {
        return mlxn_fail(MLXN_UNSUPPORTED, "%s: %s is built in: record it through its op", dispatch_call, kernel->name);
    }
    if (dispatch->binding_count > MLXN_MAX_BINDINGS || (dispatch->bindings == NULL && dispatch->binding_count > 0)) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s: expected at most %d bindings, in an array", dispatch_call,
                         kernel->name, MLXN_MAX_BINDINGS);
    }
    if (dispatch->constant_bytes > MLXN_MAX_CONSTANT_BYTES ||
        (dispatch->constants == NULL && dispatch->constant_bytes > 0)) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s: expected at most %d bytes of constants", dispatch_call,
                         kernel->name, MLXN_MAX_CONSTANT_BYTES);
    }
    uint64_t groups = 1;
    for (size_t i = 0; i < 3; i++) {
        if (dispatch->grid[i] == 0 || dispatch->group[i] == 0) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s: an extent of grid or group is 0", dispatch_call,
                             kernel->name);
        }
        if (__builtin_mul_overflow(groups, dispatch->grid[i], &groups)) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s: the grid has more groups than 64 bits count",
                             dispatch_call, kernel->name);
        }
    }
    return MLXN_OK;
}

mlxn_status mlxn_encoder_dispatch(mlxn_encoder *encoder, const mlxn_dispatch *dispatch) {
    if (encoder == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: encoder is NULL", dispatch_call);
    }
    mlxn_status status = mlxn_encoder_open_for(encoder, dispatch_call);
    if (status != MLXN_OK) {
        return status;
    }
    mlxn_slice slices[MLXN_MAX_BINDINGS];
    status = dispatch != NULL ? check_dispatch(encoder, dispatch)
                              : mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: dispatch is NULL", dispatch_call);
    if (status == MLXN_OK) {
        status = check_bindings(encoder, dispatch, slices);
    }
    if (status == MLXN_OK) {
        mlxn_recording recording = {.kernel = dispatch->kernel,
                                    .slices = slices,
                                    .slice_count = dispatch->binding_count,
                                    .constants = dispatch->constants,
                                    .constant_bytes = dispatch->constant_bytes,
                                    .local_bytes = dispatch->local_bytes};
        memcpy(recording.grid, dispatch->grid, sizeof recording.grid);
        memcpy(recording.group, dispatch->group, sizeof recording.group);
        for (size_t i = 0; i < dispatch->binding_count; i++) {
            recording.cost += slices[i].bytes;
        }
        status = mlxn_encoder_record(encoder, &recording);
    }
    return status == MLXN_OK ? MLXN_OK : mlxn_encoder_fail(encoder, status);
}
