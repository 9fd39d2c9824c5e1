/* From buffers to files: the bytes that NumPy and safetensors expect, whole or not at all. */
#include "io/io_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

static mlxn_device *device;

/* A buffer with bytes 1, 2, 3, … */
static mlxn_buffer *make_buffer(mlxn_dtype dtype, size_t rank, const int64_t *shape) {
    mlxn_buffer *buffer;
    assert_int_equal(mlxn_buffer_create(device, dtype, rank, shape, &buffer), MLXN_OK);
    const size_t bytes = mlxn_buffer_bytes(buffer);
    unsigned char *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (unsigned char)(i + 1);
    }
    assert_int_equal(mlxn_buffer_write(buffer, 0, bytes, data), MLXN_OK);
    free(data);
    return buffer;
}

static mlxn_buffer *small_buffer(void) {
    return make_buffer(MLXN_F32, 2, (const int64_t[]){2, 3});
}

static void check_equal(const mlxn_buffer *a, const mlxn_buffer *b) {
    assert_int_equal(mlxn_buffer_dtype(a), mlxn_buffer_dtype(b));
    assert_int_equal(mlxn_buffer_rank(a), mlxn_buffer_rank(b));
    assert_memory_equal(mlxn_buffer_shape(a), mlxn_buffer_shape(b), mlxn_buffer_rank(a) * sizeof(int64_t));
    const size_t bytes = mlxn_buffer_bytes(a);
    unsigned char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(mlxn_buffer_read(a, 0, bytes, x), MLXN_OK);
    assert_int_equal(mlxn_buffer_read(b, 0, bytes, y), MLXN_OK);
    assert_memory_equal(x, y, bytes);
    free(x);
    free(y);
}

static void check_file(const char *path, const char *contents) {
    io_bytes bytes;
    io_read_file(path, &bytes);
    assert_int_equal(bytes.size, strlen(contents));
    assert_memory_equal(bytes.data, contents, bytes.size);
}

static void put_file(const char *path, const char *contents) {
    io_write_file(path, contents, strlen(contents));
}

/* ---- contents ---- */

/* Loading what NumPy wrote and saving it again gives NumPy's bytes. */
static void same_bytes_as_numpy(void **state) {
    (void)state;
    static const char *const names[] = {"f4", "f2",   "f8",    "u1",    "u2",    "u4",   "i4",
                                        "i8", "bf16", "rank0", "rank1", "rank8", "empty"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        snprintf(path, sizeof path, DATA_FOLDER "%s.npy", names[i]);
        mlxn_buffer *buffer;
        IO_OK(mlxn_load(device, path, NULL, &buffer));
        IO_OK(mlxn_save_npy(io_path("y.npy"), buffer));
        mlxn_buffer_destroy(buffer);
        io_bytes expected, got;
        io_read_file(path, &expected);
        io_read_file(io_path("y.npy"), &got);
        assert_int_equal(got.size, expected.size);
        assert_memory_equal(got.data, expected.data, expected.size);
    }
}

/* Every dtype and rank, through both formats. */
static void round_trips(void **state) {
    (void)state;
    static const int64_t shape[MLXN_MAX_RANK] = {2, 1, 3, 1, 2, 3, 1, 2};
    for (int dtype = MLXN_F32; dtype <= MLXN_I64; dtype++) {
        for (size_t rank = 0; rank <= MLXN_MAX_RANK; rank++) {
            mlxn_buffer *buffer = make_buffer((mlxn_dtype)dtype, rank, shape), *again;
            IO_OK(mlxn_save_npy(io_path("y.npy"), buffer));
            IO_OK(mlxn_load(device, io_path("y.npy"), NULL, &again));
            check_equal(buffer, again);
            mlxn_buffer_destroy(again);
            const mlxn_named_buffer tensor = {"t", buffer};
            const mlxn_save_file file = {.size = sizeof file,
                                         .path = io_path("y.safetensors"),
                                         .format = MLXN_SAFETENSORS,
                                         .tensors = &tensor,
                                         .tensor_count = 1};
            IO_OK(mlxn_save(&file));
            IO_OK(mlxn_load(device, file.path, NULL, &again));
            check_equal(buffer, again);
            mlxn_buffer_destroy(again);
            mlxn_buffer_destroy(buffer);
        }
    }
}

/* The longest headers: the most digits that 64 bits can count over eight extents, with and without a 0. */
static void long_shapes(void **state) {
    (void)state;
    static const int64_t shapes[][MLXN_MAX_RANK] = {
        {0, 100, 100, 1000, 1000, 1000, 1000, 100},
        {999, 99, 99, 99, 99, 99, 99, 0},
        {1, 1, 1, 1, 1, 1, 1, 3},
        {INT64_MAX, 0, 1, 1, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        mlxn_buffer *buffer = make_buffer(MLXN_U8, MLXN_MAX_RANK, shapes[i]), *again;
        IO_OK(mlxn_save_npy(io_path("y.npy"), buffer));
        IO_OK(mlxn_load(device, io_path("y.npy"), NULL, &again));
        check_equal(buffer, again);
        mlxn_buffer_destroy(again);
        mlxn_buffer_destroy(buffer);
        io_bytes bytes;
        io_read_file(io_path("y.npy"), &bytes);
        assert_int_equal(bytes.size, i == 2 ? 131 : 128);
    }
}

/* More than one piece, through a view at an offset. */
static void large_view(void **state) {
    (void)state;
    mlxn_buffer *whole = make_buffer(MLXN_U8, 1, (const int64_t[]){9000000}), *view, *again;
    assert_int_equal(mlxn_buffer_view(whole, 7, 1, (const int64_t[]){8388609 + 5}, &view), MLXN_OK);
    IO_OK(mlxn_save_npy(io_path("y.npy"), view));
    IO_OK(mlxn_load(device, io_path("y.npy"), NULL, &again));
    check_equal(view, again);
    mlxn_buffer_destroy(again);
    mlxn_buffer_destroy(view);
    mlxn_buffer_destroy(whole);
}

static void safetensors_layout(void **state) {
    (void)state;
    mlxn_buffer *bytes = make_buffer(MLXN_U8, 1, (const int64_t[]){3});
    mlxn_buffer *floats = make_buffer(MLXN_F32, 1, (const int64_t[]){2});
    mlxn_buffer *longs = make_buffer(MLXN_I64, 0, NULL);
    const mlxn_named_buffer tensors[] = {{"bytes", bytes}, {"a \"quoted\"\n\xc3\xbc", floats}, {"longs", longs}};
    const mlxn_metadata metadata[] = {{"format", "mlxn"}, {"empty", ""}};
    const mlxn_save_file file = {.size = sizeof file,
                                 .path = io_path("y.safetensors"),
                                 .format = MLXN_SAFETENSORS,
                                 .tensors = tensors,
                                 .tensor_count = 3,
                                 .metadata = metadata,
                                 .metadata_count = 2};
    IO_OK(mlxn_save(&file));
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"mlxn\",\"empty\":\"\"},"
        "\"longs\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"a \\\"quoted\\\"\\n\xc3\xbc\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
        "\"bytes\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}";
    io_bytes got;
    io_read_file(file.path, &got);
    const size_t length = sizeof header - 1, padded = (length + 7) / 8 * 8;
    uint64_t field;
    memcpy(&field, got.data, 8);
    assert_int_equal(field, padded);
    assert_int_equal(got.size, 8 + padded + 19);
    assert_memory_equal(got.data + 8, header, length);
    for (size_t i = length; i < padded; i++) {
        assert_int_equal(got.data[8 + i], ' ');
    }
    assert_memory_equal(got.data + 8 + padded, "\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10\1\2\3", 19);

    mlxn_file *opened;
    IO_OK(mlxn_file_open(file.path, NULL, &opened));
    assert_int_equal(mlxn_file_metadata_count(opened), 2);
    for (size_t i = 0; i < 3; i++) {
        size_t index;
        const void *data;
        IO_OK(mlxn_file_find(opened, tensors[i].name, &index));
        IO_OK(mlxn_file_data(opened, index, &data));
    }
    mlxn_file_close(opened);
    mlxn_buffer_destroy(bytes);
    mlxn_buffer_destroy(floats);
    mlxn_buffer_destroy(longs);
}

static void no_tensors(void **state) {
    (void)state;
    const mlxn_save_file file = {.size = sizeof file, .path = io_path("none.safetensors"), .format = MLXN_SAFETENSORS};
    IO_OK(mlxn_save(&file));
    mlxn_file *opened;
    IO_OK(mlxn_file_open(file.path, NULL, &opened));
    assert_int_equal(mlxn_file_count(opened), 0);
    mlxn_file_close(opened);
}

static void names_refused(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    static const struct {
        const char *names[2];
        const char *text;
    } cases[] = {
        {{"a", "a"}, "tensor 'a' comes twice"},
        {{"a", NULL}, "name is NULL"},
        {{"a", "__metadata__"}, "cannot be called __metadata__"},
        {{"a", "\xff"}, "not UTF-8"},
        {{"a", "\xc3"}, "not UTF-8"},
        {{"a", "\xc0\xaf"}, "not UTF-8"},
        {{"a", "\xed\xa0\x80"}, "not UTF-8"},
        {{"a", "\xf4\x90\x80\x80"}, "not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mlxn_named_buffer tensors[] = {{cases[i].names[0], buffer}, {cases[i].names[1], buffer}};
        const mlxn_save_file file = {.size = sizeof file,
                                     .path = io_path("y.safetensors"),
                                     .format = MLXN_SAFETENSORS,
                                     .tensors = tensors,
                                     .tensor_count = 2};
        IO_FAILS(MLXN_INVALID_ARGUMENT, cases[i].text, mlxn_save(&file));
        assert_int_equal(io_folder_entries(), 0);
    }
    static const struct {
        mlxn_metadata entries[2];
        const char *text;
    } metadata[] = {
        {{{"a", "b"}, {"a", "c"}}, "metadata key 'a' comes twice"},
        {{{"a", "b"}, {NULL, "c"}}, "metadata key is NULL"},
        {{{"a", "b"}, {"c", NULL}}, "metadata value is NULL"},
        {{{"a", "b"}, {"\x80", "c"}}, "metadata key is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof metadata / sizeof *metadata; i++) {
        const mlxn_save_file file = {.size = sizeof file,
                                     .path = io_path("y.safetensors"),
                                     .format = MLXN_SAFETENSORS,
                                     .metadata = metadata[i].entries,
                                     .metadata_count = 2};
        IO_FAILS(MLXN_INVALID_ARGUMENT, metadata[i].text, mlxn_save(&file));
        assert_int_equal(io_folder_entries(), 0);
    }
    mlxn_buffer_destroy(buffer);
}

/* ---- whole or not at all ---- */

static void target_is_replaced(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    put_file(io_path("y.npy"), "old");
    IO_OK(mlxn_save_npy(io_path("y.npy"), buffer));
    io_bytes bytes;
    io_read_file(io_path("y.npy"), &bytes);
    assert_int_equal(bytes.size, 128 + 24);
    assert_int_equal(io_folder_entries(), 1);
    mlxn_buffer_destroy(buffer);
}

/* The file that a buffer maps is overwritten by its own result. */
static void input_is_output(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer(), *mapped, *again;
    IO_OK(mlxn_save_npy(io_path("y.npy"), buffer));
    IO_OK(mlxn_load(device, io_path("y.npy"), NULL, &mapped));
    IO_OK(mlxn_save_npy(io_path("y.npy"), mapped));
    check_equal(buffer, mapped);
    IO_OK(mlxn_load(device, io_path("y.npy"), NULL, &again));
    check_equal(buffer, again);
    mlxn_buffer_destroy(again);
    mlxn_buffer_destroy(mapped);
    mlxn_buffer_destroy(buffer);
}

/* No file may exceed 4096 bytes: the write fails half way, without a signal that kills. */
static void disk_full(void **state) {
    (void)state;
    mlxn_buffer *buffer = make_buffer(MLXN_U8, 1, (const int64_t[]){10000});
    put_file(io_path("y.npy"), "old");
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const mlxn_status old = mlxn_save_npy(io_path("y.npy"), buffer);
    char message[256];
    snprintf(message, sizeof message, "%s", mlxn_io_last_error());
    const mlxn_status new = mlxn_save_npy(io_path("z.npy"), buffer);
    sigset_t pending;
    sigpending(&pending);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(old, MLXN_FILE_FAILED);
    assert_int_equal(new, MLXN_FILE_FAILED);
    assert_non_null(strstr(message, "y.npy: cannot write: File too large"));
    assert_int_equal(sigismember(&pending, SIGXFSZ), 0);
    check_file(io_path("y.npy"), "old");
    assert_int_equal(io_folder_entries(), 1);
    IO_FAILS(MLXN_FILE_FAILED, "/dev/full: cannot write: No space left on device", mlxn_save_npy("/dev/full", buffer));
    mlxn_buffer_destroy(buffer);
}

static void folder_is_missing(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    IO_FAILS(MLXN_FILE_FAILED, "gone/y.npy: cannot write: No such file or directory",
             mlxn_save_npy(io_path("gone/y.npy"), buffer));
    put_file(io_path("file"), "old");
    IO_FAILS(MLXN_FILE_FAILED, "file/y.npy: cannot write: Not a directory",
             mlxn_save_npy(io_path("file/y.npy"), buffer));
    IO_FAILS(MLXN_FILE_FAILED, "cannot write: Is a directory", mlxn_save_npy(io_folder(), buffer));
    IO_FAILS(MLXN_INVALID_ARGUMENT, "is empty", mlxn_save_npy("", buffer));
    check_file(io_path("file"), "old");
    mlxn_buffer_destroy(buffer);
}

static void long_names(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    char name[300];
    memset(name, 'n', sizeof name);
    name[200] = '\0';
    IO_OK(mlxn_save_npy(io_path(name), buffer));
    char path[1024];
    name[200] = 'n';
    name[299] = '\0';
    snprintf(path, sizeof path, "%s/%s", io_folder(), name);
    IO_FAILS(MLXN_FILE_FAILED, "File name too long", mlxn_save_npy(path, buffer));
    assert_int_equal(io_folder_entries(), 1);
    mlxn_buffer_destroy(buffer);
}

static mode_t mode_of(const char *path) {
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    return facts.st_mode & 07777;
}

static void permissions(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    const mode_t before = umask(027);
    IO_OK(mlxn_save_npy(io_path("new.npy"), buffer));
    put_file(io_path("old.npy"), "old");
    assert_int_equal(chmod(io_path("old.npy"), 0604), 0);
    IO_OK(mlxn_save_npy(io_path("old.npy"), buffer));
    umask(before);
    assert_int_equal(mode_of(io_path("new.npy")), 0640);
    assert_int_equal(mode_of(io_path("old.npy")), 0604);
    /* A file that may not be written is not replaced either; root has to become somebody else to see that. */
    assert_int_equal(chmod(io_path("old.npy"), 0444), 0);
    assert_int_equal(chmod(io_folder(), 0777), 0);
    const uid_t user = geteuid();
    assert_true(user != 0 || seteuid(65534) == 0);
    const mlxn_status status = mlxn_save_npy(io_path("old.npy"), buffer);
    assert_int_equal(seteuid(user), 0);
    IO_FAILS(MLXN_FILE_FAILED, "old.npy: cannot write: Permission denied", status);
    assert_int_equal(mode_of(io_path("old.npy")), 0444);
    assert_int_equal(io_folder_entries(), 2);
    mlxn_buffer_destroy(buffer);
}

static void symbolic_links(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    put_file(io_path("real.npy"), "old");
    assert_int_equal(symlink("real.npy", io_path("link.npy")), 0);
    assert_int_equal(symlink("link.npy", io_path("link2.npy")), 0);
    IO_OK(mlxn_save_npy(io_path("link2.npy"), buffer));
    struct stat facts;
    assert_int_equal(lstat(io_path("link.npy"), &facts), 0);
    assert_true(S_ISLNK(facts.st_mode));
    io_bytes bytes;
    io_read_file(io_path("real.npy"), &bytes);
    assert_int_equal(bytes.size, 128 + 24);
    /* To a file that does not exist yet, by a whole path. */
    assert_int_equal(symlink(io_path("later.npy"), io_path("link3.npy")), 0);
    IO_OK(mlxn_save_npy(io_path("link3.npy"), buffer));
    io_read_file(io_path("later.npy"), &bytes);
    assert_int_equal(bytes.size, 128 + 24);
    assert_int_equal(symlink("loop.npy", io_path("loop.npy")), 0);
    IO_FAILS(MLXN_FILE_FAILED, "Too many levels of symbolic links", mlxn_save_npy(io_path("loop.npy"), buffer));
    mlxn_buffer_destroy(buffer);
}

static void relative_path(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(io_folder()), 0);
    const mlxn_status status = mlxn_save_npy("here.npy", buffer);
    assert_int_equal(chdir(before), 0);
    IO_OK(status);
    assert_int_equal(access(io_path("here.npy"), F_OK), 0);
    mlxn_buffer_destroy(buffer);
}

/* ---- streams ---- */

static void null_device(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    IO_OK(mlxn_save_npy("/dev/null", buffer));
    struct stat facts;
    assert_int_equal(stat("/dev/null", &facts), 0);
    assert_true(S_ISCHR(facts.st_mode));
    mlxn_buffer_destroy(buffer);
}

/* /dev/fd/N writes at the descriptor's position, also where that is a regular file. */
static void descriptor(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    const int fd = open(io_path("log"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "before", 6), 6);
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    IO_OK(mlxn_save_npy(path, buffer));
    assert_int_equal(write(fd, "after", 5), 5);
    close(fd);
    io_bytes bytes;
    io_read_file(io_path("log"), &bytes);
    assert_int_equal(bytes.size, 6 + 152 + 5);
    assert_memory_equal(bytes.data, "before\x93NUMPY", 12);
    assert_int_equal(io_folder_entries(), 1);
    IO_FAILS(MLXN_FILE_FAILED, "/dev/fd/999: cannot open: Bad file descriptor", mlxn_save_npy("/dev/fd/999", buffer));
    mlxn_buffer_destroy(buffer);
}

/* The reader is gone: an error, and no SIGPIPE, now or later. */
static void closed_pipe(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
    IO_FAILS(MLXN_FILE_FAILED, "cannot write: Broken pipe", mlxn_save_npy(path, buffer));
    close(ends[1]);
    sigset_t now;
    sigpending(&now);
    assert_int_equal(sigismember(&now, SIGPIPE), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    assert_int_equal(sigismember(&now, SIGPIPE), 0);
    mlxn_buffer_destroy(buffer);
}

static void *drain(void *argument) {
    const int fd = *(const int *)argument;
    static size_t total;
    unsigned char bytes[65536];
    ssize_t got;
    usleep(20000);
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        total += (size_t)got;
    }
    return &total;
}

/* A pipe that does not block and is full for a while. */
static void slow_pipe(void **state) {
    (void)state;
    mlxn_buffer *buffer = make_buffer(MLXN_U8, 1, (const int64_t[]){1000000});
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drain, &ends[0]), 0);
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    IO_OK(mlxn_save_npy(path, buffer));
    close(ends[1]);
    void *total;
    assert_int_equal(pthread_join(thread, &total), 0);
    assert_int_equal(*(const size_t *)total, 128 + 1000000);
    close(ends[0]);
    mlxn_buffer_destroy(buffer);
}

/* ---- several files ---- */

static mlxn_save_file npy_file(const char *path, const mlxn_named_buffer *tensor) {
    return (mlxn_save_file){
        .size = sizeof(mlxn_save_file), .path = path, .format = MLXN_NPY, .tensors = tensor, .tensor_count = 1};
}

static void all_are_written(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    const mlxn_named_buffer tensor = {"t", buffer};
    mlxn_save_file files[] = {npy_file(io_path("a.npy"), &tensor), npy_file(io_path("b.safetensors"), &tensor),
                              npy_file(io_path("c.npy"), &tensor), npy_file("/dev/null", &tensor)};
    files[1].format = MLXN_SAFETENSORS;
    put_file(io_path("c.npy"), "old");
    IO_OK(mlxn_save_all(files, 4));
    assert_int_equal(io_folder_entries(), 3);
    for (size_t i = 0; i < 3; i++) {
        mlxn_buffer *again;
        IO_OK(mlxn_load(device, files[i].path, NULL, &again));
        check_equal(buffer, again);
        mlxn_buffer_destroy(again);
    }
    IO_OK(mlxn_save_all(files, 0));
    mlxn_buffer_destroy(buffer);
}

/* The last of three cannot be written: none is. */
static void none_is_written(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    const mlxn_named_buffer tensor = {"t", buffer};
    put_file(io_path("b.npy"), "old");
    static const char *const last[] = {"/dev/full", "/nowhere/c.npy", "/proc/c.npy"};
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        const mlxn_save_file files[] = {npy_file(io_path("a.npy"), &tensor), npy_file(io_path("b.npy"), &tensor),
                                        npy_file(last[i], &tensor)};
        IO_FAILS(MLXN_FILE_FAILED, last[i], mlxn_save_all(files, 3));
        assert_int_equal(io_folder_entries(), 1);
        check_file(io_path("b.npy"), "old");
    }
    mlxn_buffer_destroy(buffer);
}

/* A stream is not written before all files are ready, wherever it stands in the list. */
static void streams_come_last(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    const mlxn_named_buffer tensor = {"t", buffer};
    const int fd = open(io_path("log"), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    char stream[32];
    snprintf(stream, sizeof stream, "/dev/fd/%d", fd);
    const mlxn_save_file files[] = {npy_file(stream, &tensor), npy_file("/proc/c.npy", &tensor)};
    IO_FAILS(MLXN_FILE_FAILED, "/proc/c.npy: cannot create a file beside it", mlxn_save_all(files, 2));
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    close(fd);
    mlxn_buffer_destroy(buffer);
}

typedef struct obstruction {
    int fd;
    char path[512];
} obstruction;

/* Reads the first byte, puts a folder in the place of a target, and reads the rest. */
static void *obstruct(void *argument) {
    const int fd = ((const obstruction *)argument)->fd;
    unsigned char bytes[65536];
    ssize_t got = read(fd, bytes, 1);
    const int made = mkdir(((const obstruction *)argument)->path, 0700);
    while (got > 0) {
        got = read(fd, bytes, sizeof bytes);
    }
    return made == 0 ? NULL : argument;
}

/* A rename fails after others were done: they are undone. The pipe, which is written before the renames and holds less
 * than the buffer, gives the other thread its moment. */
static void renames_are_undone(void **state) {
    (void)state;
    mlxn_buffer *buffer = make_buffer(MLXN_U8, 1, (const int64_t[]){1000000});
    const mlxn_named_buffer tensor = {"t", buffer};
    put_file(io_path("b.npy"), "old");
    struct stat before, after;
    assert_int_equal(stat(io_path("b.npy"), &before), 0);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pthread_t thread;
    obstruction there = {.fd = ends[0]};
    strcpy(there.path, io_path("c.npy"));
    assert_int_equal(pthread_create(&thread, NULL, obstruct, &there), 0);
    char stream[32];
    snprintf(stream, sizeof stream, "/dev/fd/%d", ends[1]);
    const mlxn_save_file files[] = {npy_file(stream, &tensor), npy_file(io_path("a.npy"), &tensor),
                                    npy_file(io_path("b.npy"), &tensor), npy_file(io_path("c.npy"), &tensor)};
    IO_FAILS(MLXN_FILE_FAILED, "c.npy: cannot rename the new file to it: Is a directory", mlxn_save_all(files, 4));
    close(ends[1]);
    void *failed;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    close(ends[0]);
    assert_int_equal(io_folder_entries(), 2); /* b.npy and the folder c.npy */
    check_file(io_path("b.npy"), "old");
    assert_int_equal(stat(io_path("b.npy"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    mlxn_buffer_destroy(buffer);
}

static void one_file_twice(void **state) {
    (void)state;
    mlxn_buffer *buffer = small_buffer();
    const mlxn_named_buffer tensor = {"t", buffer};
    char dotted[256];
    snprintf(dotted, sizeof dotted, "%s/./a.npy", io_folder());
    const mlxn_save_file files[] = {npy_file(io_path("a.npy"), &tensor), npy_file(dotted, &tensor)};
    IO_FAILS(MLXN_INVALID_ARGUMENT, "one file cannot be written twice", mlxn_save_all(files, 2));
    assert_int_equal(io_folder_entries(), 0);
    put_file(io_path("a.npy"), "old");
    IO_FAILS(MLXN_INVALID_ARGUMENT, "one file cannot be written twice", mlxn_save_all(files, 2));
    check_file(io_path("a.npy"), "old");
    const mlxn_save_file streams[] = {npy_file("/dev/null", &tensor), npy_file("/dev/null", &tensor)};
    IO_OK(mlxn_save_all(streams, 2));
    mlxn_buffer_destroy(buffer);
}

static void *save_often(void *path) {
    mlxn_buffer *buffer = small_buffer();
    for (int i = 0; i < 20; i++) {
        if (mlxn_save_npy(path, buffer) != MLXN_OK) {
            return path;
        }
    }
    mlxn_buffer_destroy(buffer);
    return NULL;
}

/* Threads that write one file leave one whole file. */
static void several_threads(void **state) {
    (void)state;
    char path[256];
    strcpy(path, io_path("shared.npy"));
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, save_often, path), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(io_folder_entries(), 1);
    mlxn_buffer *buffer = small_buffer(), *again;
    IO_OK(mlxn_load(device, path, NULL, &again));
    check_equal(buffer, again);
    mlxn_buffer_destroy(again);
    mlxn_buffer_destroy(buffer);
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
        cmocka_unit_test_teardown(same_bytes_as_numpy, io_clean_folder),
        cmocka_unit_test_teardown(round_trips, io_clean_folder),
        cmocka_unit_test_teardown(long_shapes, io_clean_folder),
        cmocka_unit_test_teardown(large_view, io_clean_folder),
        cmocka_unit_test_teardown(safetensors_layout, io_clean_folder),
        cmocka_unit_test_teardown(no_tensors, io_clean_folder),
        cmocka_unit_test_teardown(names_refused, io_clean_folder),
        cmocka_unit_test_teardown(target_is_replaced, io_clean_folder),
        cmocka_unit_test_teardown(input_is_output, io_clean_folder),
        cmocka_unit_test_teardown(disk_full, io_clean_folder),
        cmocka_unit_test_teardown(folder_is_missing, io_clean_folder),
        cmocka_unit_test_teardown(long_names, io_clean_folder),
        cmocka_unit_test_teardown(permissions, io_clean_folder),
        cmocka_unit_test_teardown(symbolic_links, io_clean_folder),
        cmocka_unit_test_teardown(relative_path, io_clean_folder),
        cmocka_unit_test_teardown(null_device, io_clean_folder),
        cmocka_unit_test_teardown(descriptor, io_clean_folder),
        cmocka_unit_test_teardown(closed_pipe, io_clean_folder),
        cmocka_unit_test_teardown(slow_pipe, io_clean_folder),
        cmocka_unit_test_teardown(all_are_written, io_clean_folder),
        cmocka_unit_test_teardown(none_is_written, io_clean_folder),
        cmocka_unit_test_teardown(streams_come_last, io_clean_folder),
        cmocka_unit_test_teardown(renames_are_undone, io_clean_folder),
        cmocka_unit_test_teardown(one_file_twice, io_clean_folder),
        cmocka_unit_test_teardown(several_threads, io_clean_folder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
