/* Reading .safetensors: sound files are read right, everything else is refused with a reason. */
#include "io/io_test.h"

static mlxn_file *open_golden(void) {
    mlxn_file *file;
    IO_OK(mlxn_file_open(DATA_FOLDER "mixed.safetensors", NULL, &file));
    return file;
}

static void reference_file(void **state) {
    (void)state;
    static const struct {
        const char *name;
        const char *file_dtype;
        mlxn_dtype dtype;
        size_t rank;
        int64_t shape[2];
        size_t count;
    } tensors[] = {
        {"weight", "F32", MLXN_F32, 2, {2, 3}, 6}, {"half", "F16", MLXN_F16, 1, {5}, 5},
        {"brain", "BF16", MLXN_BF16, 1, {3}, 3},   {"bytes", "U8", MLXN_U8, 1, {3}, 3},
        {"scalar", "I64", MLXN_I64, 0, {0}, 1},    {"nothing", "F32", MLXN_F32, 2, {0, 4}, 0},
    };
    mlxn_file *file = open_golden();
    assert_int_equal(mlxn_file_format(file), MLXN_SAFETENSORS);
    assert_int_equal(mlxn_file_count(file), 7);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        size_t index;
        IO_OK(mlxn_file_find(file, tensors[i].name, &index));
        mlxn_tensor_info info = {.size = sizeof info};
        IO_OK(mlxn_file_at(file, index, &info));
        assert_string_equal(info.name, tensors[i].name);
        assert_string_equal(info.file_dtype, tensors[i].file_dtype);
        assert_true(info.supported);
        assert_int_equal(info.dtype, tensors[i].dtype);
        assert_int_equal(info.rank, tensors[i].rank);
        assert_int_equal(info.count, tensors[i].count);
        assert_memory_equal(info.shape, tensors[i].shape, info.rank * sizeof(int64_t));
        unsigned char data[64];
        IO_OK(mlxn_file_read(file, index, data, info.bytes));
        for (size_t j = 0; j < tensors[i].count; j++) {
            assert_true(io_number(info.dtype, data, j) == io_golden(info.dtype, j));
        }
    }
    mlxn_file_close(file);
}

static void unsupported_dtype_is_listed(void **state) {
    (void)state;
    mlxn_file *file = open_golden();
    size_t index;
    IO_OK(mlxn_file_find(file, "flags", &index));
    mlxn_tensor_info info = {.size = sizeof info};
    IO_OK(mlxn_file_at(file, index, &info));
    assert_false(info.supported);
    assert_string_equal(info.file_dtype, "BOOL");
    assert_int_equal(info.bytes, 3);
    unsigned char data[3];
    const void *place;
    mlxn_device *device = io_device();
    mlxn_buffer *buffer;
    IO_FAILS(MLXN_UNSUPPORTED, "tensor 'flags' has dtype BOOL", mlxn_file_read(file, index, data, 3));
    IO_FAILS(MLXN_UNSUPPORTED, "tensor 'flags' has dtype BOOL", mlxn_file_data(file, index, &place));
    IO_FAILS(MLXN_UNSUPPORTED, "tensor 'flags' has dtype BOOL", mlxn_file_load(file, index, device, &buffer));
    mlxn_device_destroy(device);
    mlxn_file_close(file);
}

static void metadata(void **state) {
    (void)state;
    mlxn_file *file = open_golden();
    assert_int_equal(mlxn_file_metadata_count(file), 2);
    const char *key, *value;
    IO_OK(mlxn_file_metadata_at(file, 0, &key, &value));
    assert_string_equal(key, "format");
    assert_string_equal(value, "np");
    IO_OK(mlxn_file_metadata_at(file, 1, &key, &value));
    assert_string_equal(key, "note");
    assert_string_equal(value, "gr\xc3\xbc\xc3\x9f"
                               "e");
    IO_FAILS(MLXN_INVALID_ARGUMENT, "metadata 2 of 2", mlxn_file_metadata_at(file, 2, &key, &value));
    mlxn_file_close(file);
}

static void find_names(void **state) {
    (void)state;
    mlxn_file *file = open_golden();
    size_t index;
    IO_FAILS(MLXN_NOT_FOUND, "has no tensor 'bias'; it holds 'scalar', 'nothing', 'weight'",
             mlxn_file_find(file, "bias", &index));
    IO_FAILS(MLXN_NOT_FOUND, "no tensor ''", mlxn_file_find(file, "", &index));
    IO_FAILS(MLXN_NOT_FOUND, "no tensor '__metadata__'", mlxn_file_find(file, "__metadata__", &index));
    mlxn_file_close(file);
}

/* Every tensor among many is found, whatever the order of the names. */
static void find_among_many(void **state) {
    (void)state;
    char header[8192] = "{";
    for (int i = 0; i < 100; i++) {
        char entry[96];
        snprintf(entry, sizeof entry, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                 i > 0 ? "," : "", i * 37 % 100, i, i + 1);
        strcat(header, entry);
    }
    strcat(header, "}");
    const io_bytes bytes = io_safetensors(header, 100);
    mlxn_file *file;
    IO_OK(mlxn_file_open_memory(bytes.data, bytes.size, "x", &file));
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i * 37 % 100);
        size_t index;
        IO_OK(mlxn_file_find(file, name, &index));
        assert_int_equal(index, i);
        unsigned char byte;
        IO_OK(mlxn_file_read(file, index, &byte, 1));
        assert_int_equal(byte, i);
    }
    size_t index;
    IO_FAILS(MLXN_NOT_FOUND, ", ...", mlxn_file_find(file, "t100", &index));
    mlxn_file_close(file);
}

static void headers_accepted(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data, tensors;
    } cases[] = {
        {"{}", 0, 0},
        {"{ }      ", 0, 0},
        {"{\"__metadata__\":{}}", 0, 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, 1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, 1},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, 1},
        {"{\"\\\"[{[{[{\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, 1},
        /* Out of order in the header, in order in the data; an unaligned f32. */
        {"{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         5, 2},
        /* Nothing at every border. */
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]},"
         "\"c\":{\"dtype\":\"F64\",\"shape\":[0,3],\"data_offsets\":[0,0]}}",
         2, 3},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2, 1},
        {"{\"a\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,2],\"data_offsets\":[0,2]}}", 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const io_bytes bytes = io_safetensors(cases[i].header, cases[i].data);
        mlxn_file *file;
        IO_OK(mlxn_file_open_memory(bytes.data, bytes.size, "x", &file));
        assert_int_equal(mlxn_file_count(file), cases[i].tensors);
        mlxn_file_close(file);
    }
}

#define TENSOR(dtype, shape, offsets) "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define PAIR(first, second)                                               \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" first "}," \
    "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" second "}}"

static void headers_refused(void **state) {
    (void)state;
    static const struct {
        const char *header;
        mlxn_status status;
        const char *text;
    } cases[] = {
        /* Each with 8 bytes of data. */
        {"", MLXN_BAD_FORMAT, "does not begin with '{'"},
        {" {}", MLXN_BAD_FORMAT, "does not begin with '{'"},
        {"[]", MLXN_BAD_FORMAT, "does not begin with '{'"},
        {"{", MLXN_BAD_FORMAT, "header, at byte 1: "},
        {"{}x", MLXN_BAD_FORMAT, "header, at byte "},
        {"{'a':1}", MLXN_BAD_FORMAT, "header, at byte "},
        {"{\"\xff\":1}", MLXN_BAD_FORMAT, "header, at byte "},
        {"{}", MLXN_BAD_FORMAT, "expected the file to end at byte 10, found 8 bytes more"},
        {"{\"a\":1}", MLXN_BAD_FORMAT, "tensor 'a': expected an object"},
        {"{\"a\":[]}", MLXN_BAD_FORMAT, "tensor 'a': expected an object"},
        {"{\"a\":{}}", MLXN_BAD_FORMAT, "tensor 'a': expected a text as dtype"},
        {TENSOR("1", "[2]", "[0,8]"), MLXN_BAD_FORMAT, "expected a text as dtype"},
        {TENSOR("\"f32\"", "[2]", "[0,8]"), MLXN_BAD_FORMAT, "tensor 'a': unknown dtype 'f32'"},
        {TENSOR("\"F128\"", "[2]", "[0,8]"), MLXN_BAD_FORMAT, "tensor 'a': unknown dtype 'F128'"},
        {TENSOR("\"F32\"", "2", "[0,8]"), MLXN_BAD_FORMAT, "expected a list as shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", MLXN_BAD_FORMAT, "expected a list as shape"},
        {TENSOR("\"F32\"", "[-2]", "[0,8]"), MLXN_BAD_FORMAT, "integers of at least 0 in the shape"},
        {TENSOR("\"F32\"", "[2.0]", "[0,8]"), MLXN_BAD_FORMAT, "integers of at least 0 in the shape"},
        {TENSOR("\"F32\"", "[\"2\"]", "[0,8]"), MLXN_BAD_FORMAT, "integers of at least 0 in the shape"},
        {TENSOR("\"F32\"", "[null]", "[0,8]"), MLXN_BAD_FORMAT, "integers of at least 0 in the shape"},
        {TENSOR("\"F32\"", "[99999999999999999999]", "[0,8]"), MLXN_BAD_FORMAT, "header, at byte "},
        {TENSOR("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), MLXN_UNSUPPORTED, "tensor 'a' has 9 extents"},
        {TENSOR("\"F32\"", "[4294967296,4294967296]", "[0,8]"), MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {TENSOR("\"F32\"", "[4294967296,4294967296,0]", "[0,0]"), MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {TENSOR("\"F32\"", "[9223372036854775807]", "[0,8]"), MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {TENSOR("\"F32\"", "[4611686018427387906]", "[0,8]"), MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {TENSOR("\"F4\"", "[3]", "[0,8]"), MLXN_BAD_FORMAT, "not whole bytes"},
        {TENSOR("\"F32\"", "[2]", "[]"), MLXN_BAD_FORMAT, "expected two integers of at least 0 as data_offsets"},
        {TENSOR("\"F32\"", "[2]", "[8]"), MLXN_BAD_FORMAT, "expected two integers"},
        {TENSOR("\"F32\"", "[2]", "[0,4,8]"), MLXN_BAD_FORMAT, "expected two integers"},
        {TENSOR("\"F32\"", "[2]", "[-8,0]"), MLXN_BAD_FORMAT, "expected two integers"},
        {TENSOR("\"F32\"", "[2]", "[0,8.0]"), MLXN_BAD_FORMAT, "expected two integers"},
        {TENSOR("\"F32\"", "[2]", "null"), MLXN_BAD_FORMAT, "expected two integers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", MLXN_BAD_FORMAT, "expected two integers"},
        {TENSOR("\"F32\"", "[2]", "[8,0]"), MLXN_BAD_FORMAT, "data_offsets [8,0] are reversed"},
        {TENSOR("\"F32\"", "[2]", "[0,9]"), MLXN_BAD_FORMAT, "data_offsets [0,9] exceed the 8 bytes of data found"},
        {TENSOR("\"F32\"", "[2]", "[8,16]"), MLXN_BAD_FORMAT, "data_offsets [8,16] exceed the 8 bytes"},
        {TENSOR("\"F32\"", "[2]", "[0,9223372036854775807]"), MLXN_BAD_FORMAT, "exceed the 8 bytes"},
        {TENSOR("\"F32\"", "[2]", "[0,4]"), MLXN_BAD_FORMAT, "expected 8 bytes for its shape and dtype F32"},
        {TENSOR("\"F32\"", "[1]", "[0,8]"), MLXN_BAD_FORMAT, "expected 4 bytes for its shape and dtype F32"},
        {TENSOR("\"F32\"", "[]", "[0,8]"), MLXN_BAD_FORMAT, "expected 4 bytes for its shape"},
        {TENSOR("\"F32\"", "[0]", "[0,8]"), MLXN_BAD_FORMAT, "expected 0 bytes for its shape"},
        {TENSOR("\"F32\"", "[1]", "[0,4]"), MLXN_BAD_FORMAT, "found 4 bytes more"},
        {TENSOR("\"F32\"", "[1]", "[4,8]"), MLXN_BAD_FORMAT, "a hole of 4 bytes before tensor 'a'"},
        {PAIR("[0,4]", "[0,4]"), MLXN_BAD_FORMAT, "overlap"},
        {PAIR("[0,4]", "[3,7]"), MLXN_BAD_FORMAT, "tensors 'a' and 'b' overlap"},
        {PAIR("[4,8]", "[1,5]"), MLXN_BAD_FORMAT, "a hole of 1 bytes before tensor 'b'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}",
         MLXN_BAD_FORMAT, "tensors 'a' and 'b' overlap"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
         "\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
         MLXN_BAD_FORMAT, "duplicate"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,8]}}", MLXN_BAD_FORMAT,
         "duplicate"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", MLXN_BAD_FORMAT, "duplicate"},
        {"{\"__metadata__\":[]}", MLXN_BAD_FORMAT, "expected an object as __metadata__"},
        {"{\"__metadata__\":{\"a\":1}}", MLXN_BAD_FORMAT, "__metadata__: expected a text as 'a'"},
        {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", MLXN_BAD_FORMAT, "duplicate"},
        {"{\"a\":[[[[]]]]}", MLXN_BAD_FORMAT, "nests too much"},
        {"{\"a\":[[],[],[],[],[],[],[],[],[],[],[],[],[]]}", MLXN_BAD_FORMAT, "nests too much"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const io_bytes bytes = io_safetensors(cases[i].header, 8);
        mlxn_file *file = (mlxn_file *)&file;
        IO_FAILS(cases[i].status, cases[i].text, mlxn_file_open_memory(bytes.data, bytes.size, "x.safetensors", &file));
        assert_null(file);
        assert_true(strncmp(mlxn_io_last_error(), "x.safetensors: ", 15) == 0);
    }
}

static void cut_short(void **state) {
    (void)state;
    const io_bytes bytes = io_safetensors(TENSOR("\"F32\"", "[2]", "[0,8]"), 8);
    for (size_t size = 0; size < bytes.size; size++) {
        unsigned char *part = malloc(size + 1);
        assert_non_null(part);
        memcpy(part, bytes.data, size);
        mlxn_file *file;
        IO_FAILS(MLXN_BAD_FORMAT, "x.safetensors: ", mlxn_file_open_memory(part, size, "x.safetensors", &file));
        free(part);
    }
    mlxn_file *file;
    IO_FAILS(MLXN_BAD_FORMAT, "expected 8 bytes of .safetensors header size, found 5",
             mlxn_file_open_memory(bytes.data, 5, "x.safetensors", &file));
    IO_FAILS(MLXN_BAD_FORMAT, "expected 54 bytes of .safetensors header, found 12",
             mlxn_file_open_memory(bytes.data, 20, "x.safetensors", &file));
    IO_FAILS(MLXN_BAD_FORMAT, "data_offsets [0,8] exceed the 7 bytes of data found",
             mlxn_file_open_memory(bytes.data, bytes.size - 1, "x.safetensors", &file));
}

static void hostile_header_size(void **state) {
    (void)state;
    static const struct {
        uint64_t size;
        const char *text;
    } cases[] = {
        {UINT64_MAX, "header size 18446744073709551615; expected at most 100000000"},
        {(uint64_t)INT64_MAX + 1, "expected at most 100000000"},
        {100000001, "header size 100000001; expected at most 100000000"},
        {100000000, "expected 100000000 bytes of .safetensors header, found 2"},
        {3, "expected 3 bytes of .safetensors header, found 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[10];
        memcpy(bytes, &cases[i].size, 8);
        memcpy(bytes + 8, "{}", 2);
        mlxn_file *file;
        IO_FAILS(MLXN_BAD_FORMAT, cases[i].text, mlxn_file_open_memory(bytes, 10, "x.safetensors", &file));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_file),
        cmocka_unit_test(unsupported_dtype_is_listed),
        cmocka_unit_test(metadata),
        cmocka_unit_test(find_names),
        cmocka_unit_test(find_among_many),
        cmocka_unit_test(headers_accepted),
        cmocka_unit_test(headers_refused),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(hostile_header_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
