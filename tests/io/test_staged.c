/* Loading onto a device that does not work in host memory: the same results through staging memory. The device is the
 * CPU with its host memory hidden from mlxn-io. */
#include "io/io_test.h"

static mlxn_status no_wrap(mlxn_device *device, mlxn_dtype dtype, size_t rank, const int64_t *shape, void *memory,
                           const mlxn_wrap_options *options, mlxn_buffer **buffer) {
    (void)device, (void)dtype, (void)rank, (void)shape, (void)memory, (void)options;
    *buffer = NULL;
    return MLXN_UNSUPPORTED;
}

static mlxn_status no_map(const mlxn_buffer *buffer, void **data) {
    (void)buffer;
    *data = NULL;
    return MLXN_UNSUPPORTED;
}

/* The write that is to fail, counted from 1; 0 for none. */
static size_t failing_write;
static size_t writes;

static mlxn_status counted_write(mlxn_buffer *buffer, size_t offset, size_t size, const void *data) {
    return ++writes == failing_write ? MLXN_DEVICE_FAILED : mlxn_buffer_write(buffer, offset, size, data);
}

#define mlxn_buffer_wrap no_wrap
#define mlxn_buffer_map no_map
#define mlxn_buffer_write counted_write
#include "io/file.c"
#undef mlxn_buffer_wrap
#undef mlxn_buffer_map
#undef mlxn_buffer_write

static void check_load(const char *path, size_t expected_writes) {
    mlxn_device *device = io_device();
    mlxn_file *file;
    IO_OK(mlxn_file_open(path, NULL, &file));
    for (size_t i = 0; i < mlxn_file_count(file); i++) {
        mlxn_tensor_info info = {.size = sizeof info};
        IO_OK(mlxn_file_at(file, i, &info));
        if (!info.supported) {
            continue;
        }
        mlxn_buffer *buffer;
        writes = 0;
        IO_OK(mlxn_file_load(file, i, device, &buffer));
        assert_false(mlxn_buffer_read_only(buffer));
        assert_int_equal(writes, info.bytes == 0 ? 0 : expected_writes);
        unsigned char *expected = malloc(info.bytes + 1), *got = malloc(info.bytes + 1);
        assert_non_null(expected);
        assert_non_null(got);
        IO_OK(mlxn_file_read(file, i, expected, info.bytes));
        assert_int_equal(mlxn_buffer_read(buffer, 0, info.bytes, got), MLXN_OK);
        assert_memory_equal(expected, got, info.bytes);
        free(expected);
        free(got);
        mlxn_buffer_destroy(buffer);
    }
    mlxn_file_close(file);
    mlxn_device_destroy(device);
}

static void small_files(void **state) {
    (void)state;
    check_load(DATA_FOLDER "f4.npy", 1);
    check_load(DATA_FOLDER "big_i8.npy", 1);
    check_load(DATA_FOLDER "fortran.npy", 1);
    check_load(DATA_FOLDER "fortran3_big.npy", 1);
    check_load(DATA_FOLDER "empty.npy", 0);
    check_load(DATA_FOLDER "mixed.safetensors", 1);
}

/* Two whole pieces and a part of 8 bytes. */
static const char *large_file(void) {
    const io_bytes head = io_npy(1, "{'descr': '>i8', 'fortran_order': False, 'shape': (1048577,), }\n", 0);
    const char *path = io_path("large.npy");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(head.data, 1, head.size, file), head.size);
    for (uint64_t i = 0; i < 1048577; i++) {
        const uint64_t swapped = __builtin_bswap64(i * 0x9e3779b97f4a7c15u);
        assert_int_equal(fwrite(&swapped, 1, sizeof swapped, file), sizeof swapped);
    }
    assert_int_equal(fclose(file), 0);
    return path;
}

static void in_pieces(void **state) {
    (void)state;
    check_load(large_file(), 3);
}

static void failing_device(void **state) {
    (void)state;
    const char *path = large_file();
    mlxn_device *device = io_device();
    mlxn_file *file;
    IO_OK(mlxn_file_open(path, NULL, &file));
    for (failing_write = 1; failing_write <= 3; failing_write++) {
        mlxn_buffer *buffer = (mlxn_buffer *)&buffer;
        writes = 0;
        IO_FAILS(MLXN_DEVICE_FAILED, "large.npy: writing to the device", mlxn_file_load(file, 0, device, &buffer));
        assert_null(buffer);
        assert_int_equal(writes, failing_write);
    }
    failing_write = 0;
    mlxn_file_close(file);
    mlxn_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(small_files, io_clean_folder),
        cmocka_unit_test_teardown(in_pieces, io_clean_folder),
        cmocka_unit_test_teardown(failing_device, io_clean_folder),
    };
    return cmocka_run_group_tests(tests, NULL, io_remove_folder);
}
