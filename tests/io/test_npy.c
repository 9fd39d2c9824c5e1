/* Reading .npy: what NumPy writes is read right, everything else is refused with a reason. */
#include "io/io_test.h"

#define F4 "'descr': '<f4', "
#define ROWS "'fortran_order': False, "
#define SHAPE "'shape': (2, 3), "

static void open_bytes(const io_bytes *bytes, mlxn_file **file) {
    IO_OK(mlxn_file_open_memory(bytes->data, bytes->size, "x.npy", file));
}

static void check_golden(const char *name, mlxn_dtype dtype, size_t rank, const int64_t *shape) {
    char path[256];
    snprintf(path, sizeof path, DATA_FOLDER "%s.npy", name);
    mlxn_file *file;
    IO_OK(mlxn_file_open(path, NULL, &file));
    assert_int_equal(mlxn_file_format(file), MLXN_NPY);
    assert_int_equal(mlxn_file_count(file), 1);
    mlxn_tensor_info info = {.size = sizeof info};
    IO_OK(mlxn_file_at(file, 0, &info));
    assert_string_equal(info.name, "");
    assert_true(info.supported);
    assert_int_equal(info.dtype, dtype);
    assert_int_equal(info.rank, rank);
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        assert_int_equal(info.shape[i], shape[i]);
        count *= (size_t)shape[i];
    }
    assert_int_equal(info.count, count);
    assert_int_equal(info.bytes, count * mlxn_dtype_size(dtype));
    unsigned char data[1024];
    IO_OK(mlxn_file_read(file, 0, data, info.bytes));
    for (size_t i = 0; i < count; i++) {
        assert_true(io_number(dtype, data, i) == io_golden(dtype, i));
    }
    mlxn_file_close(file);
}

static void numpy_files(void **state) {
    (void)state;
    static const struct {
        const char *name;
        mlxn_dtype dtype;
    } files[] = {
        {"f4", MLXN_F32},       {"f2", MLXN_F16},       {"bf16", MLXN_BF16},  {"f8", MLXN_F64},
        {"u1", MLXN_U8},        {"u2", MLXN_U16},       {"u4", MLXN_U32},     {"i4", MLXN_I32},
        {"i8", MLXN_I64},       {"big_f4", MLXN_F32},   {"big_f2", MLXN_F16}, {"big_f8", MLXN_F64},
        {"big_u2", MLXN_U16},   {"big_u4", MLXN_U32},   {"big_i4", MLXN_I32}, {"big_i8", MLXN_I64},
        {"version2", MLXN_F32}, {"version3", MLXN_F32},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        check_golden(files[i].name, files[i].dtype, 2, (const int64_t[]){2, 3});
    }
    check_golden("rank0", MLXN_F32, 0, NULL);
    check_golden("rank1", MLXN_F32, 1, (const int64_t[]){5});
    check_golden("rank8", MLXN_F32, 8, (const int64_t[]){1, 2, 1, 2, 1, 2, 1, 3});
    check_golden("empty", MLXN_F32, 2, (const int64_t[]){0, 4});
    check_golden("fortran", MLXN_F32, 2, (const int64_t[]){3, 4});
    check_golden("fortran3_big", MLXN_F64, 3, (const int64_t[]){2, 3, 4});
}

/* Dicts that Python would take, and that mean [2,3] of f4. */
static void dicts_accepted(void **state) {
    (void)state;
    static const char *const dicts[] = {
        "{" F4 ROWS SHAPE "}",
        "{" F4 ROWS SHAPE "}                \n",
        "{" SHAPE F4 ROWS "}\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
        "{'descr':'<f4','fortran_order':False,'shape':(2,3)}",
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3), }\n",
        "{" F4 ROWS "'shape': (2L, 3L), }\n",
        "{" F4 ROWS "'shape': (2, 3,), }\n",
        " { 'descr' : '<f4' ,\n\t'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } \n",
    };
    for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++) {
        for (unsigned version = 1; version <= 3; version++) {
            const io_bytes bytes = io_npy(version, dicts[i], 24);
            mlxn_file *file;
            open_bytes(&bytes, &file);
            mlxn_tensor_info info = {.size = sizeof info};
            IO_OK(mlxn_file_at(file, 0, &info));
            assert_string_equal(info.file_dtype, "<f4");
            assert_int_equal(info.rank, 2);
            assert_int_equal(info.shape[0], 2);
            assert_int_equal(info.shape[1], 3);
            unsigned char data[24];
            IO_OK(mlxn_file_read(file, 0, data, 24));
            for (unsigned j = 0; j < 24; j++) {
                assert_int_equal(data[j], j);
            }
            mlxn_file_close(file);
        }
    }
}

static void descrs_accepted(void **state) {
    (void)state;
    static const struct {
        const char *descr;
        mlxn_dtype dtype;
        unsigned first; /* the first byte in memory of the data 0, 1, 2, … */
    } descrs[] = {
        {"<f4", MLXN_F32, 0}, {">f4", MLXN_F32, 3}, {"<f2", MLXN_F16, 0},  {">f2", MLXN_F16, 1},  {"<f8", MLXN_F64, 0},
        {">f8", MLXN_F64, 7}, {"|u1", MLXN_U8, 0},  {"<u1", MLXN_U8, 0},   {">u1", MLXN_U8, 0},   {"<u2", MLXN_U16, 0},
        {">u2", MLXN_U16, 1}, {"<u4", MLXN_U32, 0}, {">u4", MLXN_U32, 3},  {"<i4", MLXN_I32, 0},  {">i4", MLXN_I32, 3},
        {"<i8", MLXN_I64, 0}, {">i8", MLXN_I64, 7}, {"<V2", MLXN_BF16, 0}, {"|V2", MLXN_BF16, 0},
    };
    for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++) {
        char dict[128];
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (1,), }\n", descrs[i].descr);
        const io_bytes bytes = io_npy(1, dict, mlxn_dtype_size(descrs[i].dtype));
        mlxn_file *file;
        open_bytes(&bytes, &file);
        mlxn_tensor_info info = {.size = sizeof info};
        IO_OK(mlxn_file_at(file, 0, &info));
        assert_int_equal(info.dtype, descrs[i].dtype);
        assert_string_equal(info.file_dtype, descrs[i].descr);
        unsigned char data[8];
        IO_OK(mlxn_file_read(file, 0, data, info.bytes));
        assert_int_equal(data[0], descrs[i].first);
        mlxn_file_close(file);
    }
}

static void dicts_refused(void **state) {
    (void)state;
    static const struct {
        const char *dict;
        mlxn_status status;
        const char *text;
    } cases[] = {
        {"", MLXN_BAD_FORMAT, "expected '{', found the header's end"},
        {"[]", MLXN_BAD_FORMAT, "expected '{', found '['"},
        {"{}", MLXN_BAD_FORMAT, "key 'descr' is missing"},
        {"{" ROWS SHAPE "}", MLXN_BAD_FORMAT, "key 'descr' is missing"},
        {"{" F4 SHAPE "}", MLXN_BAD_FORMAT, "key 'fortran_order' is missing"},
        {"{" F4 ROWS "}", MLXN_BAD_FORMAT, "key 'shape' is missing"},
        {"{" F4 ROWS SHAPE F4 "}", MLXN_BAD_FORMAT, "key 'descr' comes twice"},
        {"{" F4 ROWS SHAPE SHAPE "}", MLXN_BAD_FORMAT, "key 'shape' comes twice"},
        {"{" F4 ROWS ROWS SHAPE "}", MLXN_BAD_FORMAT, "key 'fortran_order' comes twice"},
        {"{" F4 ROWS SHAPE "'order': 1}", MLXN_BAD_FORMAT, "unknown key 'order'"},
        {"{" F4 ROWS SHAPE "'': 1}", MLXN_BAD_FORMAT, "unknown key ''"},
        {"{descr: '<f4'}", MLXN_BAD_FORMAT, "expected a key in quotes, found 'd'"},
        {"{'descr' '<f4'}", MLXN_BAD_FORMAT, "expected ':' after a key"},
        {"{'descr': '<f4' 'shape': ()}", MLXN_BAD_FORMAT, "expected ',' or '}'"},
        {"{'descr", MLXN_BAD_FORMAT, "closing quote"},
        {"{'des\\x63r': '<f4'}", MLXN_BAD_FORMAT, "backslash"},
        {"{" F4 ROWS SHAPE, MLXN_BAD_FORMAT, "found the header's end"},
        {"{" F4 ROWS SHAPE "} x", MLXN_BAD_FORMAT, "nothing but space after the dict, found 'x'"},
        {"{" F4 ROWS SHAPE "}}", MLXN_BAD_FORMAT, "nothing but space"},
        {"{" F4 "'fortran_order': false, " SHAPE "}", MLXN_BAD_FORMAT, "expected True or False"},
        {"{" F4 "'fortran_order': 0, " SHAPE "}", MLXN_BAD_FORMAT, "expected True or False"},
        {"{" F4 "'fortran_order': Falsehood, " SHAPE "}", MLXN_BAD_FORMAT, "expected ',' or '}'"},
        {"{" F4 ROWS "'shape': (184), }", MLXN_BAD_FORMAT, "a single extent without a comma"},
        {"{" F4 ROWS "'shape': (np.int64(1),), }", MLXN_BAD_FORMAT, "expected an integer as extent, found 'n'"},
        {"{" F4 ROWS "'shape': 6, }", MLXN_BAD_FORMAT, "expected '(' of the shape, found '6'"},
        {"{" F4 ROWS "'shape': [2, 3], }", MLXN_BAD_FORMAT, "expected '(' of the shape, found '['"},
        {"{" F4 ROWS "'shape': (2, -3), }", MLXN_BAD_FORMAT, "expected an integer as extent, found '-'"},
        {"{" F4 ROWS "'shape': (2, 3.0), }", MLXN_BAD_FORMAT, "expected ',' or ')' in the shape"},
        {"{" F4 ROWS "'shape': (2 3), }", MLXN_BAD_FORMAT, "expected ',' or ')' in the shape"},
        {"{" F4 ROWS "'shape': (2,,3), }", MLXN_BAD_FORMAT, "expected an integer"},
        {"{" F4 ROWS "'shape': (,), }", MLXN_BAD_FORMAT, "expected an integer"},
        {"{" F4 ROWS "'shape': (2LL, 3), }", MLXN_BAD_FORMAT, "expected ',' or ')'"},
        {"{" F4 ROWS "'shape': (0x2, 3), }", MLXN_BAD_FORMAT, "expected ',' or ')'"},
        {"{" F4 ROWS "'shape': (02, 3), }", MLXN_BAD_FORMAT, "leading 0"},
        {"{" F4 ROWS "'shape': (2, 3", MLXN_BAD_FORMAT, "found the header's end"},
        {"{" F4 ROWS "'shape': (9223372036854775808,), }", MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {"{" F4 ROWS "'shape': (99999999999999999999999999,), }", MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {"{" F4 ROWS "'shape': (9223372036854775807,), }", MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {"{" F4 ROWS "'shape': (4294967296, 4294967296), }", MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {"{" F4 ROWS "'shape': (4294967296, 4294967296, 0), }", MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {"{" F4 ROWS "'shape': (2305843009213693952,), }", MLXN_BAD_FORMAT, "exceeds 64 bits"},
        {"{" F4 ROWS "'shape': (1000000000000,), }", MLXN_BAD_FORMAT, "expected 4000000000000 bytes"},
        {"{" F4 ROWS "'shape': (1,1,1,1,1,1,1,1,6), }", MLXN_UNSUPPORTED, "more than 8 extents"},
        {"{'descr': '', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "descr is empty"},
        {"{'descr': '<ixy', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "descr '<ixy' is not a dtype"},
        {"{'descr': '<', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "descr '<' is not a dtype"},
        {"{'descr': '<f', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "descr '<f' is not a dtype"},
        {"{'descr': '<f4x', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "descr '<f4x' is not a dtype"},
        {"{'descr': '<q4', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "descr '<q4' is not a dtype"},
        {"{'descr': 'f4', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "'f4' does not begin with a byte order"},
        {"{'descr': '=f4', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "'=f4' does not begin with a byte order"},
        {"{'descr': 'float32', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "'float32' does not begin with a byte order"},
        {"{'descr': '|f4', " ROWS SHAPE "}", MLXN_BAD_FORMAT, "'|f4' leaves the byte order open"},
        {"{'descr': 4, " ROWS SHAPE "}", MLXN_BAD_FORMAT, "expected a string as descr, found '4'"},
        {"{'descr': '|O', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "Python objects"},
        {"{'descr': 'O', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "Python objects"},
        {"{'descr': '|O8', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "Python objects"},
        {"{'descr': [('a', '<f4')], " ROWS SHAPE "}", MLXN_UNSUPPORTED, "structured"},
        {"{'descr': '|b1', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '|b1'"},
        {"{'descr': '|i1', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '|i1'"},
        {"{'descr': '<i2', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '<i2'"},
        {"{'descr': '<u8', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '<u8'"},
        {"{'descr': '<f16', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '<f16'"},
        {"{'descr': '<c8', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '<c8'"},
        {"{'descr': '<U16', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '<U16'"},
        {"{'descr': '|S5', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '|S5'"},
        {"{'descr': '<M8[ns]', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '<M8[ns]'"},
        {"{'descr': '|V1', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '|V1'"},
        {"{'descr': '>V2', " ROWS SHAPE "}", MLXN_UNSUPPORTED, "dtype '>V2'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const io_bytes bytes = io_npy(1 + (unsigned)i % 3, cases[i].dict, 24);
        mlxn_file *file = (mlxn_file *)&file;
        IO_FAILS(cases[i].status, cases[i].text, mlxn_file_open_memory(bytes.data, bytes.size, "x.npy", &file));
        assert_null(file);
        assert_true(strncmp(mlxn_io_last_error(), "x.npy: ", 7) == 0);
    }
}

/* A file cut short at every byte, in memory that ends there, so that a sanitizer sees a read too far. */
static void cut_short(void **state) {
    (void)state;
    for (unsigned version = 1; version <= 3; version++) {
        const io_bytes bytes = io_npy(version, "{" F4 ROWS SHAPE "}\n", 24);
        for (size_t size = 0; size < bytes.size; size++) {
            unsigned char *part = malloc(size + 1);
            assert_non_null(part);
            memcpy(part, bytes.data, size);
            mlxn_file *file;
            IO_FAILS(MLXN_BAD_FORMAT, "x.npy", mlxn_file_open_memory(part, size, "x.npy", &file));
            free(part);
        }
    }
    const io_bytes bytes = io_npy(1, "{" F4 ROWS SHAPE "}\n", 24);
    mlxn_file *file;
    IO_FAILS(MLXN_BAD_FORMAT, "is empty", mlxn_file_open_memory(NULL, 0, "x.npy", &file));
    IO_FAILS(MLXN_BAD_FORMAT, "the 12 bytes before the .npy header, found 3",
             mlxn_file_open_memory(bytes.data, 3, "x.npy", &file));
    IO_FAILS(MLXN_BAD_FORMAT, "the 10 bytes before the .npy header, found 9",
             mlxn_file_open_memory(bytes.data, 9, "x.npy", &file));
    IO_FAILS(MLXN_BAD_FORMAT, "expected 60 bytes of .npy header, found 10",
             mlxn_file_open_memory(bytes.data, 20, "x.npy", &file));
    IO_FAILS(MLXN_BAD_FORMAT, "expected 24 bytes of data for <f4 [2,3] after the header, found 23",
             mlxn_file_open_memory(bytes.data, bytes.size - 1, "x.npy", &file));
}

static void data_too_long(void **state) {
    (void)state;
    const io_bytes bytes = io_npy(1, "{" F4 ROWS SHAPE "}\n", 25);
    mlxn_file *file;
    IO_FAILS(MLXN_BAD_FORMAT, "expected 24 bytes of data for <f4 [2,3] after the header, found 25",
             mlxn_file_open_memory(bytes.data, bytes.size, "x.npy", &file));
}

static void wrong_magic_and_version(void **state) {
    (void)state;
    io_bytes bytes = io_npy(1, "{" F4 ROWS SHAPE "}\n", 24);
    mlxn_file *file;
    bytes.data[5] = 'y';
    IO_FAILS(MLXN_BAD_FORMAT, "not a .npy file", mlxn_file_open_memory(bytes.data, bytes.size, "x.npy", &file));
    IO_FAILS(MLXN_BAD_FORMAT, "neither a .npy nor a .safetensors",
             mlxn_file_open_memory(bytes.data, bytes.size, "x", &file));
    bytes.data[5] = 'Y';
    static const unsigned char versions[][2] = {{0, 0}, {4, 0}, {1, 1}, {255, 255}};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        bytes.data[6] = versions[i][0];
        bytes.data[7] = versions[i][1];
        IO_FAILS(MLXN_BAD_FORMAT, "expected 1.0, 2.0 or 3.0",
                 mlxn_file_open_memory(bytes.data, bytes.size, "x.npy", &file));
    }
    IO_FAILS(MLXN_BAD_FORMAT, ".npz archive", mlxn_file_open_memory("PK\x03\x04\x14\0\0\0\0\0", 10, "x.npz", &file));
}

/* A header that claims gigabytes, or is larger than any real one, is refused before memory is taken for it. */
static void hostile_header_size(void **state) {
    (void)state;
    unsigned char claim[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 0xff, 0xff, 0xff, 0xff};
    mlxn_file *file;
    IO_FAILS(MLXN_BAD_FORMAT, "expected 4294967295 bytes of .npy header, found 0",
             mlxn_file_open_memory(claim, sizeof claim, "x.npy", &file));
    const size_t size = (2 << 20) + 12;
    unsigned char *large = malloc(size);
    assert_non_null(large);
    memset(large, ' ', size);
    claim[8] = claim[9] = claim[11] = 0;
    claim[10] = 0x20;
    memcpy(large, claim, sizeof claim);
    IO_FAILS(MLXN_BAD_FORMAT, "a .npy header of 2097152 bytes; expected at most 1048576",
             mlxn_file_open_memory(large, size, "x.npy", &file));
    free(large);
}

/* Bytes of the file never reach a terminal as control characters. */
static void message_is_printable(void **state) {
    (void)state;
    const io_bytes bytes = io_npy(1, "{'\x1b[2J\n': 1}", 0);
    mlxn_file *file;
    IO_FAILS(MLXN_BAD_FORMAT, "unknown key '?[2J?'", mlxn_file_open_memory(bytes.data, bytes.size, "x.npy", &file));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numpy_files),
        cmocka_unit_test(dicts_accepted),
        cmocka_unit_test(descrs_accepted),
        cmocka_unit_test(dicts_refused),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(data_too_long),
        cmocka_unit_test(wrong_magic_and_version),
        cmocka_unit_test(hostile_header_size),
        cmocka_unit_test(message_is_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
