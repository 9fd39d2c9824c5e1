/* What the tests of mlxn-io share: checks of a status with mlxn-io's message, a folder of their own, and files made
 * byte by byte. */
#ifndef MLXN_TESTS_IO_IO_TEST_H
#define MLXN_TESTS_IO_IO_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mlxn/io.h>

#define DATA_FOLDER MLXN_SOURCE_DIR "/tests/io/data/"

/* The call must succeed. */
#define IO_OK(call) io_check((call), MLXN_OK, "", #call, __FILE__, __LINE__)

/* The call must fail with this status, and the message contains `text`. */
#define IO_FAILS(status, text, call) io_check((call), (status), (text), #call, __FILE__, __LINE__)

static inline void io_check(mlxn_status status, mlxn_status expected, const char *text, const char *call,
                            const char *file, int line) {
    if (status != expected) {
        print_error("%s: expected \"%s\", got \"%s\" (%s)\n", call, mlxn_status_text(expected),
                    mlxn_status_text(status), mlxn_io_last_error());
        _fail(file, line);
    }
    if (expected != MLXN_OK && strstr(mlxn_io_last_error(), text) == NULL) {
        print_error("%s: expected \"%s\" in the message, got \"%s\"\n", call, text, mlxn_io_last_error());
        _fail(file, line);
    }
}

/* A folder of this program, made at the first use; every test cleans it by io_clean_folder. */
static inline const char *io_folder(void) {
    static char folder[64];
    if (folder[0] == '\0') {
        strcpy(folder, "/tmp/mlxn-io-test-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    return folder;
}

/* A path in that folder; the last 64 stay valid. */
static inline const char *io_path(const char *name) {
    static char paths[64][512];
    static unsigned next;
    char *path = paths[next++ % 64];
    snprintf(path, sizeof paths[0], "%s/%s", io_folder(), name);
    return path;
}

/* The number of entries in the folder, temporary ones included. */
static inline size_t io_folder_entries(void) {
    DIR *folder = opendir(io_folder());
    assert_non_null(folder);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(folder);
    return count;
}

/* Removes everything in the folder. A cmocka teardown. */
static inline int io_clean_folder(void **state) {
    (void)state;
    DIR *folder = opendir(io_folder());
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", io_folder(), entry->d_name);
        if (unlink(path) != 0) {
            rmdir(path);
        }
    }
    closedir(folder);
    return 0;
}

/* Removes the folder itself. A cmocka group teardown. */
static inline int io_remove_folder(void **state) {
    io_clean_folder(state);
    return rmdir(io_folder());
}

static inline void io_write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

typedef struct io_bytes {
    unsigned char data[16384];
    size_t size;
} io_bytes;

static inline void io_read_file(const char *path, io_bytes *bytes) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    bytes->size = fread(bytes->data, 1, sizeof bytes->data, file);
    assert_true(bytes->size < sizeof bytes->data);
    fclose(file);
}

static inline void io_add(io_bytes *bytes, const void *data, size_t size) {
    assert_true(size <= sizeof bytes->data - bytes->size);
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

/* A .npy file: preamble of the version, the dict as it stands, `data_size` bytes 0, 1, 2, … */
static inline io_bytes io_npy(unsigned version, const char *dict, size_t data_size) {
    io_bytes file = {.size = 0};
    const size_t length = strlen(dict);
    const unsigned char field[4] = {(unsigned char)(length & 0xff), (unsigned char)(length >> 8 & 0xff), 0, 0};
    const unsigned char numbers[2] = {(unsigned char)version, 0};
    io_add(&file, "\x93NUMPY", 6);
    io_add(&file, numbers, 2);
    io_add(&file, field, version == 1 ? 2 : 4);
    io_add(&file, dict, length);
    for (size_t i = 0; i < data_size; i++) {
        const unsigned char byte = (unsigned char)i;
        io_add(&file, &byte, 1);
    }
    return file;
}

/* A .safetensors file: the header as it stands, `data_size` bytes 0, 1, 2, … */
static inline io_bytes io_safetensors(const char *header, size_t data_size) {
    io_bytes file = {.size = 0};
    const uint64_t length = strlen(header);
    io_add(&file, &length, 8);
    io_add(&file, header, (size_t)length);
    for (size_t i = 0; i < data_size; i++) {
        const unsigned char byte = (unsigned char)i;
        io_add(&file, &byte, 1);
    }
    return file;
}

/* Element `index` of data of that dtype, as a number. */
static inline double io_number(mlxn_dtype dtype, const void *data, size_t index) {
    const unsigned char *at = (const unsigned char *)data + index * mlxn_dtype_size(dtype);
    union {
        float f32;
        double f64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        int32_t i32;
        int64_t i64;
    } value = {.i64 = 0};
    memcpy(&value, at, mlxn_dtype_size(dtype));
    const uint16_t bits = value.u16;
    switch (dtype) {
    case MLXN_F32:
        return (double)value.f32;
    case MLXN_F64:
        return value.f64;
    case MLXN_U8:
        return value.u8;
    case MLXN_U16:
        return value.u16;
    case MLXN_U32:
        return value.u32;
    case MLXN_I32:
        return value.i32;
    case MLXN_I64:
        return (double)value.i64;
    case MLXN_BF16:
        value.u32 = (uint32_t)bits << 16;
        return (double)value.f32;
    case MLXN_F16: {
        /* Normal numbers and zero are all the tests need. */
        const int exponent = (bits >> 10 & 31) - 15;
        double number = (bits & 0x7fff) == 0 ? 0 : 1 + (bits & 1023) / 1024.0;
        for (int i = 0; i < exponent; i++) {
            number *= 2;
        }
        return bits & 0x8000 ? -number : number;
    }
    }
    return 0;
}

/* What the golden files hold: i - 2, or i + 1 where there are no negative numbers. */
static inline double io_golden(mlxn_dtype dtype, size_t index) {
    const bool is_unsigned = dtype == MLXN_U8 || dtype == MLXN_U16 || dtype == MLXN_U32;
    return is_unsigned ? (double)index + 1 : (double)index - 2;
}

static inline mlxn_device *io_device(void) {
    mlxn_device *device;
    assert_int_equal(mlxn_device_open("cpu", NULL, &device), MLXN_OK);
    return device;
}

#endif
