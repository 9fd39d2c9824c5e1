/* A tensor by reference, PATH or PATH:TENSOR. */
#include "io/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where TENSOR begins in the reference, NULL if it names none. A file whose name is the whole reference is taken
 * as that. */
static const char *tensor_part(const char *reference) {
    static const char mark[] = ".safetensors:";
    const char *at = strstr(reference, mark);
    return at == NULL || access(reference, F_OK) == 0 ? NULL : at + strlen(mark);
}

static mlxn_status choose(const mlxn_file *file, const char *reference, const char *tensor, size_t *index) {
    *index = 0;
    if (tensor != NULL) {
        return mlxn_file_find(file, tensor, index);
    }
    if (mlxn_file_count(file) != 1) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: holds %zu tensors; expected %s:TENSOR", reference,
                            mlxn_file_count(file), reference);
    }
    return MLXN_OK;
}

mlxn_status mlxn_load(mlxn_device *device, const char *reference, const mlxn_file_options *options,
                      mlxn_buffer **buffer) {
    if (buffer != NULL) {
        *buffer = NULL;
    }
    if (device == NULL || reference == NULL || buffer == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "mlxn_load: %s is NULL",
                            device == NULL      ? "device"
                            : reference == NULL ? "reference"
                                                : "buffer");
    }
    const char *tensor = tensor_part(reference);
    const size_t length = tensor == NULL ? strlen(reference) : (size_t)(tensor - reference) - 1;
    char *path = strndup(reference, length);
    if (path == NULL) {
        return mlxn_io_out_of_memory(reference, length + 1);
    }
    mlxn_file *file;
    mlxn_status status = mlxn_file_open(path, options, &file);
    free(path);
    if (status != MLXN_OK) {
        return status;
    }
    size_t index;
    status = choose(file, reference, tensor, &index);
    if (status == MLXN_OK) {
        status = mlxn_file_load(file, index, device, buffer);
    }
    mlxn_file_close(file);
    return status;
}
