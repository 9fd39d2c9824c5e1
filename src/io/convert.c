/* From a file's byte order and element order to the machine's. */
#include "io/internal.h"

#include <stdlib.h>
#include <string.h>

bool mlxn_io_measure(mlxn_io_tensor *tensor, size_t dtype_bits) {
    int64_t product = 1;
    bool empty = false;
    for (size_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(product, tensor->shape[i], &product)) {
            return false;
        }
    }
    const bool whole_bytes = dtype_bits % 8 == 0;
    int64_t size;
    if (__builtin_mul_overflow(product, (int64_t)(whole_bytes ? dtype_bits / 8 : dtype_bits), &size)) {
        return false;
    }
    const uint64_t bytes = (uint64_t)(whole_bytes ? size : size / 8);
    tensor->count = empty ? 0 : product;
    tensor->bytes = empty ? 0 : (size_t)bytes;
    return empty || ((whole_bytes || size % 8 == 0) && bytes <= SIZE_MAX);
}

bool mlxn_io_is_native(const mlxn_io_tensor *tensor) {
    return tensor->supported && !tensor->swapped && !tensor->fortran;
}

static void swap_bytes(unsigned char *data, size_t size, size_t width) {
    if (width == 2) {
        for (size_t i = 0; i < size; i += 2) {
            uint16_t value;
            memcpy(&value, data + i, 2);
            value = __builtin_bswap16(value);
            memcpy(data + i, &value, 2);
        }
    } else if (width == 4) {
        for (size_t i = 0; i < size; i += 4) {
            uint32_t value;
            memcpy(&value, data + i, 4);
            value = __builtin_bswap32(value);
            memcpy(data + i, &value, 4);
        }
    } else if (width == 8) {
        for (size_t i = 0; i < size; i += 8) {
            uint64_t value;
            memcpy(&value, data + i, 8);
            value = __builtin_bswap64(value);
            memcpy(data + i, &value, 8);
        }
    }
}

/* Fetches bytes of the tensor and puts them into the machine's byte order. */
static mlxn_status fetch_native(const mlxn_file *file, const mlxn_io_tensor *tensor, size_t offset, size_t size,
                                unsigned char *data) {
    const size_t width = mlxn_dtype_size(tensor->dtype);
    size_t done = 0;
    while (done < size) {
        /* Swapped while it is in the cache. */
        const size_t piece = tensor->swapped && size - done > MLXN_IO_PIECE ? MLXN_IO_PIECE : size - done;
        const mlxn_status status = mlxn_io_fetch(file, tensor->offset + offset + done, piece, data + done);
        if (status != MLXN_OK) {
            return status;
        }
        if (tensor->swapped) {
            swap_bytes(data + done, piece, width);
        }
        done += piece;
    }
    return MLXN_OK;
}

mlxn_status mlxn_io_read_range(const mlxn_file *file, const mlxn_io_tensor *tensor, size_t offset, size_t size,
                               void *data) {
    return fetch_native(file, tensor, offset, size, data);
}

/* A tile of the transposition: `rows` of index 0, which lie together in the file, by `columns` of all other
 * indices; starts[c] is the element of the result where column c begins. */
typedef struct tile {
    unsigned char *data;
    size_t *starts;
    size_t rows, columns;
    size_t stride; /* of index 0 in the result, in elements */
} tile;

/* Copies a tile to the result, along the columns, which are neighbours there in a matrix. */
static inline void scatter_elements(const tile *from, size_t first_row, size_t width, unsigned char *result) {
    for (size_t row = 0; row < from->rows; row++) {
        unsigned char *to = result + (first_row + row) * from->stride * width;
        const unsigned char *element = from->data + row * width;
        for (size_t column = 0; column < from->columns; column++) {
            memcpy(to + from->starts[column] * width, element + column * from->rows * width, width);
        }
    }
}

/* The same, with widths that the compiler knows. */
static void scatter(const tile *from, size_t first_row, size_t width, unsigned char *result) {
    switch (width) {
    case 1:
        scatter_elements(from, first_row, 1, result);
        break;
    case 2:
        scatter_elements(from, first_row, 2, result);
        break;
    case 4:
        scatter_elements(from, first_row, 4, result);
        break;
    default:
        scatter_elements(from, first_row, 8, result);
        break;
    }
}

/* Fetches rows [first_row, + rows) of columns [first_column, + columns). */
static mlxn_status fetch_tile(const mlxn_file *file, const mlxn_io_tensor *tensor, const tile *to, size_t first_row,
                              size_t first_column) {
    const size_t width = mlxn_dtype_size(tensor->dtype);
    const size_t height = (size_t)tensor->shape[0];
    if (to->rows == height) {
        return fetch_native(file, tensor, first_column * height * width, to->columns * height * width, to->data);
    }
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; status == MLXN_OK && i < to->columns; i++) {
        const size_t offset = ((first_column + i) * height + first_row) * width;
        status = fetch_native(file, tensor, offset, to->rows * width, to->data + i * to->rows * width);
    }
    return status;
}

/* Sets the starts of the next columns and moves the indices 1 … on. */
static void next_columns(const mlxn_io_tensor *tensor, const size_t *strides, size_t *index, tile *to) {
    for (size_t column = 0; column < to->columns; column++) {
        size_t start = 0;
        for (size_t i = 1; i < tensor->rank; i++) {
            start += index[i] * strides[i];
        }
        to->starts[column] = start;
        for (size_t i = 1; i < tensor->rank && ++index[i] == (size_t)tensor->shape[i]; i++) {
            index[i] = 0;
        }
    }
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static mlxn_status transpose(const mlxn_file *file, const mlxn_io_tensor *tensor, unsigned char *result) {
    enum { TILE_BYTES = 256 << 10, TILE_ROWS = 1024, TILE_COLUMNS = 64 };
    const size_t width = mlxn_dtype_size(tensor->dtype);
    const size_t height = (size_t)tensor->shape[0];
    const size_t columns = (size_t)tensor->count / height;
    const size_t rows = smaller(height, TILE_ROWS);
    const size_t wide = TILE_BYTES / (rows * width);
    const size_t most = smaller(columns, wide > TILE_COLUMNS ? wide : TILE_COLUMNS);

    size_t strides[MLXN_MAX_RANK], index[MLXN_MAX_RANK] = {0};
    strides[tensor->rank - 1] = 1;
    for (size_t i = tensor->rank - 1; i > 0; i--) {
        strides[i - 1] = strides[i] * (size_t)tensor->shape[i];
    }
    tile part = {.stride = strides[0], .data = malloc(most * rows * width), .starts = malloc(most * sizeof(size_t))};
    mlxn_status status = MLXN_OK;
    if (part.data == NULL || part.starts == NULL) {
        status = mlxn_io_out_of_memory(file->path, most * (rows * width + sizeof(size_t)));
    }
    for (size_t column = 0; status == MLXN_OK && column < columns; column += part.columns) {
        part.columns = smaller(most, columns - column);
        next_columns(tensor, strides, index, &part);
        for (size_t row = 0; status == MLXN_OK && row < height; row += part.rows) {
            part.rows = smaller(rows, height - row);
            status = fetch_tile(file, tensor, &part, row, column);
            if (status == MLXN_OK) {
                scatter(&part, row, width, result);
            }
        }
    }
    free(part.data);
    free(part.starts);
    return status;
}

mlxn_status mlxn_io_read_all(const mlxn_file *file, const mlxn_io_tensor *tensor, void *data) {
    if (tensor->count == 0) {
        return MLXN_OK;
    }
    return tensor->fortran ? transpose(file, tensor, data) : fetch_native(file, tensor, 0, tensor->bytes, data);
}
