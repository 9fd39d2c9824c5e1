/* Compiled kernels on disk: a second opening compiles nothing, and whatever is wrong with an entry, the kernel works. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cache.h"
#include "opencl_test.h"

static char folder[] = "/tmp/mlxn-opencl-XXXXXX";

/* How often the driver was given a text, and a binary. */
static int compiled, loaded;

typedef void *word;

static void *with_source(word context, unsigned count, word texts, word lengths, word error) {
    void *(*real)(word, unsigned, word, word, word);
    *(void **)&real = real_function("clCreateProgramWithSource");
    compiled++;
    return real(context, count, texts, lengths, error);
}

static void *with_binary(word context, unsigned count, word devices, word lengths, word binaries, word taken,
                         word error) {
    void *(*real)(word, unsigned, word, word, word, word, word);
    *(void **)&real = real_function("clCreateProgramWithBinary");
    loaded++;
    return real(context, count, devices, lengths, binaries, taken, error);
}

/* PoCL is left to its own cache: here it goes by another name, but in the list of devices and where a test wants it to be
 * itself. */
static bool by_its_name;
static const char pocl[] = "Portable Computing Language";

static int platform_info(word platform, unsigned what, size_t bytes, word value, word needed) {
    int (*real)(word, unsigned, size_t, word, word);
    *(void **)&real = real_function("clGetPlatformInfo");
    const int error = real(platform, what, bytes, value, needed);
    enum { PLATFORM_NAME = 0x0902 };
    if (what == PLATFORM_NAME && value != NULL && !by_its_name && strcmp(value, pocl) == 0)
        strcpy(value, "Another platform");
    return error;
}

/* Opens the device, runs a kernel that adds `addend`, and closes it. */
static void use(const char *cache, int addend) {
    const mlxn_device_options options = {.size = sizeof options, .cache_folder = cache};
    mlxn_device *device = opencl_device(&options);
    char source[128];
    snprintf(source, sizeof source, "kernel void k(global int *y, ulong at) { y[0] += %d; }\n", addend);
    opencl_kernel(device, source);
    mlxn_buffer *y = test_vector(device, MLXN_I32, 1);
    compiled = loaded = 0;
    for (int i = 0; i < 2; i++)
        opencl_run(device, &(opencl_dispatch){.bindings = (const mlxn_binding[]){{y, MLXN_READ_WRITE}, {0}}});
    int32_t found = 0;
    OK(mlxn_buffer_read(y, 0, 4, &found));
    assert_int_equal(found, 2 * addend);
    mlxn_buffer_destroy(y);
    mlxn_device_destroy(device);
}

/* The only file there is, or the number of files if there are others. */
static int only_file(char path[512]) {
    int count = 0;
    DIR *open_folder = opendir(folder);
    assert_non_null(open_folder);
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;)
        if (entry->d_name[0] != '.') {
            count++;
            snprintf(path, 512, "%s/%s", folder, entry->d_name);
        }
    closedir(open_folder);
    return count;
}

static int empty_folder(void **state) {
    (void)state;
    char path[512];
    while (only_file(path) > 0)
        unlink(path);
    return 0;
}

static void a_second_opening_compiles_nothing(void **state) {
    (void)state;
    use(folder, 3);
    assert_int_equal(compiled, 1);
    assert_int_equal(loaded, 0);
    use(folder, 3);
    assert_int_equal(compiled, 0);
    assert_int_equal(loaded, 1);
    use(folder, 4); /* another text */
    assert_int_equal(compiled, 1);
    char path[512];
    assert_int_equal(only_file(path), 2);
}

static void without_f64_is_another_kernel(void **state) {
    (void)state;
    use(folder, 3);
    setenv("MLXN_OPENCL_F64", "off", 1);
    use(folder, 3);
    unsetenv("MLXN_OPENCL_F64");
    assert_true(compiled == 1);
}

static void a_damaged_entry_is_compiled_anew(void **state) {
    (void)state;
    char path[512];
    use(folder, 3);
    assert_int_equal(only_file(path), 1);
    assert_int_equal(truncate(path, 1000), 0);
    use(folder, 3);
    assert_int_equal(compiled, 1);
    assert_int_equal(loaded, 0);
    use(folder, 3);
    assert_int_equal(compiled, 0);
}

/* Whole entries that the driver cannot read, or that have another kernel in them. */
static void a_binary_that_the_driver_refuses(void **state) {
    (void)state;
    char path[512];
    use(folder, 3);
    assert_int_equal(only_file(path), 1);
    mlxn_device fake = {.allocator = mlxn_default_allocator, .cache_folder = folder};
    mlxn_cache_key key;
    assert_int_equal(sscanf(strrchr(path, '/'), "/%16" SCNx64 "%16" SCNx64 ".kernel", &key.high, &key.low), 2);
    size_t bytes;
    void *data = mlxn_cache_load(&fake, key, &bytes);
    assert_non_null(data);
    mlxn_free(&fake.allocator, data, bytes);
    static const char nonsense[300] = "no program of any driver";
    mlxn_cache_store(&fake, key, nonsense, sizeof nonsense);
    use(folder, 3);
    assert_int_equal(compiled, 1);
    assert_int_equal(loaded, 1);
    use(folder, 3);
    assert_int_equal(compiled, 0);
}

static void no_folder_and_no_cache(void **state) {
    (void)state;
    char path[512];
    use("/dev/null/nowhere", 3);
    assert_int_equal(compiled, 1);
    use(NULL, 3); /* which switches the cache off */
    assert_int_equal(compiled, 1);
    assert_int_equal(loaded, 0);
    assert_int_equal(only_file(path), 0);
}

static void what_pocl_keeps_itself_is_not_kept_twice(void **state) {
    (void)state;
    char path[512];
    mlxn_device_info info = {.size = sizeof info};
    mlxn_device *device = opencl_device(NULL);
    OK(mlxn_device_get_info(device, &info));
    mlxn_device_destroy(device);
    if (strncmp(info.description, pocl, sizeof pocl - 1) != 0) {
        print_message("skipped: %s is no PoCL: %s\n", info.name, info.description);
        skip();
    }
    by_its_name = true;
    for (int i = 0; i < 2; i++) {
        use(folder, 5);
        assert_int_equal(compiled, 1);
        assert_int_equal(loaded, 0);
    }
    by_its_name = false;
    assert_int_equal(only_file(path), 0);
}

static int make_folder(void **state) {
    (void)state;
    by_its_name = true;
    const size_t count = mlxn_device_count(); /* makes the list */
    by_its_name = false;
    return count > 0 && mkdtemp(folder) != NULL ? 0 : 1;
}

static int remove_folder(void **state) {
    empty_folder(state);
    return rmdir(folder);
}

int main(void) {
    fake_function("clCreateProgramWithSource", (void *)(uintptr_t)with_source);
    fake_function("clCreateProgramWithBinary", (void *)(uintptr_t)with_binary);
    fake_function("clGetPlatformInfo", (void *)(uintptr_t)platform_info);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_second_opening_compiles_nothing, empty_folder),
        cmocka_unit_test_teardown(without_f64_is_another_kernel, empty_folder),
        cmocka_unit_test_teardown(a_damaged_entry_is_compiled_anew, empty_folder),
        cmocka_unit_test_teardown(a_binary_that_the_driver_refuses, empty_folder),
        cmocka_unit_test_teardown(no_folder_and_no_cache, empty_folder),
        cmocka_unit_test_teardown(what_pocl_keeps_itself_is_not_kept_twice, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
