/* Every system call that replaces files fails once: then all files are new, or all are as they were, and nothing else
 * lies about. */
#include "io/io_test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>

/* The call that is to fail, counted from 1 over all kinds; 0 for none. */
static size_t failing_call;
static size_t calls;
static bool no_links;

static bool fails_now(void) {
    if (++calls != failing_call) {
        return false;
    }
    errno = EIO;
    return true;
}

static int test_open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    return fails_now() ? -1 : open(path, flags, mode);
}

static ssize_t test_write(int fd, const void *data, size_t size) {
    return fails_now() ? -1 : write(fd, data, size);
}

static int test_fsync(int fd) {
    return fails_now() ? -1 : fsync(fd);
}

static int test_fchmod(int fd, mode_t mode) {
    return fails_now() ? -1 : fchmod(fd, mode);
}

static int test_close(int fd) {
    const int closed = close(fd);
    return fails_now() ? -1 : closed;
}

static int test_link(const char *from, const char *to) {
    if (no_links) {
        errno = EPERM;
        return -1;
    }
    return fails_now() ? -1 : link(from, to);
}

static int test_rename(const char *from, const char *to) {
    return fails_now() ? -1 : rename(from, to);
}

#define open test_open
#define write test_write
#define fsync test_fsync
#define fchmod test_fchmod
#define close test_close
#define link test_link
#define rename test_rename
#include "io/target.c"
#undef open
#undef write
#undef fsync
#undef fchmod
#undef close
#undef link
#undef rename

enum { FILES = 4 };

/* Of these b and d exist before. */
static const char *const names[FILES] = {"a.npy", "b.npy", "c.npy", "d.npy"};

static bool exists_before(size_t index) {
    return index % 2 == 1;
}

static void put_old_files(void) {
    io_clean_folder(NULL);
    for (size_t i = 0; i < FILES; i++) {
        if (exists_before(i)) {
            io_write_file(io_path(names[i]), names[i], strlen(names[i]));
        }
    }
}

static void check_old_files(void) {
    assert_int_equal(io_folder_entries(), FILES / 2);
    for (size_t i = 0; i < FILES; i++) {
        if (exists_before(i)) {
            io_bytes bytes;
            io_read_file(io_path(names[i]), &bytes);
            assert_int_equal(bytes.size, strlen(names[i]));
            assert_memory_equal(bytes.data, names[i], bytes.size);
        }
    }
}

static void check_new_files(void) {
    assert_int_equal(io_folder_entries(), FILES);
    for (size_t i = 0; i < FILES; i++) {
        mlxn_file *file;
        IO_OK(mlxn_file_open(io_path(names[i]), NULL, &file));
        float value;
        IO_OK(mlxn_file_read(file, 0, &value, sizeof value));
        assert_true(value == 7.0f);
        mlxn_file_close(file);
    }
}

/* Fails call after call, until a run has none left to fail. */
static void fail_each_call(void) {
    mlxn_device *device = io_device();
    mlxn_buffer *buffer;
    const float seven = 7;
    assert_int_equal(mlxn_buffer_create(device, MLXN_F32, 0, NULL, &buffer), MLXN_OK);
    assert_int_equal(mlxn_buffer_write(buffer, 0, sizeof seven, &seven), MLXN_OK);
    const mlxn_named_buffer tensor = {NULL, buffer};
    char paths[FILES][512];
    mlxn_save_file files[FILES];
    for (size_t i = 0; i < FILES; i++) {
        strcpy(paths[i], io_path(names[i]));
        files[i] = (mlxn_save_file){
            .size = sizeof files[i], .path = paths[i], .format = MLXN_NPY, .tensors = &tensor, .tensor_count = 1};
    }
    size_t failures = 0;
    failing_call = 0;
    do {
        put_old_files();
        calls = 0;
        failing_call++;
        const mlxn_status status = mlxn_save_all(files, FILES);
        if (status == MLXN_OK) {
            check_new_files();
        } else {
            failures++;
            IO_FAILS(MLXN_FILE_FAILED, "Input/output error", status);
            assert_non_null(strstr(mlxn_io_last_error(), io_folder()));
            check_old_files();
        }
    } while (calls >= failing_call);
    /* Of each file: open, two writes, fsync, close, rename; of those that exist also fchmod and, without links, another
     * rename. */
    assert_int_equal(failures, FILES * 6 + FILES / 2 * (no_links ? 2 : 1));
    failing_call = 0;
    mlxn_buffer_destroy(buffer);
    mlxn_device_destroy(device);
}

static void with_links(void **state) {
    (void)state;
    no_links = false;
    fail_each_call();
}

static void without_links(void **state) {
    (void)state;
    no_links = true;
    fail_each_call();
}

/* A name that is taken is not overwritten: the next is tried. */
static void temporary_name_is_taken(void **state) {
    (void)state;
    mlxn_io_target target;
    IO_OK(mlxn_io_target_prepare(&target, io_path("y.npy")));
    IO_OK(mlxn_io_target_begin(&target));
    unsigned long pid, number;
    const char *name = target.temporary + strlen(io_folder());
    assert_int_equal(sscanf(name, "/.mlxn-%lu-%lu.tmp", &pid, &number), 2);
    mlxn_io_target_discard(&target);
    assert_int_equal(io_folder_entries(), 0);
    char taken[64];
    snprintf(taken, sizeof taken, ".mlxn-%lu-%lu.tmp", pid, number + 1);
    io_write_file(io_path(taken), "taken", 5);
    IO_OK(mlxn_io_target_prepare(&target, io_path("y.npy")));
    IO_OK(mlxn_io_target_begin(&target));
    assert_string_not_equal(target.temporary, io_path(taken));
    mlxn_io_target_discard(&target);
    io_bytes bytes;
    io_read_file(io_path(taken), &bytes);
    assert_int_equal(bytes.size, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(with_links, io_clean_folder),
        cmocka_unit_test_teardown(without_links, io_clean_folder),
        cmocka_unit_test_teardown(temporary_name_is_taken, io_clean_folder),
    };
    return cmocka_run_group_tests(tests, NULL, io_remove_folder);
}
