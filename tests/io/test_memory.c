/* Every allocation of mlxn-io, and of jansson on its behalf, fails once: an error comes back, nothing leaks, and no file
 * is left behind. Allocations are seen by taking malloc's place, which sanitizers want for themselves. */
#include "io/io_test.h"

#include <errno.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

/* The allocation that is to fail, counted from 1; 0 for none. All volatile, because compilers believe that malloc and
 * free change no variable of ours. */
static volatile size_t failing_allocation;
static volatile size_t allocations;
static volatile long live;

#if defined(__GLIBC__) && !defined(SANITIZED)

enum { CAN_INJECT = 1 };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static bool fails_now(void) {
    if (++allocations != failing_allocation) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

/* Visible to the C library too, which allocates what callers free. */
#pragma GCC visibility push(default)

void *malloc(size_t size) {
    void *memory = fails_now() ? NULL : __libc_malloc(size);
    live += memory != NULL;
    return memory;
}

void *calloc(size_t count, size_t size) {
    void *memory = fails_now() ? NULL : __libc_calloc(count, size);
    live += memory != NULL;
    return memory;
}

void *aligned_alloc(size_t alignment, size_t size) {
    void *memory = fails_now() ? NULL : __libc_memalign(alignment, size);
    live += memory != NULL;
    return memory;
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = aligned_alloc(alignment, size);
    return *memory == NULL ? ENOMEM : 0;
}

void *realloc(void *memory, size_t size) {
    if (fails_now()) {
        return NULL;
    }
    void *moved = __libc_realloc(memory, size);
    live += memory == NULL && moved != NULL;
    return moved;
}

void free(void *memory) {
    live -= memory != NULL;
    __libc_free(memory);
}

#pragma GCC visibility pop

#else

enum { CAN_INJECT = 0 };

#endif

static mlxn_device *device;
static char pipe_path[64];

static mlxn_status open_npy(void) {
    mlxn_file *file;
    const mlxn_status status = mlxn_file_open(DATA_FOLDER "f4.npy", NULL, &file);
    mlxn_file_close(file);
    return status;
}

static mlxn_status open_safetensors(void) {
    mlxn_file *file;
    const mlxn_status status = mlxn_file_open(DATA_FOLDER "mixed.safetensors", NULL, &file);
    mlxn_file_close(file);
    return status;
}

static mlxn_status open_memory(void) {
    const io_bytes bytes = io_safetensors("{}", 0);
    mlxn_file *file;
    const mlxn_status status = mlxn_file_open_memory(bytes.data, bytes.size, NULL, &file);
    mlxn_file_close(file);
    return status;
}

static mlxn_status open_pipe(void) {
    const io_bytes bytes = io_npy(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (150,), }", 150);
    int ends[2];
    if (pipe(ends) != 0) {
        return MLXN_FILE_FAILED;
    }
    const bool written = write(ends[1], bytes.data, bytes.size) == (ssize_t)bytes.size;
    close(ends[1]);
    snprintf(pipe_path, sizeof pipe_path, "/dev/fd/%d", ends[0]);
    mlxn_file *file = NULL;
    const mlxn_status status = written ? mlxn_file_open(pipe_path, NULL, &file) : MLXN_FILE_FAILED;
    mlxn_file_close(file);
    close(ends[0]);
    return status;
}

static mlxn_status load(const char *reference) {
    mlxn_buffer *buffer;
    const mlxn_status status = mlxn_load(device, reference, NULL, &buffer);
    mlxn_buffer_destroy(buffer);
    return status;
}

static mlxn_status load_mapped(void) {
    return load(DATA_FOLDER "f4.npy");
}

static mlxn_status load_transposed(void) {
    return load(DATA_FOLDER "fortran3_big.npy");
}

static mlxn_status load_tensor(void) {
    return load(DATA_FOLDER "mixed.safetensors:half");
}

static mlxn_buffer *buffer_to_save;

static mlxn_status save_npy(void) {
    return mlxn_save_npy(io_path("y.npy"), buffer_to_save);
}

static mlxn_status save_both(void) {
    const mlxn_named_buffer tensors[] = {{"a", buffer_to_save}, {"b", buffer_to_save}};
    const mlxn_metadata metadata[] = {{"k", "v"}};
    const mlxn_save_file files[] = {
        {.size = sizeof files[0], .path = io_path("y.npy"), .format = MLXN_NPY, .tensors = tensors, .tensor_count = 1},
        {.size = sizeof files[0],
         .path = io_path("y.safetensors"),
         .format = MLXN_SAFETENSORS,
         .tensors = tensors,
         .tensor_count = 2,
         .metadata = metadata,
         .metadata_count = 1}};
    return mlxn_save_all(files, 2);
}

/* Runs the work with allocation 1, 2, 3, … failing, until a run has none left to fail. Some failures do no harm, such as
 * that of a sort's scratch memory; `least` must do. */
static void fail_each_allocation(mlxn_status (*work)(void), size_t least) {
    if (!CAN_INJECT) {
        skip();
    }
    io_write_file(io_path("y.npy"), "old", 3);
    IO_OK(work()); /* what is allocated once and kept is kept now */
    size_t failures = 0, number = 0, done;
    do {
        io_clean_folder(NULL);
        io_write_file(io_path("y.npy"), "old", 3);
        const long before = live;
        allocations = 0;
        failing_allocation = ++number;
        const mlxn_status status = work();
        failing_allocation = 0;
        done = allocations;
        assert_int_equal(live, before);
        if (status != MLXN_OK) {
            failures++;
            IO_FAILS(MLXN_OUT_OF_MEMORY, "memory", status);
            io_bytes bytes;
            io_read_file(io_path("y.npy"), &bytes);
            assert_int_equal(bytes.size, 3);
            assert_int_equal(io_folder_entries(), 1);
        }
    } while (done >= number);
    assert_in_range(failures, least, number);
}

static void opening_npy(void **state) {
    (void)state;
    fail_each_allocation(open_npy, 5);
}

static void opening_safetensors(void **state) {
    (void)state;
    fail_each_allocation(open_safetensors, 50);
}

static void opening_memory(void **state) {
    (void)state;
    fail_each_allocation(open_memory, 6);
}

static void opening_a_pipe(void **state) {
    (void)state;
    fail_each_allocation(open_pipe, 6);
}

static void loading_mapped(void **state) {
    (void)state;
    fail_each_allocation(load_mapped, 6);
}

static void loading_transposed(void **state) {
    (void)state;
    fail_each_allocation(load_transposed, 8);
}

static void loading_a_tensor(void **state) {
    (void)state;
    fail_each_allocation(load_tensor, 50);
}

static void saving_npy(void **state) {
    (void)state;
    fail_each_allocation(save_npy, 4);
}

static void saving_both(void **state) {
    (void)state;
    fail_each_allocation(save_both, 30);
}

static int setup(void **state) {
    (void)state;
    device = io_device();
    return mlxn_buffer_create(device, MLXN_F32, 1, (const int64_t[]){3}, &buffer_to_save) != MLXN_OK;
}

static int teardown(void **state) {
    mlxn_buffer_destroy(buffer_to_save);
    mlxn_device_destroy(device);
    return io_remove_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(opening_npy, io_clean_folder),
        cmocka_unit_test_teardown(opening_safetensors, io_clean_folder),
        cmocka_unit_test_teardown(opening_memory, io_clean_folder),
        cmocka_unit_test_teardown(opening_a_pipe, io_clean_folder),
        cmocka_unit_test_teardown(loading_mapped, io_clean_folder),
        cmocka_unit_test_teardown(loading_transposed, io_clean_folder),
        cmocka_unit_test_teardown(loading_a_tensor, io_clean_folder),
        cmocka_unit_test_teardown(saving_npy, io_clean_folder),
        cmocka_unit_test_teardown(saving_both, io_clean_folder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
