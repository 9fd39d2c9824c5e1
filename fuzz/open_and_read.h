/* What the fuzz targets of file formats do with an input: open it, and where that succeeds read everything and check
 * what must hold of every open file. */
#ifndef MLXN_FUZZ_OPEN_AND_READ_H
#define MLXN_FUZZ_OPEN_AND_READ_H

#include <stdlib.h>
#include <string.h>

#include <mlxn/io.h>

/* A broken promise is a finding. */
static inline void require(bool holds) {
    if (!holds) {
        abort();
    }
}

static inline void check_tensor(const mlxn_file *file, size_t index, size_t file_size) {
    mlxn_tensor_info info = {.size = sizeof info};
    require(mlxn_file_at(file, index, &info) == MLXN_OK);
    require(info.name != NULL && info.file_dtype != NULL);
    require(info.bytes <= file_size && info.rank <= MLXN_MAX_RANK);
    int64_t count = 1;
    for (size_t i = 0; i < info.rank && count > 0; i++) {
        require(info.shape[i] >= 0);
        count = info.shape[i] == 0 ? 0 : count;
    }
    for (size_t i = 0; i < info.rank && count > 0; i++) {
        require(!__builtin_mul_overflow(count, info.shape[i], &count));
    }
    require(count == info.count);
    size_t found;
    require(mlxn_file_find(file, info.name, &found) == MLXN_OK && found == index);
    require(!info.supported || info.bytes == (size_t)count * mlxn_dtype_size(info.dtype));

    unsigned char *data = malloc(info.bytes + 1);
    require(data != NULL);
    const mlxn_status status = mlxn_file_read(file, index, data, info.bytes);
    require(status == (info.supported ? MLXN_OK : MLXN_UNSUPPORTED));
    const void *place;
    if (mlxn_file_data(file, index, &place) == MLXN_OK) {
        require(memcmp(place, data, info.bytes) == 0);
    }
    free(data);
}

static inline void open_and_read(const unsigned char *data, size_t size, const char *name) {
    mlxn_file *file;
    const mlxn_status status = mlxn_file_open_memory(data, size, name, &file);
    require((status == MLXN_OK) == (file != NULL));
    require(status == MLXN_OK || status == MLXN_BAD_FORMAT || status == MLXN_UNSUPPORTED);
    require(status == MLXN_OK || strncmp(mlxn_io_last_error(), name, strlen(name)) == 0);
    for (size_t i = 0; i < mlxn_file_count(file); i++) {
        check_tensor(file, i, size);
    }
    for (size_t i = 0; i < mlxn_file_metadata_count(file); i++) {
        const char *key, *value;
        require(mlxn_file_metadata_at(file, i, &key, &value) == MLXN_OK);
        require(strlen(key) + strlen(value) <= size);
    }
    mlxn_file_close(file);
}

#endif
