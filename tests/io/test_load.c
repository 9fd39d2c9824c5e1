/* From a file onto a device: without a copy where that can be, right where it cannot, and lasting. */
#include "io/io_test.h"

#include <pthread.h>

static mlxn_device *device;

/* The bytes of a buffer must be those of the file's own reading. */
static void check_buffer(const mlxn_buffer *buffer, const mlxn_file *file, size_t index) {
    mlxn_tensor_info info = {.size = sizeof info};
    IO_OK(mlxn_file_at(file, index, &info));
    assert_int_equal(mlxn_buffer_dtype(buffer), info.dtype);
    assert_int_equal(mlxn_buffer_rank(buffer), info.rank);
    assert_memory_equal(mlxn_buffer_shape(buffer), info.shape, info.rank * sizeof(int64_t));
    unsigned char *expected = malloc(info.bytes + 1), *got = malloc(info.bytes + 1);
    assert_non_null(expected);
    assert_non_null(got);
    IO_OK(mlxn_file_read(file, index, expected, info.bytes));
    assert_int_equal(mlxn_buffer_read(buffer, 0, info.bytes, got), MLXN_OK);
    assert_memory_equal(expected, got, info.bytes);
    free(expected);
    free(got);
}

/* Loads tensor `index` and says whether it was copied. */
static bool load_copies(const char *path, const mlxn_file_options *options, size_t index) {
    mlxn_file *file;
    IO_OK(mlxn_file_open(path, options, &file));
    const void *data;
    const bool copied = mlxn_file_data(file, index, &data) != MLXN_OK;
    mlxn_buffer *buffer;
    IO_OK(mlxn_file_load(file, index, device, &buffer));
    check_buffer(buffer, file, index);
    void *memory;
    assert_int_equal(mlxn_buffer_map(buffer, &memory), MLXN_OK);
    assert_int_equal(mlxn_buffer_read_only(buffer), !copied);
    if (!copied) {
        assert_ptr_equal(memory, data);
    } else {
        assert_null(data);
    }
    mlxn_buffer_destroy(buffer);
    mlxn_file_close(file);
    return copied;
}

static void map_or_copy(void **state) {
    (void)state;
    assert_false(load_copies(DATA_FOLDER "f4.npy", NULL, 0));
    assert_false(load_copies(DATA_FOLDER "f8.npy", NULL, 0));
    assert_false(load_copies(DATA_FOLDER "bf16.npy", NULL, 0));
    assert_false(load_copies(DATA_FOLDER "rank0.npy", NULL, 0));
    assert_true(load_copies(DATA_FOLDER "big_f4.npy", NULL, 0));
    assert_true(load_copies(DATA_FOLDER "fortran.npy", NULL, 0));
    assert_true(load_copies(DATA_FOLDER "fortran3_big.npy", NULL, 0));
    const mlxn_file_options copy = {.size = sizeof copy, .copy = true};
    assert_true(load_copies(DATA_FOLDER "f4.npy", &copy, 0));
    assert_true(load_copies(DATA_FOLDER "fortran.npy", &copy, 0));
    assert_true(load_copies(DATA_FOLDER "mixed.safetensors", &copy, 0));
    assert_false(load_copies(DATA_FOLDER "mixed.safetensors", NULL, 0));
}

static void why_it_is_copied(void **state) {
    (void)state;
    static const struct {
        const char *path;
        bool copy;
        const char *text;
    } cases[] = {
        {DATA_FOLDER "big_f4.npy", false, "byte order"},
        {DATA_FOLDER "fortran.npy", false, "Fortran order"},
        {DATA_FOLDER "f4.npy", true, "not mapped"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mlxn_file_options options = {.size = sizeof options, .copy = cases[i].copy};
        mlxn_file *file;
        IO_OK(mlxn_file_open(cases[i].path, &options, &file));
        const void *data;
        IO_FAILS(MLXN_UNSUPPORTED, cases[i].text, mlxn_file_data(file, 0, &data));
        mlxn_file_close(file);
    }
}

static void unaligned_safetensors(void **state) {
    (void)state;
    const io_bytes bytes = io_safetensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                          "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[1,13]},"
                                          "\"c\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[13,21]}}      ",
                                          21);
    assert_int_equal((bytes.size - 21) % 8, 0);
    const char *path = io_path("unaligned.safetensors");
    io_write_file(path, bytes.data, bytes.size);
    assert_false(load_copies(path, NULL, 0));
    assert_true(load_copies(path, NULL, 1));
    assert_true(load_copies(path, NULL, 2));
    mlxn_file *file;
    IO_OK(mlxn_file_open(path, NULL, &file));
    unsigned char data[12];
    IO_OK(mlxn_file_read(file, 1, data, 12));
    for (unsigned i = 0; i < 12; i++) {
        assert_int_equal(data[i], i + 1);
    }
    const void *place;
    IO_FAILS(MLXN_UNSUPPORTED, "not aligned", mlxn_file_data(file, 1, &place));
    mlxn_file_close(file);
}

static void empty_tensor(void **state) {
    (void)state;
    mlxn_buffer *buffer;
    IO_OK(mlxn_load(device, DATA_FOLDER "empty.npy", NULL, &buffer));
    assert_int_equal(mlxn_buffer_count(buffer), 0);
    assert_int_equal(mlxn_buffer_rank(buffer), 2);
    assert_int_equal(mlxn_buffer_shape(buffer)[1], 4);
    mlxn_buffer_destroy(buffer);
}

static size_t open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

/* A buffer outlives the file's handle, its name and the device's handle, and holds no descriptor. */
static void buffer_outlives_file(void **state) {
    (void)state;
    const size_t before = open_descriptors();
    const char *path = io_path("f4.npy");
    io_bytes bytes;
    io_read_file(DATA_FOLDER "f4.npy", &bytes);
    io_write_file(path, bytes.data, bytes.size);
    mlxn_file *file;
    IO_OK(mlxn_file_open(path, NULL, &file));
    mlxn_buffer *first, *second;
    IO_OK(mlxn_file_load(file, 0, device, &first));
    IO_OK(mlxn_file_load(file, 0, device, &second));
    mlxn_file_close(file);
    assert_int_equal(unlink(path), 0);
    mlxn_buffer_destroy(first);
    float values[6];
    assert_int_equal(mlxn_buffer_read(second, 0, sizeof values, values), MLXN_OK);
    for (size_t i = 0; i < 6; i++) {
        assert_true(values[i] == (float)i - 2);
    }
    assert_int_equal(open_descriptors(), before);
    mlxn_buffer_destroy(second);
}

/* A file that is refused leaves nothing open. */
static void refused_file_is_closed(void **state) {
    (void)state;
    const size_t before = open_descriptors();
    const char *path = io_path("bad.npy");
    io_write_file(path, "\x93NUMPY\4\0", 8);
    mlxn_file *file;
    IO_FAILS(MLXN_BAD_FORMAT, "version 4.0", mlxn_file_open(path, NULL, &file));
    assert_int_equal(open_descriptors(), before);
}

/* Memory that the caller lends until the file is closed is copied. */
static void lent_memory_is_copied(void **state) {
    (void)state;
    io_bytes bytes;
    io_read_file(DATA_FOLDER "f4.npy", &bytes);
    mlxn_file *file;
    IO_OK(mlxn_file_open_memory(bytes.data, bytes.size, NULL, &file));
    mlxn_buffer *buffer;
    IO_OK(mlxn_file_load(file, 0, device, &buffer));
    assert_false(mlxn_buffer_read_only(buffer));
    mlxn_file_close(file);
    memset(bytes.data, 0xff, sizeof bytes.data);
    float values[6];
    assert_int_equal(mlxn_buffer_read(buffer, 0, sizeof values, values), MLXN_OK);
    assert_true(values[0] == -2 && values[5] == 3);
    mlxn_buffer_destroy(buffer);
}

/* A loaded map is not to be written through the library. */
static void map_is_read_only(void **state) {
    (void)state;
    mlxn_buffer *buffer;
    IO_OK(mlxn_load(device, DATA_FOLDER "f4.npy", NULL, &buffer));
    const float one = 1;
    assert_int_equal(mlxn_buffer_write(buffer, 0, 4, &one), MLXN_INVALID_ARGUMENT);
    mlxn_buffer_destroy(buffer);
}

/* Another program cuts the file: a copying load fails, and says so. */
static void file_becomes_shorter(void **state) {
    (void)state;
    const char *path = io_path("shrinks.npy");
    io_bytes bytes;
    io_read_file(DATA_FOLDER "big_f4.npy", &bytes);
    io_write_file(path, bytes.data, bytes.size);
    mlxn_file *file;
    IO_OK(mlxn_file_open(path, NULL, &file));
    assert_int_equal(truncate(path, (off_t)bytes.size - 5), 0);
    unsigned char data[24];
    IO_FAILS(MLXN_FILE_FAILED, "became shorter while it was open: had 152 bytes, now ends at byte 147",
             mlxn_file_read(file, 0, data, sizeof data));
    mlxn_buffer *buffer = (mlxn_buffer *)&buffer;
    IO_FAILS(MLXN_FILE_FAILED, "became shorter", mlxn_file_load(file, 0, device, &buffer));
    assert_null(buffer);
    mlxn_file_close(file);
}

/* Fortran order against an index computation of its own, at sizes beside every tile border, for every width. */
static void fortran_shapes(void **state) {
    (void)state;
    static const struct {
        size_t rank;
        int64_t shape[5];
    } cases[] = {
        {2, {1, 7}},        {2, {7, 1}},       {2, {2, 3}},          {2, {1023, 65}},  {2, {1025, 63}},
        {2, {2049, 130}},   {2, {3, 70001}},   {2, {70001, 3}},      {3, {5, 6, 7}},   {3, {1, 300, 200}},
        {3, {1030, 3, 67}}, {4, {2, 1, 3, 4}}, {5, {2, 3, 4, 5, 6}}, {2, {1, 200000}}, {2, {200000, 1}},
    };
    static const struct {
        const char *descr;
        size_t width;
        bool swapped;
    } dtypes[] = {{"|u1", 1, false}, {"<u2", 2, false}, {">u4", 4, true}, {"<i8", 8, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const size_t rank = cases[c].rank;
        const int64_t *shape = cases[c].shape;
        char text[128] = "";
        size_t count = 1;
        for (size_t i = 0; i < rank; i++) {
            snprintf(text + strlen(text), 32, "%d, ", (int)shape[i]);
            count *= (size_t)shape[i];
        }
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            const size_t width = dtypes[d].width;
            char dict[256];
            snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': True, 'shape': (%s), }\n", dtypes[d].descr,
                     text);
            const io_bytes head = io_npy(1, dict, 0);
            unsigned char *file = malloc(head.size + count * width), *got = malloc(count * width);
            assert_non_null(file);
            assert_non_null(got);
            memcpy(file, head.data, head.size);
            /* Element number n of the file, in its order, has the value n. */
            for (size_t n = 0; n < count; n++) {
                for (size_t b = 0; b < width; b++) {
                    const size_t place = dtypes[d].swapped ? width - 1 - b : b;
                    file[head.size + n * width + place] = (unsigned char)((uint64_t)n >> 8 * b);
                }
            }
            mlxn_file *opened;
            IO_OK(mlxn_file_open_memory(file, head.size + count * width, "x", &opened));
            IO_OK(mlxn_file_read(opened, 0, got, count * width));
            mlxn_file_close(opened);
            for (size_t n = 0; n < count; n++) {
                size_t rest = n, at = 0;
                for (size_t i = 0; i < rank; i++) {
                    size_t stride = 1;
                    for (size_t j = i + 1; j < rank; j++) {
                        stride *= (size_t)shape[j];
                    }
                    at += rest % (size_t)shape[i] * stride;
                    rest /= (size_t)shape[i];
                }
                const uint64_t wanted = n;
                if (memcmp(got + at * width, &wanted, width) != 0) {
                    fail_msg("(%s) of %s: element %zu is wrong", text, dtypes[d].descr, at);
                }
            }
            free(file);
            free(got);
        }
    }
}

static void *feed(void *argument) {
    io_bytes bytes;
    io_read_file(DATA_FOLDER "fortran.npy", &bytes);
    const int fd = open(argument, O_WRONLY);
    size_t done = 0;
    while (fd >= 0 && done < bytes.size) {
        const size_t size = bytes.size - done < 7 ? bytes.size - done : 7;
        const ssize_t put = write(fd, bytes.data + done, size);
        done = put < 0 ? bytes.size : done + (size_t)put;
    }
    close(fd);
    return NULL;
}

static void pipe_is_read(void **state) {
    (void)state;
    char path[256];
    strcpy(path, io_path("pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, feed, path), 0);
    mlxn_file *file;
    IO_OK(mlxn_file_open(path, NULL, &file));
    assert_int_equal(pthread_join(thread, NULL), 0);
    float values[12];
    IO_OK(mlxn_file_read(file, 0, values, sizeof values));
    for (size_t i = 0; i < 12; i++) {
        assert_true(values[i] == (float)i - 2);
    }
    mlxn_file_close(file);
}

static void endless_device_is_refused(void **state) {
    (void)state;
    mlxn_file *file;
    IO_FAILS(MLXN_BAD_FORMAT, "/dev/zero", mlxn_file_open("/dev/zero", NULL, &file));
    assert_null(file);
}

/* More than one piece of the buffer that grows. */
static void *feed_large(void *argument) {
    const io_bytes head = io_npy(1, "{'descr': '<u4', 'fortran_order': False, 'shape': (100000,), }\n", 0);
    const int fd = open(argument, O_WRONLY);
    FILE *file = fdopen(fd, "wb");
    fwrite(head.data, 1, head.size, file);
    for (uint32_t i = 0; i < 100000; i++) {
        fwrite(&i, 1, sizeof i, file);
    }
    fclose(file);
    return NULL;
}

static void large_pipe_is_loaded(void **state) {
    (void)state;
    char path[256];
    strcpy(path, io_path("pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, feed_large, path), 0);
    mlxn_buffer *buffer;
    IO_OK(mlxn_load(device, path, NULL, &buffer));
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (uint32_t i = 0; i < 100000; i += 9999) {
        uint32_t value;
        assert_int_equal(mlxn_buffer_read(buffer, i * sizeof i, sizeof value, &value), MLXN_OK);
        assert_int_equal(value, i);
    }
    mlxn_buffer_destroy(buffer);
}

static void not_readable(void **state) {
    (void)state;
    mlxn_file *file;
    IO_FAILS(MLXN_FILE_FAILED, "cannot open: No such file or directory",
             mlxn_file_open(io_path("missing.npy"), NULL, &file));
    IO_FAILS(MLXN_FILE_FAILED, "is a folder", mlxn_file_open(io_folder(), NULL, &file));
    IO_FAILS(MLXN_FILE_FAILED, "cannot open", mlxn_file_open("", NULL, &file));
    io_write_file(io_path("empty.npy"), "", 0);
    IO_FAILS(MLXN_BAD_FORMAT, "is empty", mlxn_file_open(io_path("empty.npy"), NULL, &file));
    IO_FAILS(MLXN_BAD_FORMAT, "is empty", mlxn_file_open("/dev/null", NULL, &file));
}

static void references(void **state) {
    (void)state;
    mlxn_buffer *buffer;
    IO_OK(mlxn_load(device, DATA_FOLDER "mixed.safetensors:half", NULL, &buffer));
    assert_int_equal(mlxn_buffer_dtype(buffer), MLXN_F16);
    mlxn_buffer_destroy(buffer);
    IO_FAILS(MLXN_INVALID_ARGUMENT, "holds 7 tensors",
             mlxn_load(device, DATA_FOLDER "mixed.safetensors", NULL, &buffer));
    assert_null(buffer);
    IO_FAILS(MLXN_NOT_FOUND, "no tensor 'bias'",
             mlxn_load(device, DATA_FOLDER "mixed.safetensors:bias", NULL, &buffer));
    IO_FAILS(MLXN_NOT_FOUND, "no tensor ''", mlxn_load(device, DATA_FOLDER "mixed.safetensors:", NULL, &buffer));
    IO_FAILS(MLXN_FILE_FAILED, "f4.npy:x: cannot open", mlxn_load(device, DATA_FOLDER "f4.npy:x", NULL, &buffer));
    /* A file whose name looks like a reference. */
    const io_bytes bytes = io_safetensors("{\"only\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    const char *path = io_path("a.safetensors:b");
    io_write_file(path, bytes.data, bytes.size);
    IO_OK(mlxn_load(device, path, NULL, &buffer));
    mlxn_buffer_destroy(buffer);
}

static void formats_from_paths(void **state) {
    (void)state;
    mlxn_format format;
    IO_OK(mlxn_format_from_path("a/b.npy", &format));
    assert_int_equal(format, MLXN_NPY);
    IO_OK(mlxn_format_from_path("x.safetensors", &format));
    assert_int_equal(format, MLXN_SAFETENSORS);
    IO_FAILS(MLXN_NOT_FOUND, "x.npz: expected", mlxn_format_from_path("x.npz", &format));
    IO_FAILS(MLXN_NOT_FOUND, "npy: expected", mlxn_format_from_path("npy", &format));
    IO_FAILS(MLXN_NOT_FOUND, "expected", mlxn_format_from_path("", &format));
}

/* The contents decide, not the name. */
static void format_by_contents(void **state) {
    (void)state;
    io_bytes bytes;
    io_read_file(DATA_FOLDER "f4.npy", &bytes);
    io_write_file(io_path("x.safetensors"), bytes.data, bytes.size);
    mlxn_file *file;
    IO_OK(mlxn_file_open(io_path("x.safetensors"), NULL, &file));
    assert_int_equal(mlxn_file_format(file), MLXN_NPY);
    mlxn_file_close(file);
}

static void *load_many(void *file) {
    for (int i = 0; i < 200; i++) {
        mlxn_buffer *buffer;
        float values[6];
        size_t index;
        if (mlxn_file_find(file, "weight", &index) != MLXN_OK ||
            mlxn_file_load(file, index, device, &buffer) != MLXN_OK ||
            mlxn_buffer_read(buffer, 0, sizeof values, values) != MLXN_OK || values[5] != 3.0f) {
            return file;
        }
        mlxn_buffer_destroy(buffer);
    }
    return NULL;
}

static void several_threads(void **state) {
    (void)state;
    mlxn_file *file;
    IO_OK(mlxn_file_open(DATA_FOLDER "mixed.safetensors", NULL, &file));
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, load_many, file), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    mlxn_file_close(file);
}

static int setup(void **state) {
    (void)state;
    device = io_device();
    return 0;
}

static int teardown(void **state) {
    mlxn_device_destroy(device);
    return io_remove_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(map_or_copy, io_clean_folder),
        cmocka_unit_test_teardown(why_it_is_copied, io_clean_folder),
        cmocka_unit_test_teardown(unaligned_safetensors, io_clean_folder),
        cmocka_unit_test_teardown(empty_tensor, io_clean_folder),
        cmocka_unit_test_teardown(buffer_outlives_file, io_clean_folder),
        cmocka_unit_test_teardown(refused_file_is_closed, io_clean_folder),
        cmocka_unit_test_teardown(lent_memory_is_copied, io_clean_folder),
        cmocka_unit_test_teardown(map_is_read_only, io_clean_folder),
        cmocka_unit_test_teardown(file_becomes_shorter, io_clean_folder),
        cmocka_unit_test_teardown(fortran_shapes, io_clean_folder),
        cmocka_unit_test_teardown(pipe_is_read, io_clean_folder),
        cmocka_unit_test(endless_device_is_refused),
        cmocka_unit_test_teardown(large_pipe_is_loaded, io_clean_folder),
        cmocka_unit_test_teardown(not_readable, io_clean_folder),
        cmocka_unit_test_teardown(references, io_clean_folder),
        cmocka_unit_test_teardown(formats_from_paths, io_clean_folder),
        cmocka_unit_test_teardown(format_by_contents, io_clean_folder),
        cmocka_unit_test_teardown(several_threads, io_clean_folder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
