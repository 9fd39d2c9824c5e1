/* Reading the .safetensors format: 8 bytes of header size, a JSON object, and the data of all tensors. */
#include "io/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Every dtype of the format, with its size in bits. Those that mlxn lacks are listed but cannot be loaded. */
static const struct {
    const char *name;
    size_t bits;
    bool supported;
    mlxn_dtype dtype;
} dtypes[] = {
    {"F32", 32, true, MLXN_F32},        {"F16", 16, true, MLXN_F16},    {"BF16", 16, true, MLXN_BF16},
    {"F64", 64, true, MLXN_F64},        {"U8", 8, true, MLXN_U8},       {"U16", 16, true, MLXN_U16},
    {"U32", 32, true, MLXN_U32},        {"I32", 32, true, MLXN_I32},    {"I64", 64, true, MLXN_I64},
    {"BOOL", 8, false, MLXN_U8},        {"I8", 8, false, MLXN_U8},      {"I16", 16, false, MLXN_U8},
    {"U64", 64, false, MLXN_U8},        {"C64", 64, false, MLXN_U8},    {"F8_E4M3", 8, false, MLXN_U8},
    {"F8_E5M2", 8, false, MLXN_U8},     {"F8_E8M0", 8, false, MLXN_U8}, {"F8_E4M3FNUZ", 8, false, MLXN_U8},
    {"F8_E5M2FNUZ", 8, false, MLXN_U8}, {"F6_E2M3", 6, false, MLXN_U8}, {"F6_E3M2", 6, false, MLXN_U8},
    {"F4", 4, false, MLXN_U8},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

/* The deepest a sound header goes: the object, a tensor, its shape. */
#define MAX_DEPTH 3

/* Refuses text that nests too deep or has more brackets than tensors of that many bytes can need, so that a small
 * header cannot become a large tree in memory. */
static mlxn_status check_brackets(const mlxn_file *file, const char *text, size_t size) {
    enum { LEAST_BYTES_A_BRACKET = 8 }; /* "a":{"dtype":"U8","shape":[],"data_offsets":[0,0]}, has 3 in 51 */
    size_t depth = 0, brackets = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
            brackets++;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        }
        if (depth > MAX_DEPTH || brackets > 4 + size / LEAST_BYTES_A_BRACKET) {
            return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: header is not a list of tensors: at byte %zu it nests too much",
                                file->path, i);
        }
    }
    return MLXN_OK;
}

static mlxn_status read_header(mlxn_file *file, size_t *data_begin) {
    unsigned char field[8];
    if (file->size < sizeof field) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: expected 8 bytes of .safetensors header size, found %zu", file->path,
                            file->size);
    }
    mlxn_status status = mlxn_io_fetch(file, 0, sizeof field, field);
    if (status != MLXN_OK) {
        return status;
    }
    uint64_t size;
    memcpy(&size, field, sizeof size);
    if (size > MLXN_SAFETENSORS_MAX_HEADER) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: .safetensors header size %" PRIu64 "; expected at most %d",
                            file->path, size, MLXN_SAFETENSORS_MAX_HEADER);
    }
    if (size > file->size - sizeof field) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: expected %" PRIu64 " bytes of .safetensors header, found %zu",
                            file->path, size, file->size - sizeof field);
    }
    char *text = malloc((size_t)size + 1);
    if (text == NULL) {
        return mlxn_io_out_of_memory(file->path, (size_t)size + 1);
    }
    status = mlxn_io_fetch(file, sizeof field, (size_t)size, text);
    if (status == MLXN_OK && (size == 0 || text[0] != '{')) {
        status = mlxn_io_fail(MLXN_BAD_FORMAT, "%s: .safetensors header does not begin with '{'", file->path);
    }
    if (status == MLXN_OK) {
        status = check_brackets(file, text, (size_t)size);
    }
    if (status == MLXN_OK) {
        json_error_t error;
        errno = 0;
        file->header = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, &error);
        /* jansson blames the text for some failed allocations; errno tells. */
        if (file->header == NULL && errno == ENOMEM) {
            status = mlxn_io_out_of_memory(file->path, (size_t)size);
        } else if (file->header == NULL) {
            status = mlxn_io_fail(MLXN_BAD_FORMAT, "%s: .safetensors header, at byte %d: %s", file->path,
                                  error.position, error.text);
        }
    }
    free(text);
    *data_begin = sizeof field + (size_t)size;
    return status;
}

/* ---- one tensor ---- */

static mlxn_status wrong(const mlxn_file *file, const char *tensor, const char *what) {
    return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: tensor '%s': %s", file->path, tensor, what);
}

static mlxn_status parse_dtype(const mlxn_file *file, const json_t *entry, mlxn_io_tensor *tensor, size_t *bits) {
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (name == NULL) {
        return wrong(file, tensor->name, "expected a text as dtype");
    }
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            tensor->file_dtype = dtypes[i].name;
            tensor->dtype = dtypes[i].dtype;
            tensor->supported = dtypes[i].supported;
            *bits = dtypes[i].bits;
            return MLXN_OK;
        }
    }
    return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: tensor '%s': unknown dtype '%s'", file->path, tensor->name, name);
}

/* A count: an integer that is not negative. */
static bool is_count(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static mlxn_status parse_shape(const mlxn_file *file, const json_t *entry, mlxn_io_tensor *tensor) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) {
        return wrong(file, tensor->name, "expected a list as shape");
    }
    tensor->rank = json_array_size(shape);
    if (tensor->rank > MLXN_MAX_RANK) {
        return mlxn_io_fail(MLXN_UNSUPPORTED, "%s: tensor '%s' has %zu extents; the largest rank is %d", file->path,
                            tensor->name, tensor->rank, MLXN_MAX_RANK);
    }
    for (size_t i = 0; i < tensor->rank; i++) {
        const json_t *extent = json_array_get(shape, i);
        if (!is_count(extent)) {
            return wrong(file, tensor->name, "expected integers of at least 0 in the shape");
        }
        tensor->shape[i] = json_integer_value(extent);
    }
    return MLXN_OK;
}

/* Reads data_offsets and compares them with the shape's size. */
static mlxn_status parse_offsets(const mlxn_file *file, const json_t *entry, size_t data_begin, size_t bits,
                                 mlxn_io_tensor *tensor) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !is_count(json_array_get(offsets, 0)) ||
        !is_count(json_array_get(offsets, 1))) {
        return wrong(file, tensor->name, "expected two integers of at least 0 as data_offsets");
    }
    const json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    const json_int_t end = json_integer_value(json_array_get(offsets, 1));
    const size_t data_size = file->size - data_begin;
    if (begin > end) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: tensor '%s': data_offsets [%" PRId64 ",%" PRId64 "] are reversed",
                            file->path, tensor->name, (int64_t)begin, (int64_t)end);
    }
    if ((uint64_t)end > data_size) {
        return mlxn_io_fail(MLXN_BAD_FORMAT,
                            "%s: tensor '%s': data_offsets [%" PRId64 ",%" PRId64
                            "] exceed the %zu bytes of data found",
                            file->path, tensor->name, (int64_t)begin, (int64_t)end, data_size);
    }
    if (!mlxn_io_measure(tensor, bits)) {
        return wrong(file, tensor->name, "the shape's size exceeds 64 bits or is not whole bytes");
    }
    if ((uint64_t)(end - begin) != tensor->bytes) {
        return mlxn_io_fail(
            MLXN_BAD_FORMAT,
            "%s: tensor '%s': expected %zu bytes for its shape and dtype %s, data_offsets have %" PRId64, file->path,
            tensor->name, tensor->bytes, tensor->file_dtype, (int64_t)(end - begin));
    }
    tensor->offset = data_begin + (size_t)begin;
    return MLXN_OK;
}

static mlxn_status parse_tensor(const mlxn_file *file, const json_t *entry, size_t data_begin, mlxn_io_tensor *tensor) {
    size_t bits = 0;
    if (!json_is_object(entry)) {
        return wrong(file, tensor->name, "expected an object with dtype, shape and data_offsets");
    }
    mlxn_status status = parse_dtype(file, entry, tensor, &bits);
    if (status == MLXN_OK) {
        status = parse_shape(file, entry, tensor);
    }
    return status == MLXN_OK ? parse_offsets(file, entry, data_begin, bits, tensor) : status;
}

static mlxn_status parse_metadata(mlxn_file *file, json_t *object) {
    if (!json_is_object(object)) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: expected an object as __metadata__", file->path);
    }
    const size_t count = json_object_size(object);
    file->metadata = calloc(count + 1, sizeof *file->metadata);
    if (file->metadata == NULL) {
        return mlxn_io_out_of_memory(file->path, (count + 1) * sizeof *file->metadata);
    }
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (!json_is_string(value)) {
            return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: __metadata__: expected a text as '%s'", file->path, key);
        }
        file->metadata[file->metadata_count++] = (mlxn_metadata){key, json_string_value(value)};
    }
    return MLXN_OK;
}

/* ---- all tensors ---- */

static int by_offset(const void *a, const void *b) {
    const mlxn_io_tensor *x = *(const mlxn_io_tensor *const *)a, *y = *(const mlxn_io_tensor *const *)b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The tensors must cover the data exactly. */
static mlxn_status check_cover(const mlxn_file *file, size_t data_begin) {
    const mlxn_io_tensor **sorted = malloc((file->count + 1) * sizeof(mlxn_io_tensor *));
    if (sorted == NULL) {
        return mlxn_io_out_of_memory(file->path, (file->count + 1) * sizeof(mlxn_io_tensor *));
    }
    for (size_t i = 0; i < file->count; i++) {
        sorted[i] = &file->tensors[i];
    }
    qsort(sorted, file->count, sizeof(mlxn_io_tensor *), by_offset);
    size_t end = data_begin;
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; status == MLXN_OK && i < file->count; i++) {
        if (sorted[i]->offset < end) {
            status = mlxn_io_fail(MLXN_BAD_FORMAT, "%s: tensors '%s' and '%s' overlap", file->path, sorted[i - 1]->name,
                                  sorted[i]->name);
        } else if (sorted[i]->offset > end) {
            status = mlxn_io_fail(MLXN_BAD_FORMAT, "%s: a hole of %zu bytes before tensor '%s'", file->path,
                                  sorted[i]->offset - end, sorted[i]->name);
        }
        end = sorted[i]->offset + sorted[i]->bytes;
    }
    if (status == MLXN_OK && end != file->size) {
        status = mlxn_io_fail(MLXN_BAD_FORMAT, "%s: expected the file to end at byte %zu, found %zu bytes more",
                              file->path, end, file->size - end);
    }
    free(sorted);
    return status;
}

mlxn_status mlxn_io_safetensors_parse(mlxn_file *file) {
    file->format = MLXN_SAFETENSORS;
    size_t data_begin;
    mlxn_status status = read_header(file, &data_begin);
    if (status != MLXN_OK) {
        return status;
    }
    const size_t most = json_object_size(file->header);
    file->tensors = calloc(most + 1, sizeof *file->tensors);
    if (file->tensors == NULL) {
        return mlxn_io_out_of_memory(file->path, (most + 1) * sizeof *file->tensors);
    }
    const char *key;
    json_t *value;
    json_object_foreach(file->header, key, value) {
        if (strcmp(key, "__metadata__") == 0) {
            status = parse_metadata(file, value);
        } else {
            mlxn_io_tensor *tensor = &file->tensors[file->count];
            tensor->name = key;
            status = parse_tensor(file, value, data_begin, tensor);
            file->count++;
        }
        if (status != MLXN_OK) {
            return status;
        }
    }
    return check_cover(file, data_begin);
}
