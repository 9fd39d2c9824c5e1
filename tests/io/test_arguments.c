/* NULL and other senseless arguments of every function: an error, never a crash. */
#include "io/io_test.h"

#define INVALID(text, call) IO_FAILS(MLXN_INVALID_ARGUMENT, text, call)

static mlxn_device *device;
static mlxn_buffer *buffer;
static mlxn_file *file;

static void opening(void **state) {
    (void)state;
    mlxn_file *made = (mlxn_file *)&made;
    INVALID("path is NULL", mlxn_file_open(NULL, NULL, &made));
    assert_null(made);
    INVALID("file is NULL", mlxn_file_open("x", NULL, NULL));
    const mlxn_file_options options = {.size = 1};
    INVALID("options->size is 1", mlxn_file_open("x", &options, &made));
    made = (mlxn_file *)&made;
    INVALID("data is NULL", mlxn_file_open_memory(NULL, 1, "x", &made));
    assert_null(made);
    INVALID("file is NULL", mlxn_file_open_memory("x", 1, "x", NULL));
    mlxn_file_close(NULL);
    mlxn_format format;
    INVALID("path is NULL", mlxn_format_from_path(NULL, &format));
    INVALID("format is NULL", mlxn_format_from_path("x.npy", NULL));
}

static void asking(void **state) {
    (void)state;
    assert_int_equal(mlxn_file_count(NULL), 0);
    assert_int_equal(mlxn_file_metadata_count(NULL), 0);
    assert_int_equal(mlxn_file_format(NULL), MLXN_NPY);
    mlxn_tensor_info info = {.size = sizeof info};
    INVALID("file is NULL", mlxn_file_at(NULL, 0, &info));
    INVALID("info is NULL", mlxn_file_at(file, 0, NULL));
    INVALID("tensor 1 of 1 wanted", mlxn_file_at(file, 1, &info));
    info.size = 0;
    INVALID("info->size is 0", mlxn_file_at(file, 0, &info));
    size_t index;
    INVALID("file is NULL", mlxn_file_find(NULL, "", &index));
    INVALID("name is NULL", mlxn_file_find(file, NULL, &index));
    INVALID("index is NULL", mlxn_file_find(file, "", NULL));
    const char *key, *value;
    INVALID("file is NULL", mlxn_file_metadata_at(NULL, 0, &key, &value));
    INVALID("key is NULL", mlxn_file_metadata_at(file, 0, NULL, &value));
    INVALID("value is NULL", mlxn_file_metadata_at(file, 0, &key, NULL));
    INVALID("metadata 0 of 0 wanted", mlxn_file_metadata_at(file, 0, &key, &value));
}

static void reading(void **state) {
    (void)state;
    float values[6];
    const void *data;
    INVALID("file is NULL", mlxn_file_read(NULL, 0, values, sizeof values));
    INVALID("data is NULL", mlxn_file_read(file, 0, NULL, sizeof values));
    INVALID("size is 20, expected the tensor's 24 bytes", mlxn_file_read(file, 0, values, 20));
    INVALID("size is 28", mlxn_file_read(file, 0, values, 28));
    INVALID("tensor 7 of 1", mlxn_file_read(file, 7, values, sizeof values));
    INVALID("file is NULL", mlxn_file_data(NULL, 0, &data));
    INVALID("data is NULL", mlxn_file_data(file, 0, NULL));
    INVALID("tensor 1 of 1", mlxn_file_data(file, 1, &data));
    assert_null(data);
    mlxn_buffer *made = (mlxn_buffer *)&made;
    INVALID("file is NULL", mlxn_file_load(NULL, 0, device, &made));
    assert_null(made);
    INVALID("device is NULL", mlxn_file_load(file, 0, NULL, &made));
    INVALID("buffer is NULL", mlxn_file_load(file, 0, device, NULL));
    INVALID("tensor 1 of 1", mlxn_file_load(file, 1, device, &made));
    made = (mlxn_buffer *)&made;
    INVALID("device is NULL", mlxn_load(NULL, "x", NULL, &made));
    assert_null(made);
    INVALID("reference is NULL", mlxn_load(device, NULL, NULL, &made));
    INVALID("buffer is NULL", mlxn_load(device, "x", NULL, NULL));
}

static void saving(void **state) {
    (void)state;
    INVALID("path is NULL", mlxn_save_npy(NULL, buffer));
    INVALID("buffer is NULL", mlxn_save_npy(io_path("y.npy"), NULL));
    INVALID("file is NULL", mlxn_save(NULL));
    INVALID("files is NULL", mlxn_save_all(NULL, 1));
    const mlxn_named_buffer tensors[] = {{"a", buffer}, {"b", NULL}};
    const mlxn_metadata metadata[] = {{"k", "v"}};
    const mlxn_save_file good = {.size = sizeof good,
                                 .path = io_path("y.safetensors"),
                                 .format = MLXN_SAFETENSORS,
                                 .tensors = tensors,
                                 .tensor_count = 1};
    mlxn_save_file bad = good;
    bad.size = 8;
    INVALID("file->size is 8", mlxn_save(&bad));
    bad = good;
    bad.path = NULL;
    INVALID("path is NULL", mlxn_save(&bad));
    bad = good;
    bad.format = (mlxn_format)7;
    INVALID("format 7 is unknown", mlxn_save(&bad));
    bad = good;
    bad.tensors = NULL;
    INVALID("tensors is NULL", mlxn_save(&bad));
    bad = good;
    bad.tensor_count = 2;
    INVALID("the buffer of tensor 1 is NULL", mlxn_save(&bad));
    bad = good;
    bad.metadata_count = 1;
    INVALID("metadata is NULL", mlxn_save(&bad));
    bad = good;
    bad.format = MLXN_NPY;
    bad.tensor_count = 0;
    INVALID("one tensor and no metadata; 0 and 0 came", mlxn_save(&bad));
    bad.tensor_count = 2;
    INVALID("2 and 0 came", mlxn_save(&bad));
    bad.tensor_count = 1;
    bad.metadata = metadata;
    bad.metadata_count = 1;
    INVALID("1 and 1 came", mlxn_save(&bad));
    /* One bad file among several: the good one is not written either. */
    const mlxn_save_file both[] = {good, bad};
    INVALID("1 and 1 came", mlxn_save_all(both, 2));
    assert_int_equal(io_folder_entries(), 0);
}

/* A success leaves the message of the last failure alone. */
static void message_stays(void **state) {
    (void)state;
    mlxn_format format;
    IO_FAILS(MLXN_NOT_FOUND, "abc: expected", mlxn_format_from_path("abc", &format));
    IO_OK(mlxn_format_from_path("a.npy", &format));
    assert_non_null(strstr(mlxn_io_last_error(), "abc: expected"));
    /* A message longer than its place is cut. */
    char *name = malloc(10001);
    assert_non_null(name);
    memset(name, 'n', 10000);
    name[10000] = '\0';
    IO_FAILS(MLXN_NOT_FOUND, "nnn", mlxn_format_from_path(name, &format));
    assert_in_range(strlen(mlxn_io_last_error()), 1000, 9999);
    free(name);
}

static int setup(void **state) {
    (void)state;
    assert_string_equal(mlxn_io_last_error(), "");
    device = io_device();
    IO_OK(mlxn_file_open(DATA_FOLDER "f4.npy", NULL, &file));
    return mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){3}, &buffer) != MLXN_OK;
}

static int teardown(void **state) {
    mlxn_file_close(file);
    mlxn_buffer_destroy(buffer);
    mlxn_device_destroy(device);
    return io_remove_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening), cmocka_unit_test(asking),        cmocka_unit_test(reading),
        cmocka_unit_test(saving),  cmocka_unit_test(message_stays),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
