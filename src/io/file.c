/* Opening a file, and what it holds. */
#include "io/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

mlxn_status mlxn_format_from_path(const char *path, mlxn_format *format) {
    if (path == NULL || format == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_format_from_path: %s is NULL",
                            path == NULL ? "path" : "format");
    }
    if (ends_with(path, ".npy")) {
        *format = MLXN_NPY;
    } else if (ends_with(path, ".safetensors")) {
        *format = MLXN_SAFETENSORS;
    } else {
        return mlxn_io_fail(MLXN_NOT_FOUND, "%s: expected a name that ends in .npy or .safetensors", path);
    }
    return MLXN_OK;
}

static void release(mlxn_file *file) {
    if (atomic_fetch_sub_explicit(&file->users, 1, memory_order_acq_rel) != 1) {
        return;
    }
    mlxn_io_source_close(file);
    mlxn_io_source_release(file);
    json_decref(file->header);
    free(file->metadata);
    free(file->tensors);
    free(file->by_name);
    free(file->path);
    free(file);
}

/* The release callback of a buffer that shows the file's view. */
static void release_view(void *context, void *memory) {
    (void)memory;
    release(context);
}

static mlxn_status new_file(const char *path, mlxn_file **file) {
    mlxn_file *made = calloc(1, sizeof *made);
    char *copy = strdup(path);
    if (made == NULL || copy == NULL) {
        free(made);
        free(copy);
        return mlxn_io_out_of_memory(path, sizeof *made + strlen(path) + 1);
    }
    atomic_init(&made->users, 1);
    made->path = copy;
    made->fd = -1;
    *file = made;
    return MLXN_OK;
}

static int compare_names(const void *a, const void *b) {
    const mlxn_io_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static mlxn_status sort_names(mlxn_file *file) {
    const size_t bytes = (file->count + 1) * sizeof(mlxn_io_tensor *);
    file->by_name = malloc(bytes);
    if (file->by_name == NULL) {
        return mlxn_io_out_of_memory(file->path, bytes);
    }
    for (size_t i = 0; i < file->count; i++) {
        file->by_name[i] = &file->tensors[i];
    }
    qsort(file->by_name, file->count, sizeof(mlxn_io_tensor *), compare_names);
    return MLXN_OK;
}

/* Decides the format by the first bytes; where they say nothing, by the path. */
static mlxn_status parse(mlxn_file *file) {
    unsigned char head[9] = {0};
    const size_t size = file->size < sizeof head ? file->size : sizeof head;
    if (size == 0) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: is empty", file->path);
    }
    const mlxn_status status = mlxn_io_fetch(file, 0, size, head);
    if (status != MLXN_OK) {
        return status;
    }
    if ((size >= MLXN_NPY_MAGIC_BYTES && memcmp(head, MLXN_NPY_MAGIC, MLXN_NPY_MAGIC_BYTES) == 0) ||
        ends_with(file->path, ".npy")) {
        return mlxn_io_npy_parse(file);
    }
    if (size == sizeof head && head[8] != '{' && !ends_with(file->path, ".safetensors")) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: is neither a .npy nor a .safetensors file%s", file->path,
                            memcmp(head, "PK\x03\x04", 4) == 0 ? "; if it is a .npz archive, unpack it first" : "");
    }
    return mlxn_io_safetensors_parse(file);
}

static mlxn_status finish_open(mlxn_file *made, mlxn_status status, mlxn_file **file) {
    if (status == MLXN_OK) {
        status = parse(made);
    }
    if (status == MLXN_OK) {
        status = sort_names(made);
    }
    if (status == MLXN_OK) {
        *file = made;
    } else {
        release(made);
    }
    return status;
}

mlxn_status mlxn_file_open(const char *path, const mlxn_file_options *options, mlxn_file **file) {
    if (file != NULL) {
        *file = NULL;
    }
    if (path == NULL || file == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_file_open: %s is NULL", path == NULL ? "path" : "file");
    }
    if (options != NULL && options->size != sizeof *options) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_file_open: options->size is %zu, expected %zu", options->size,
                            sizeof *options);
    }
    mlxn_file *made;
    const mlxn_status status = new_file(path, &made);
    if (status != MLXN_OK) {
        return status;
    }
    return finish_open(made, mlxn_io_source_open(made, options != NULL && options->copy), file);
}

mlxn_status mlxn_file_open_memory(const void *data, size_t size, const char *name, mlxn_file **file) {
    if (file != NULL) {
        *file = NULL;
    }
    if (file == NULL || (data == NULL && size > 0)) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_file_open_memory: %s is NULL", file == NULL ? "file" : "data");
    }
    mlxn_file *made;
    const mlxn_status status = new_file(name == NULL ? "memory" : name, &made);
    if (status != MLXN_OK) {
        return status;
    }
    made->view = data;
    made->view_kind = MLXN_IO_BORROWED;
    made->size = size;
    return finish_open(made, MLXN_OK, file);
}

void mlxn_file_close(mlxn_file *file) {
    if (file != NULL) {
        mlxn_io_source_close(file);
        release(file);
    }
}

/* ---- what it holds ---- */

mlxn_format mlxn_file_format(const mlxn_file *file) {
    return file == NULL ? MLXN_NPY : file->format;
}

size_t mlxn_file_count(const mlxn_file *file) {
    return file == NULL ? 0 : file->count;
}

/* The tensor, or a failure of `call`. */
static mlxn_status tensor_at(const char *call, const mlxn_file *file, size_t index, const mlxn_io_tensor **tensor) {
    if (file == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: file is NULL", call);
    }
    if (index >= file->count) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: tensor %zu of %zu wanted", file->path, index, file->count);
    }
    *tensor = &file->tensors[index];
    return MLXN_OK;
}

mlxn_status mlxn_file_at(const mlxn_file *file, size_t index, mlxn_tensor_info *info) {
    static const char call[] = "mlxn_file_at";
    const mlxn_io_tensor *tensor;
    const mlxn_status status = tensor_at(call, file, index, &tensor);
    if (status != MLXN_OK) {
        return status;
    }
    if (info == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: info is NULL", call);
    }
    if (info->size != sizeof *info) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: info->size is %zu, expected %zu", call, info->size,
                            sizeof *info);
    }
    *info = (mlxn_tensor_info){.size = sizeof *info,
                               .name = tensor->name,
                               .file_dtype = tensor->file_dtype,
                               .supported = tensor->supported,
                               .dtype = tensor->dtype,
                               .rank = tensor->rank,
                               .count = tensor->count,
                               .bytes = tensor->bytes};
    memcpy(info->shape, tensor->shape, sizeof info->shape);
    return MLXN_OK;
}

/* The first names of a file, as in "'a', 'b', …", for messages. */
static void list_names(const mlxn_file *file, char text[256]) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < file->count; i++) {
        const size_t length = strlen(file->tensors[i].name);
        if (at + length + 10 > 256) {
            memcpy(text + at, at > 0 ? ", ..." : "...", at > 0 ? 6 : 4);
            return;
        }
        at += (size_t)snprintf(text + at, 256 - at, "%s'%s'", i > 0 ? ", " : "", file->tensors[i].name);
    }
}

mlxn_status mlxn_file_find(const mlxn_file *file, const char *name, size_t *index) {
    if (file == NULL || name == NULL || index == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_file_find: %s is NULL",
                            file == NULL   ? "file"
                            : name == NULL ? "name"
                                           : "index");
    }
    size_t low = 0, high = file->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(file->by_name[middle]->name, name);
        if (order == 0) {
            *index = (size_t)(file->by_name[middle] - file->tensors);
            return MLXN_OK;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    char names[256];
    list_names(file, names);
    return mlxn_io_fail(MLXN_NOT_FOUND, "%s: has no tensor '%s'; it holds %s", file->path, name,
                        file->count > 0 ? names : "none");
}

size_t mlxn_file_metadata_count(const mlxn_file *file) {
    return file == NULL ? 0 : file->metadata_count;
}

mlxn_status mlxn_file_metadata_at(const mlxn_file *file, size_t index, const char **key, const char **value) {
    if (file == NULL || key == NULL || value == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_file_metadata_at: %s is NULL",
                            file == NULL  ? "file"
                            : key == NULL ? "key"
                                          : "value");
    }
    if (index >= file->metadata_count) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: metadata %zu of %zu wanted", file->path, index,
                            file->metadata_count);
    }
    *key = file->metadata[index].key;
    *value = file->metadata[index].value;
    return MLXN_OK;
}

/* ---- data ---- */

/* The tensor, which must have a dtype of mlxn. */
static mlxn_status readable(const char *call, const mlxn_file *file, size_t index, const mlxn_io_tensor **tensor) {
    const mlxn_status status = tensor_at(call, file, index, tensor);
    if (status == MLXN_OK && !(*tensor)->supported) {
        return mlxn_io_fail(MLXN_UNSUPPORTED,
                            "%s: tensor '%s' has dtype %s; expected one of F32, F16, BF16, F64, U8, U16, U32, I32, I64",
                            file->path, (*tensor)->name, (*tensor)->file_dtype);
    }
    return status;
}

mlxn_status mlxn_file_read(const mlxn_file *file, size_t index, void *data, size_t size) {
    static const char call[] = "mlxn_file_read";
    const mlxn_io_tensor *tensor;
    const mlxn_status status = readable(call, file, index, &tensor);
    if (status != MLXN_OK) {
        return status;
    }
    if (size != tensor->bytes) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: size is %zu, expected the tensor's %zu bytes", call, size,
                            tensor->bytes);
    }
    if (data == NULL && size > 0) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: data is NULL", call);
    }
    return mlxn_io_read_all(file, tensor, data);
}

/* Where the elements lie in the view as the machine has them, else NULL. */
static const unsigned char *in_view(const mlxn_file *file, const mlxn_io_tensor *tensor) {
    if (file->view == NULL || !mlxn_io_is_native(tensor) ||
        (uintptr_t)(file->view + tensor->offset) % mlxn_dtype_size(tensor->dtype) != 0) {
        return NULL;
    }
    return file->view + tensor->offset;
}

mlxn_status mlxn_file_data(const mlxn_file *file, size_t index, const void **data) {
    static const char call[] = "mlxn_file_data";
    if (data == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: data is NULL", call);
    }
    *data = NULL;
    const mlxn_io_tensor *tensor;
    const mlxn_status status = readable(call, file, index, &tensor);
    if (status != MLXN_OK) {
        return status;
    }
    *data = in_view(file, tensor);
    if (*data == NULL) {
        return mlxn_io_fail(MLXN_UNSUPPORTED, "%s: tensor '%s' must be copied: %s", file->path, tensor->name,
                            tensor->swapped      ? "its byte order is not the machine's"
                            : tensor->fortran    ? "it is in Fortran order"
                            : file->view == NULL ? "the file is not mapped"
                                                 : "it is not aligned in the file");
    }
    return MLXN_OK;
}

/* Fills a new buffer, in its own memory where the host reaches it. */
static mlxn_status fill(const mlxn_file *file, const mlxn_io_tensor *tensor, mlxn_buffer *buffer) {
    void *memory;
    if (mlxn_buffer_map(buffer, &memory) == MLXN_OK) {
        return mlxn_io_read_all(file, tensor, memory);
    }
    const size_t piece = tensor->fortran || tensor->bytes < MLXN_IO_PIECE ? tensor->bytes : MLXN_IO_PIECE;
    void *staging = malloc(piece);
    if (staging == NULL) {
        return mlxn_io_out_of_memory(file->path, piece);
    }
    mlxn_status status = MLXN_OK;
    for (size_t done = 0; status == MLXN_OK && done < tensor->bytes;) {
        const size_t size = tensor->bytes - done < piece ? tensor->bytes - done : piece;
        status = tensor->fortran ? mlxn_io_read_all(file, tensor, staging)
                                 : mlxn_io_read_range(file, tensor, done, size, staging);
        if (status == MLXN_OK) {
            status = mlxn_buffer_write(buffer, done, size, staging);
            if (status != MLXN_OK) {
                status = mlxn_io_fail_core(status, file->path, "writing to the device");
            }
        }
        done += size;
    }
    free(staging);
    return status;
}

mlxn_status mlxn_file_load(mlxn_file *file, size_t index, mlxn_device *device, mlxn_buffer **buffer) {
    static const char call[] = "mlxn_file_load";
    if (buffer != NULL) {
        *buffer = NULL;
    }
    if (device == NULL || buffer == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: %s is NULL", call, device == NULL ? "device" : "buffer");
    }
    const mlxn_io_tensor *tensor;
    mlxn_status status = readable(call, file, index, &tensor);
    if (status != MLXN_OK) {
        return status;
    }
    const unsigned char *data = in_view(file, tensor);
    if (data != NULL && tensor->bytes > 0 && file->view_kind != MLXN_IO_BORROWED) {
        const mlxn_wrap_options options = {
            .size = sizeof options, .read_only = true, .release = release_view, .context = file};
        atomic_fetch_add_explicit(&file->users, 1, memory_order_relaxed);
        status = mlxn_buffer_wrap(device, tensor->dtype, tensor->rank, tensor->shape, (void *)(uintptr_t)data, &options,
                                  buffer);
        if (status == MLXN_OK) {
            return status;
        }
        atomic_fetch_sub_explicit(&file->users, 1, memory_order_relaxed);
        if (status != MLXN_UNSUPPORTED) {
            return mlxn_io_fail_core(status, file->path, "loading");
        }
    }
    status = mlxn_buffer_create(device, tensor->dtype, tensor->rank, tensor->shape, buffer);
    if (status != MLXN_OK) {
        return mlxn_io_fail_core(status, file->path, "loading");
    }
    status = tensor->bytes > 0 ? fill(file, tensor, *buffer) : MLXN_OK;
    if (status != MLXN_OK) {
        mlxn_buffer_destroy(*buffer);
        *buffer = NULL;
    }
    return status;
}
