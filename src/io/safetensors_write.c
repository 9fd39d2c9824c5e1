/* The header of a .safetensors file to be written. */
#include "io/internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const dtype_names[] = {
    [MLXN_F32] = "F32", [MLXN_F16] = "F16", [MLXN_BF16] = "BF16", [MLXN_F64] = "F64", [MLXN_U8] = "U8",
    [MLXN_U16] = "U16", [MLXN_U32] = "U32", [MLXN_I32] = "I32",   [MLXN_I64] = "I64",
};

/* Whether the text is UTF-8: no overlong form, no surrogate, nothing past U+10FFFF. */
static bool is_utf8(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at != 0) {
        const unsigned char lead = *at++;
        if (lead < 0x80) {
            continue;
        }
        const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        if (lead < 0xc2 || lead > 0xf4 || (lead == 0xe0 && *at < 0xa0) || (lead == 0xed && *at > 0x9f) ||
            (lead == 0xf0 && *at < 0x90) || (lead == 0xf4 && *at > 0x8f)) {
            return false;
        }
        for (size_t i = 0; i < more; i++) {
            if ((*at++ & 0xc0) != 0x80) {
                return false;
            }
        }
    }
    return true;
}

static mlxn_status check_text(const mlxn_save_file *file, const char *what, const char *text) {
    if (text == NULL) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: %s is NULL", file->path, what);
    }
    if (!is_utf8(text)) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: %s is not UTF-8", file->path, what);
    }
    return MLXN_OK;
}

static mlxn_status check_names(const mlxn_save_file *file) {
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; status == MLXN_OK && i < file->tensor_count; i++) {
        const char *name = file->tensors[i].name;
        status = check_text(file, "a tensor's name", name);
        if (status == MLXN_OK && strcmp(name, "__metadata__") == 0) {
            status = mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: a tensor cannot be called __metadata__", file->path);
        }
    }
    for (size_t i = 0; status == MLXN_OK && i < file->metadata_count; i++) {
        status = check_text(file, "a metadata key", file->metadata[i].key);
        if (status == MLXN_OK) {
            status = check_text(file, "a metadata value", file->metadata[i].value);
        }
    }
    return status;
}

/* Tensors by falling element size, those of one size in the caller's order: every offset is then a multiple of
 * its element size. */
static void choose_order(const mlxn_save_file *file, size_t *order) {
    size_t at = 0;
    for (size_t width = 8; width > 0; width /= 2) {
        for (size_t i = 0; i < file->tensor_count; i++) {
            if (mlxn_dtype_size(mlxn_buffer_dtype(file->tensors[i].buffer)) == width) {
                order[at++] = i;
            }
        }
    }
}

/* Gives `value` to the object under `key`; false if memory is short. */
static bool add(json_t *object, const char *key, json_t *value) {
    return json_object_set_new_nocheck(object, key, value) == 0;
}

static bool add_tensor(json_t *header, const mlxn_named_buffer *tensor, size_t begin) {
    const mlxn_buffer *buffer = tensor->buffer;
    const int64_t *extents = mlxn_buffer_shape(buffer);
    json_t *entry = json_object(), *shape = json_array(), *offsets = json_array();
    bool good = entry != NULL && shape != NULL && offsets != NULL;
    for (size_t i = 0; good && i < mlxn_buffer_rank(buffer); i++) {
        good = json_array_append_new(shape, json_integer((json_int_t)extents[i])) == 0;
    }
    good = good && json_array_append_new(offsets, json_integer((json_int_t)begin)) == 0 &&
           json_array_append_new(offsets, json_integer((json_int_t)(begin + mlxn_buffer_bytes(buffer)))) == 0 &&
           add(entry, "dtype", json_string(dtype_names[mlxn_buffer_dtype(buffer)])) &&
           json_object_set(entry, "shape", shape) == 0 && json_object_set(entry, "data_offsets", offsets) == 0 &&
           json_object_set_nocheck(header, tensor->name, entry) == 0;
    json_decref(entry);
    json_decref(shape);
    json_decref(offsets);
    return good;
}

/* Fills the header's object. MLXN_OUT_OF_MEMORY comes back without a message. */
static mlxn_status fill(const mlxn_save_file *file, json_t *header, const size_t *order) {
    if (file->metadata_count > 0) {
        json_t *metadata = json_object();
        if (!add(header, "__metadata__", metadata)) {
            return MLXN_OUT_OF_MEMORY;
        }
        for (size_t i = 0; i < file->metadata_count; i++) {
            const mlxn_metadata *entry = &file->metadata[i];
            if (json_object_get(metadata, entry->key) != NULL) {
                return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: metadata key '%s' comes twice", file->path, entry->key);
            }
            if (!add(metadata, entry->key, json_string_nocheck(entry->value))) {
                return MLXN_OUT_OF_MEMORY;
            }
        }
    }
    size_t begin = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const mlxn_named_buffer *tensor = &file->tensors[order[i]];
        if (json_object_get(header, tensor->name) != NULL) {
            return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: tensor '%s' comes twice", file->path, tensor->name);
        }
        size_t end;
        if (__builtin_add_overflow(begin, mlxn_buffer_bytes(tensor->buffer), &end) || end > INT64_MAX) {
            return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: the data exceed 64 bits", file->path);
        }
        if (!add_tensor(header, tensor, begin)) {
            return MLXN_OUT_OF_MEMORY;
        }
        begin = end;
    }
    return MLXN_OK;
}

/* Puts the size field before the text and space behind it, so that the data begin at a multiple of 8. */
static mlxn_status frame(const mlxn_save_file *file, json_t *object, char **header, size_t *size) {
    const size_t length = json_dumpb(object, NULL, 0, JSON_COMPACT);
    const uint64_t padded = (length + 7) / 8 * 8;
    if (length == 0) {
        return MLXN_OUT_OF_MEMORY;
    }
    if (padded > MLXN_SAFETENSORS_MAX_HEADER) {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "%s: the header has %zu bytes; .safetensors allows %d", file->path,
                            (size_t)padded, MLXN_SAFETENSORS_MAX_HEADER);
    }
    char *text = malloc(8 + (size_t)padded);
    if (text == NULL || json_dumpb(object, text + 8, (size_t)padded, JSON_COMPACT) != length) {
        free(text);
        return MLXN_OUT_OF_MEMORY;
    }
    memcpy(text, &padded, 8);
    memset(text + 8 + length, ' ', (size_t)padded - length);
    *header = text;
    *size = 8 + (size_t)padded;
    return MLXN_OK;
}

mlxn_status mlxn_io_safetensors_header(const mlxn_save_file *file, char **header, size_t *size, size_t *order) {
    mlxn_status status = check_names(file);
    if (status != MLXN_OK) {
        return status;
    }
    choose_order(file, order);
    json_t *object = json_object();
    status = object == NULL ? MLXN_OUT_OF_MEMORY : fill(file, object, order);
    if (status == MLXN_OK) {
        status = frame(file, object, header, size);
    }
    json_decref(object);
    if (status == MLXN_OUT_OF_MEMORY) {
        return mlxn_io_fail(status, "%s: out of memory for the header", file->path);
    }
    return status;
}
