#include "files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "elements.h"
#include "job.h"
#include "text.h"

mlxn_buffer *tool_load(mlxn_device *device, const char *reference, const char *what) {
    mlxn_buffer *buffer;
    if (mlxn_load(device, reference, NULL, &buffer) != MLXN_OK) {
        tool_error("%s: %s", what, mlxn_io_last_error());
    }
    return buffer;
}

/* ---- converting ---- */

#define CHUNK 65536 /* elements */

static mlxn_status convert_chunk(const mlxn_buffer *source, mlxn_buffer *target, size_t first, size_t count, void *from,
                                 void *to) {
    const mlxn_dtype given = mlxn_buffer_dtype(source), wanted = mlxn_buffer_dtype(target);
    const size_t from_size = mlxn_dtype_size(given), to_size = mlxn_dtype_size(wanted);
    mlxn_status status = mlxn_buffer_read(source, first * from_size, count * from_size, from);
    for (size_t i = 0; i < count && given != wanted; i++) {
        tool_set(wanted, to, i, tool_narrow(wanted, tool_number(given, from, i)));
    }
    return status != MLXN_OK ? status
                             : mlxn_buffer_write(target, first * to_size, count * to_size, given == wanted ? from : to);
}

mlxn_buffer *tool_convert(mlxn_device *device, const mlxn_buffer *source, mlxn_dtype dtype, const char *what) {
    mlxn_buffer *target = NULL;
    void *from = tool_allocate(CHUNK, sizeof(uint64_t)), *to = tool_allocate(CHUNK, sizeof(uint64_t));
    const size_t total = (size_t)mlxn_buffer_count(source);
    mlxn_status status =
        mlxn_buffer_create(device, dtype, mlxn_buffer_rank(source), mlxn_buffer_shape(source), &target);
    for (size_t first = 0; first < total && status == MLXN_OK; first += CHUNK) {
        size_t count = total - first < CHUNK ? total - first : CHUNK;
        status = convert_chunk(source, target, first, count, from, to);
        tool_progress("converting %s: %zu of %zu elements", what, first, total);
    }
    tool_progress_end();
    free(from);
    free(to);
    if (status != MLXN_OK) {
        tool_error("%s: %s", what, mlxn_last_error());
        mlxn_buffer_destroy(target);
        return NULL;
    }
    return target;
}

/* ---- writing ---- */

bool tool_parse_output(const char *op, const char *reference, const char *name, tool_output *output) {
    static const char ending[] = ".safetensors:";
    const char *found = strstr(reference, ending);
    size_t length = found ? (size_t)(found - reference) + sizeof ending - 2 : strlen(reference);
    *output = (tool_output){.path = tool_allocate(length + 1, 1), .tensor = found ? reference + length + 1 : name};
    memcpy(output->path, reference, length);
    if (mlxn_format_from_path(output->path, &output->format) != MLXN_OK) {
        tool_error("%s: output '%s' must end in .npy or .safetensors, or be FILE.safetensors:TENSOR", op, reference);
    } else if (found && !*output->tensor) {
        tool_error("%s: output '%s' names no tensor", op, reference);
    } else {
        return true;
    }
    free(output->path);
    output->path = NULL;
    return false;
}

/* A file to be written: the outputs that go there, and what it holds already. */
typedef struct file_target {
    const char *op;
    mlxn_file *existing;
    mlxn_named_buffer *tensors;
    size_t tensor_count, output_count;
    mlxn_metadata *metadata;
    size_t metadata_count;
} file_target;

static void free_target(file_target *target) {
    for (size_t i = target->output_count; i < target->tensor_count; i++) {
        mlxn_buffer_destroy((mlxn_buffer *)target->tensors[i].buffer);
    }
    free(target->tensors);
    free(target->metadata);
    mlxn_file_close(target->existing);
}

static bool is_replaced(const file_target *target, const char *name) {
    for (size_t i = 0; i < target->output_count; i++) {
        if (strcmp(target->tensors[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool keep_tensor(mlxn_device *device, const char *path, size_t index, file_target *target) {
    mlxn_tensor_info info = {.size = sizeof info};
    mlxn_buffer *buffer;
    if (mlxn_file_at(target->existing, index, &info) != MLXN_OK) {
        tool_error("%s: %s", target->op, mlxn_io_last_error());
        return false;
    }
    if (is_replaced(target, info.name)) {
        return true;
    }
    if (!info.supported) {
        tool_error("%s: %s: tensor %s of dtype %s cannot be kept; write to another file", target->op, path, info.name,
                   info.file_dtype);
        return false;
    }
    if (mlxn_file_load(target->existing, index, device, &buffer) != MLXN_OK) {
        tool_error("%s: %s", target->op, mlxn_io_last_error());
        return false;
    }
    target->tensors[target->tensor_count++] = (mlxn_named_buffer){info.name, buffer};
    return true;
}

/* Adds what the file at `path` holds to the target. */
static bool keep_existing(mlxn_device *device, const char *path, file_target *target) {
    if (mlxn_file_open(path, NULL, &target->existing) != MLXN_OK) {
        tool_error("%s: %s: cannot add a tensor to it", target->op, mlxn_io_last_error());
        return false;
    }
    size_t count = mlxn_file_count(target->existing);
    mlxn_named_buffer *all = tool_allocate(target->output_count + count, sizeof *all);
    memcpy(all, target->tensors, target->output_count * sizeof *all);
    free(target->tensors);
    target->tensors = all;
    for (size_t i = 0; i < count; i++) {
        if (!keep_tensor(device, path, i, target)) {
            return false;
        }
    }
    target->metadata_count = mlxn_file_metadata_count(target->existing);
    target->metadata = tool_allocate(target->metadata_count, sizeof *target->metadata);
    for (size_t i = 0; i < target->metadata_count; i++) {
        if (mlxn_file_metadata_at(target->existing, i, &target->metadata[i].key, &target->metadata[i].value) !=
            MLXN_OK) {
            tool_error("%s: %s", target->op, mlxn_io_last_error());
            return false;
        }
    }
    return true;
}

static bool fill_target(mlxn_device *device, const tool_output *outputs, size_t count, size_t first,
                        file_target *target) {
    const tool_output *lead = &outputs[first];
    target->tensors = tool_allocate(count, sizeof *target->tensors);
    for (size_t i = first; i < count; i++) {
        if (strcmp(outputs[i].path, lead->path) != 0) {
            continue;
        }
        if (i > first && (lead->format == MLXN_NPY || is_replaced(target, outputs[i].tensor))) {
            tool_error("%s: output '%s%s%s' is named twice", target->op, lead->path,
                       lead->format == MLXN_NPY ? "" : ":", lead->format == MLXN_NPY ? "" : outputs[i].tensor);
            return false;
        }
        target->tensors[target->output_count++] = (mlxn_named_buffer){outputs[i].tensor, outputs[i].buffer};
    }
    target->tensor_count = target->output_count;
    struct stat status;
    bool exists = stat(lead->path, &status) == 0 && S_ISREG(status.st_mode);
    return lead->format == MLXN_NPY || !exists || keep_existing(device, lead->path, target);
}

static bool is_first_of_its_path(const tool_output *outputs, size_t index) {
    for (size_t i = 0; i < index; i++) {
        if (strcmp(outputs[i].path, outputs[index].path) == 0) {
            return false;
        }
    }
    return true;
}

bool tool_save(mlxn_device *device, const char *op, const tool_output *outputs, size_t count) {
    file_target *targets = tool_allocate(count, sizeof *targets);
    mlxn_save_file *files = tool_allocate(count, sizeof *files);
    size_t file_count = 0;
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        if (is_first_of_its_path(outputs, i)) {
            file_target *target = &targets[file_count];
            target->op = op;
            good = fill_target(device, outputs, count, i, target);
            files[file_count++] = (mlxn_save_file){.size = sizeof *files,
                                                   .path = outputs[i].path,
                                                   .format = outputs[i].format,
                                                   .tensors = target->tensors,
                                                   .tensor_count = target->tensor_count,
                                                   .metadata = target->metadata,
                                                   .metadata_count = target->metadata_count};
        }
    }
    if (good && mlxn_save_all(files, file_count) != MLXN_OK) {
        tool_error("%s: %s", op, mlxn_io_last_error());
        good = false;
    }
    for (size_t i = 0; i < file_count; i++) {
        free_target(&targets[i]);
    }
    free(targets);
    free(files);
    return good;
}
