/* Buffers to files. */
#include "io/internal.h"

#include <stdlib.h>

/* What a call of mlxn_save_all holds. */
typedef struct saving {
    const mlxn_save_file *files;
    mlxn_io_target *targets;
    size_t count;
    void *staging; /* MLXN_IO_PIECE bytes */
} saving;

static mlxn_status check_file(const mlxn_save_file *file) {
    static const char call[] = "mlxn_save";
    if (file->size != sizeof *file) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: file->size is %zu, expected %zu", call, file->size,
                            sizeof *file);
    }
    if (file->path == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: path is NULL", call);
    }
    if (file->format != MLXN_NPY && file->format != MLXN_SAFETENSORS) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: format %d is unknown", file->path, (int)file->format);
    }
    if (file->tensors == NULL && file->tensor_count > 0) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: tensors is NULL", file->path);
    }
    if (file->metadata == NULL && file->metadata_count > 0) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: metadata is NULL", file->path);
    }
    if (file->format == MLXN_NPY && (file->tensor_count != 1 || file->metadata_count != 0)) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: a .npy file holds one tensor and no metadata; %zu and %zu came",
                            file->path, file->tensor_count, file->metadata_count);
    }
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (file->tensors[i].buffer == NULL) {
            return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: the buffer of tensor %zu is NULL", file->path, i);
        }
    }
    return MLXN_OK;
}

static mlxn_status write_data(mlxn_io_target *target, const mlxn_buffer *buffer, void *staging) {
    const size_t bytes = mlxn_buffer_bytes(buffer);
    for (size_t done = 0; done < bytes;) {
        const size_t size = bytes - done < MLXN_IO_PIECE ? bytes - done : MLXN_IO_PIECE;
        mlxn_status status = mlxn_buffer_read(buffer, done, size, staging);
        if (status != MLXN_OK) {
            return mlxn_io_fail_core(status, target->name, "reading the buffer");
        }
        status = mlxn_io_target_write(target, staging, size);
        if (status != MLXN_OK) {
            return status;
        }
        done += size;
    }
    return MLXN_OK;
}

static mlxn_status write_npy(mlxn_io_target *target, const mlxn_buffer *buffer, void *staging) {
    char header[MLXN_NPY_HEADER];
    mlxn_io_npy_header(buffer, header);
    const mlxn_status status = mlxn_io_target_write(target, header, sizeof header);
    return status == MLXN_OK ? write_data(target, buffer, staging) : status;
}

static mlxn_status write_safetensors(mlxn_io_target *target, const mlxn_save_file *file, void *staging) {
    size_t *order = malloc((file->tensor_count + 1) * sizeof *order);
    if (order == NULL) {
        return mlxn_io_out_of_memory(file->path, (file->tensor_count + 1) * sizeof *order);
    }
    char *header = NULL;
    size_t size = 0;
    mlxn_status status = mlxn_io_safetensors_header(file, &header, &size, order);
    if (status == MLXN_OK) {
        status = mlxn_io_target_write(target, header, size);
    }
    for (size_t i = 0; status == MLXN_OK && i < file->tensor_count; i++) {
        status = write_data(target, file->tensors[order[i]].buffer, staging);
    }
    free(header);
    free(order);
    return status;
}

static mlxn_status write_target(mlxn_io_target *target, const mlxn_save_file *file, void *staging) {
    mlxn_status status = mlxn_io_target_begin(target);
    if (status == MLXN_OK) {
        status = file->format == MLXN_NPY ? write_npy(target, file->tensors[0].buffer, staging)
                                          : write_safetensors(target, file, staging);
    }
    return status == MLXN_OK ? mlxn_io_target_finish(target) : status;
}

static mlxn_status prepare(saving *all, size_t *prepared) {
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; status == MLXN_OK && i < all->count; i++) {
        status = mlxn_io_target_prepare(&all->targets[i], all->files[i].path);
        *prepared = i + 1;
        for (size_t j = 0; status == MLXN_OK && j < i; j++) {
            if (mlxn_io_target_same(&all->targets[i], &all->targets[j])) {
                status = mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s and %s: one file cannot be written twice",
                                      all->files[j].path, all->files[i].path);
            }
        }
    }
    return status;
}

static mlxn_status save(saving *all) {
    size_t prepared = 0;
    mlxn_status status = prepare(all, &prepared);
    /* Streams last: they cannot be taken back. */
    for (int streams = 0; streams <= 1; streams++) {
        for (size_t i = 0; status == MLXN_OK && i < all->count; i++) {
            if (all->targets[i].stream == (streams == 1)) {
                status = write_target(&all->targets[i], &all->files[i], all->staging);
            }
        }
    }
    if (status == MLXN_OK) {
        status = mlxn_io_targets_publish(all->targets, all->count);
    }
    for (size_t i = 0; i < prepared; i++) {
        mlxn_io_target_discard(&all->targets[i]);
    }
    return status;
}

mlxn_status mlxn_save_all(const mlxn_save_file *files, size_t count) {
    if (files == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_save_all: files is NULL");
    }
    for (size_t i = 0; i < count; i++) {
        const mlxn_status status = check_file(&files[i]);
        if (status != MLXN_OK) {
            return status;
        }
    }
    if (count == 0) {
        return MLXN_OK;
    }
    saving all = {.files = files,
                  .targets = calloc(count, sizeof(mlxn_io_target)),
                  .count = count,
                  .staging = malloc(MLXN_IO_PIECE)};
    const mlxn_status status =
        all.targets == NULL || all.staging == NULL ? mlxn_io_out_of_memory(files[0].path, MLXN_IO_PIECE) : save(&all);
    free(all.targets);
    free(all.staging);
    return status;
}

mlxn_status mlxn_save(const mlxn_save_file *file) {
    if (file == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_save: file is NULL");
    }
    return mlxn_save_all(file, 1);
}

mlxn_status mlxn_save_npy(const char *path, const mlxn_buffer *buffer) {
    if (path == NULL || buffer == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_save_npy: %s is NULL", path == NULL ? "path" : "buffer");
    }
    const mlxn_named_buffer tensor = {.buffer = buffer};
    const mlxn_save_file file = {
        .size = sizeof file, .path = path, .format = MLXN_NPY, .tensors = &tensor, .tensor_count = 1};
    return mlxn_save_all(&file, 1);
}
