/* The .npy format: a magic, a version, and a Python dict that says dtype, order and shape.
 *
 * The dict is parsed as NumPy writes it and no further: three keys, each once, in any order. It is not a
 * parser of Python. */
#include "io/internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NumPy's headers stay under 10,000 bytes. */
#define MAX_DICT ((size_t)1 << 20)

typedef struct reader {
    const mlxn_file *file;
    const char *begin, *at, *end;
} reader;

__attribute__((format(printf, 2, 3))) static void explain_malformed(const reader *from, const char *format, ...) {
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    mlxn_io_explain("%s: .npy header, at byte %td of the dict: %s", from->file->path, from->at - from->begin, what);
}

#define malformed(from, ...) (explain_malformed(from, __VA_ARGS__), MLXN_BAD_FORMAT)

static void explain_unexpected(const reader *from, const char *expected) {
    if (from->at == from->end) {
        explain_malformed(from, "expected %s, found the header's end", expected);
    } else {
        explain_malformed(from, "expected %s, found '%c'", expected, *from->at);
    }
}

#define unexpected(from, expected) (explain_unexpected(from, expected), MLXN_BAD_FORMAT)

static void skip_space(reader *from) {
    while (from->at < from->end && strchr(" \t\r\n", *from->at) != NULL && *from->at != '\0') {
        from->at++;
    }
}

/* Takes `c`, after white space, if it is next. */
static bool take(reader *from, char c) {
    skip_space(from);
    if (from->at < from->end && *from->at == c) {
        from->at++;
        return true;
    }
    return false;
}

static bool take_word(reader *from, const char *word) {
    const size_t length = strlen(word);
    skip_space(from);
    if ((size_t)(from->end - from->at) < length || memcmp(from->at, word, length) != 0) {
        return false;
    }
    from->at += length;
    return true;
}

/* A string in single or double quotes, without escapes. */
static mlxn_status parse_string(reader *from, const char *expected, const char **text, size_t *length) {
    skip_space(from);
    if (from->at == from->end || (*from->at != '\'' && *from->at != '"')) {
        return unexpected(from, expected);
    }
    const char *start = from->at + 1;
    const char *close = memchr(start, *from->at, (size_t)(from->end - start));
    if (close == NULL) {
        return malformed(from, "a string without its closing quote");
    }
    if (memchr(start, '\\', (size_t)(close - start)) != NULL) {
        return malformed(from, "a string with a backslash");
    }
    *text = start;
    *length = (size_t)(close - start);
    from->at = close + 1;
    return MLXN_OK;
}

/* ---- descr ---- */

static const struct {
    const char *text; /* without byte order */
    mlxn_dtype dtype;
} dtypes[] = {
    {"f4", MLXN_F32}, {"f2", MLXN_F16}, {"V2", MLXN_BF16}, {"f8", MLXN_F64}, {"u1", MLXN_U8},
    {"u2", MLXN_U16}, {"u4", MLXN_U32}, {"i4", MLXN_I32},  {"i8", MLXN_I64},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

/* Whether NumPy has such a dtype: a known kind and a size, dates also with a unit. */
static bool is_numpy_dtype(const char *text, size_t length) {
    if (length < 2 || strchr("biufcSUVMm", text[0]) == NULL || text[0] == '\0') {
        return false;
    }
    size_t i = 1;
    while (i < length && text[i] >= '0' && text[i] <= '9') {
        i++;
    }
    const bool has_unit = (text[0] == 'M' || text[0] == 'm') && i < length && text[i] == '[' && text[length - 1] == ']';
    return i > 1 && (i == length || has_unit);
}

static mlxn_status parse_descr(reader *from, mlxn_file *file, mlxn_io_tensor *tensor) {
    static const char *const object = "%s: holds Python objects, which are never read";
    skip_space(from);
    if (from->at < from->end && *from->at == '[') {
        return mlxn_io_fail(MLXN_UNSUPPORTED, "%s: holds records (a structured dtype), not numbers of one dtype",
                            file->path);
    }
    const char *text;
    size_t length;
    const mlxn_status status = parse_string(from, "a string as descr", &text, &length);
    if (status != MLXN_OK) {
        return status;
    }
    if (length == 0) {
        return malformed(from, "descr is empty");
    }
    const int shown = length < 40 ? (int)length : 40;
    if (text[0] == 'O' || (length > 1 && text[1] == 'O')) {
        return mlxn_io_fail(MLXN_UNSUPPORTED, object, file->path);
    }
    const char order = text[0];
    if (strchr("<>|", order) == NULL || order == '\0') {
        return malformed(from, "descr '%.*s' does not begin with a byte order '<', '>' or '|'", shown, text);
    }
    if (length < sizeof file->descr) {
        for (size_t i = 0; i < DTYPE_COUNT; i++) {
            const bool one_byte = mlxn_dtype_size(dtypes[i].dtype) == 1, is_void = dtypes[i].dtype == MLXN_BF16;
            if (strlen(dtypes[i].text) != length - 1 || memcmp(dtypes[i].text, text + 1, length - 1) != 0 ||
                (is_void && order == '>')) {
                continue;
            }
            if (order == '|' && !one_byte && !is_void) {
                return malformed(from, "descr '%.*s' leaves the byte order open", shown, text);
            }
            memcpy(file->descr, text, length);
            file->descr[length] = '\0';
            tensor->dtype = dtypes[i].dtype;
            tensor->swapped = order == '>' && !one_byte;
            return MLXN_OK;
        }
    }
    if (!is_numpy_dtype(text + 1, length - 1)) {
        return malformed(from, "descr '%.*s' is not a dtype", shown, text);
    }
    return mlxn_io_fail(MLXN_UNSUPPORTED,
                        "%s: has dtype '%.*s'; expected one of f4, f2, f8, u1, u2, u4, i4, i8, and V2 for bf16",
                        file->path, shown, text);
}

/* ---- shape ---- */

/* A decimal integer, with the L of Python 2. */
static mlxn_status parse_extent(reader *from, int64_t *extent) {
    skip_space(from);
    const char *start = from->at;
    int64_t value = 0;
    while (from->at < from->end && *from->at >= '0' && *from->at <= '9') {
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(*from->at - '0'), &value)) {
            from->at = start;
            return malformed(from, "an extent of the shape exceeds 64 bits");
        }
        from->at++;
    }
    if (from->at == start) {
        return unexpected(from, "an integer as extent");
    }
    if (*start == '0' && from->at - start > 1) {
        from->at = start;
        return malformed(from, "an extent with a leading 0");
    }
    if (from->at < from->end && *from->at == 'L') {
        from->at++;
    }
    *extent = value;
    return MLXN_OK;
}

static mlxn_status parse_shape(reader *from, mlxn_io_tensor *tensor) {
    if (!take(from, '(')) {
        return unexpected(from, "'(' of the shape");
    }
    tensor->rank = 0;
    if (take(from, ')')) {
        return MLXN_OK;
    }
    for (;;) {
        int64_t extent;
        const mlxn_status status = parse_extent(from, &extent);
        if (status != MLXN_OK) {
            return status;
        }
        if (tensor->rank == MLXN_MAX_RANK) {
            return mlxn_io_fail(MLXN_UNSUPPORTED, "%s: has more than %d extents, the largest rank", from->file->path,
                                MLXN_MAX_RANK);
        }
        tensor->shape[tensor->rank++] = extent;
        const bool comma = take(from, ',');
        if (take(from, ')')) {
            /* (184) is an integer in Python, (184,) a tuple. */
            return comma || tensor->rank > 1 ? MLXN_OK : malformed(from, "a single extent without a comma behind it");
        }
        if (!comma) {
            return unexpected(from, "',' or ')' in the shape");
        }
    }
}

/* ---- the header ---- */

enum { HAS_DESCR = 1, HAS_ORDER = 2, HAS_SHAPE = 4 };

static mlxn_status parse_entry(reader *from, mlxn_file *file, mlxn_io_tensor *tensor, unsigned *seen) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    const char *key;
    size_t length;
    mlxn_status status = parse_string(from, "a key in quotes", &key, &length);
    if (status != MLXN_OK) {
        return status;
    }
    unsigned which = 0;
    for (unsigned i = 0; i < 3; i++) {
        if (strlen(keys[i]) == length && memcmp(keys[i], key, length) == 0) {
            which = 1u << i;
        }
    }
    const int shown = length < 40 ? (int)length : 40;
    if (which == 0) {
        return malformed(from, "unknown key '%.*s'", shown, key);
    }
    if (*seen & which) {
        return malformed(from, "key '%.*s' comes twice", shown, key);
    }
    *seen |= which;
    if (!take(from, ':')) {
        return unexpected(from, "':' after a key");
    }
    if (which == HAS_DESCR) {
        return parse_descr(from, file, tensor);
    }
    if (which == HAS_SHAPE) {
        return parse_shape(from, tensor);
    }
    if (take_word(from, "True")) {
        tensor->fortran = true;
    } else if (!take_word(from, "False")) {
        return unexpected(from, "True or False as fortran_order");
    }
    return MLXN_OK;
}

static mlxn_status parse_dict(reader *from, mlxn_file *file, mlxn_io_tensor *tensor) {
    unsigned seen = 0;
    if (!take(from, '{')) {
        return unexpected(from, "'{'");
    }
    bool more = true;
    while (!take(from, '}')) {
        if (!more) {
            return unexpected(from, "',' or '}' after an entry");
        }
        const mlxn_status status = parse_entry(from, file, tensor, &seen);
        if (status != MLXN_OK) {
            return status;
        }
        more = take(from, ',');
    }
    skip_space(from);
    if (from->at != from->end) {
        return unexpected(from, "nothing but space after the dict");
    }
    if (seen != (HAS_DESCR | HAS_ORDER | HAS_SHAPE)) {
        return malformed(from, "key '%s' is missing",
                         !(seen & HAS_DESCR)   ? "descr"
                         : !(seen & HAS_ORDER) ? "fortran_order"
                                               : "shape");
    }
    return MLXN_OK;
}

/* Fortran order means something only where two extents exceed 1. */
static bool order_matters(const mlxn_io_tensor *tensor) {
    size_t wide = 0;
    for (size_t i = 0; i < tensor->rank; i++) {
        wide += tensor->shape[i] > 1;
    }
    return wide > 1;
}

static void shape_text(const mlxn_io_tensor *tensor, char text[192]) {
    size_t at = 1;
    text[0] = '[';
    for (size_t i = 0; i < tensor->rank; i++) {
        at += (size_t)snprintf(text + at, 192 - at, i == 0 ? "%" PRId64 : ",%" PRId64, tensor->shape[i]);
    }
    snprintf(text + at, 192 - at, "]");
}

static mlxn_status check_size(const mlxn_file *file, mlxn_io_tensor *tensor) {
    char shape[192];
    shape_text(tensor, shape);
    if (!mlxn_io_measure(tensor, mlxn_dtype_size(tensor->dtype) * 8)) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: the size of %s %s exceeds 64 bits", file->path, file->descr, shape);
    }
    const size_t found = file->size - tensor->offset;
    if (found != tensor->bytes) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: expected %zu bytes of data for %s %s after the header, found %zu",
                            file->path, tensor->bytes, file->descr, shape, found);
    }
    tensor->fortran = tensor->fortran && order_matters(tensor);
    return MLXN_OK;
}

/* Reads the part before the dict; sets where the dict begins and its size. */
static mlxn_status parse_preamble(const mlxn_file *file, size_t *begin, size_t *size) {
    unsigned char bytes[12] = {0};
    const size_t present = file->size < sizeof bytes ? file->size : sizeof bytes;
    const mlxn_status status = mlxn_io_fetch(file, 0, present, bytes);
    if (status != MLXN_OK) {
        return status;
    }
    const size_t compared = present < MLXN_NPY_MAGIC_BYTES ? present : MLXN_NPY_MAGIC_BYTES;
    if (memcmp(bytes, MLXN_NPY_MAGIC, compared) != 0) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: not a .npy file: expected it to begin with \\x93NUMPY", file->path);
    }
    const unsigned version = bytes[6];
    if (present >= 8 && (version < 1 || version > 3 || bytes[7] != 0)) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: .npy version %u.%u; expected 1.0, 2.0 or 3.0", file->path, version,
                            bytes[7]);
    }
    *begin = version == 1 ? 10 : 12;
    if (file->size < *begin) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: expected at least the %zu bytes before the .npy header, found %zu",
                            file->path, *begin, file->size);
    }
    *size = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (version > 1) {
        *size |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    }
    if (*size > file->size - *begin) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: expected %zu bytes of .npy header, found %zu", file->path, *size,
                            file->size - *begin);
    }
    if (*size > MAX_DICT) {
        return mlxn_io_fail(MLXN_BAD_FORMAT, "%s: a .npy header of %zu bytes; expected at most %zu", file->path, *size,
                            MAX_DICT);
    }
    return MLXN_OK;
}

mlxn_status mlxn_io_npy_parse(mlxn_file *file) {
    file->format = MLXN_NPY;
    size_t begin, size;
    mlxn_status status = parse_preamble(file, &begin, &size);
    if (status != MLXN_OK) {
        return status;
    }
    file->tensors = calloc(1, sizeof *file->tensors);
    char *dict = malloc(size + 1);
    if (file->tensors == NULL || dict == NULL) {
        free(dict);
        return mlxn_io_out_of_memory(file->path, size + 1 + sizeof *file->tensors);
    }
    mlxn_io_tensor *tensor = file->tensors;
    *tensor = (mlxn_io_tensor){.name = "", .file_dtype = file->descr, .supported = true, .offset = begin + size};
    status = mlxn_io_fetch(file, begin, size, dict);
    if (status == MLXN_OK) {
        reader from = {.file = file, .begin = dict, .at = dict, .end = dict + size};
        status = parse_dict(&from, file, tensor);
    }
    free(dict);
    if (status == MLXN_OK) {
        status = check_size(file, tensor);
    }
    file->count = status == MLXN_OK;
    return status;
}

/* ---- writing ---- */

void mlxn_io_npy_header(const mlxn_buffer *buffer, char header[MLXN_NPY_HEADER]) {
    const mlxn_dtype dtype = mlxn_buffer_dtype(buffer);
    const size_t rank = mlxn_buffer_rank(buffer);
    const int64_t *shape = mlxn_buffer_shape(buffer);
    const char *descr = "";
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (dtypes[i].dtype == dtype) {
            descr = dtypes[i].text;
        }
    }
    const size_t length = MLXN_NPY_HEADER - 10;
    memcpy(header, MLXN_NPY_MAGIC "\x01\x00", 8);
    header[8] = (char)length;
    header[9] = 0;
    char *dict = header + 10;
    size_t at = (size_t)snprintf(dict, length, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                                 dtype == MLXN_U8 ? '|' : '<', descr);
    for (size_t i = 0; i < rank; i++) {
        const char *behind = rank == 1 ? "," : i + 1 < rank ? ", " : "";
        at += (size_t)snprintf(dict + at, length - at, "%" PRId64 "%s", shape[i], behind);
    }
    at += (size_t)snprintf(dict + at, length - at, "), }");
    memset(dict + at, ' ', length - at);
    dict[length - 1] = '\n';
}
