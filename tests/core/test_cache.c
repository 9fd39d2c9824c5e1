/* The disk cache: what was stored is found, whatever happens to the files is a miss, and processes do not disturb each
 * other. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cache.h"
#include "support/allocation.h"
#include "support/test.h"

static char root[] = "/tmp/mlxn-cache-XXXXXX", start[4096];
static char folder[128];

/* All that the cache looks at of a device. */
static mlxn_device device;

static void remove_tree(const char *path) {
    DIR *open_folder = opendir(path);
    if (open_folder == NULL) {
        unlink(path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char below[4096];
            if (snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < (int)sizeof below)
                remove_tree(below);
        }
    closedir(open_folder);
    rmdir(path);
}

static int count_files(const char *path) {
    int count = 0;
    DIR *open_folder = opendir(path);
    for (struct dirent *entry; open_folder != NULL && (entry = readdir(open_folder)) != NULL;)
        count += entry->d_name[0] != '.';
    if (open_folder != NULL)
        closedir(open_folder);
    return count;
}

static int prepare(void **state) {
    (void)state;
    for (const char *const *name = (const char *const[]){"MLXN_CACHE", "MLXN_CACHE_DIR", "XDG_CACHE_HOME", NULL};
         *name != NULL; name++)
        unsetenv(*name);
    setenv("HOME", root, 1);
    snprintf(folder, sizeof folder, "%s/a/b", root); /* neither is there */
    device = (mlxn_device){.allocator = mlxn_default_allocator, .cache_folder = folder};
    return 0;
}

static int clean(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/a", root);
    remove_tree(path);
    return 0;
}

static mlxn_cache_key key_of(const char *text) {
    return mlxn_cache_key_of((const char *const[]){"test", text, NULL});
}

static bool has(mlxn_cache_key key, const char *expected, size_t bytes) {
    size_t found = 77;
    void *data = mlxn_cache_load(&device, key, &found);
    const bool same = data != NULL && found == bytes && memcmp(data, expected, bytes) == 0;
    assert_true(data != NULL ? same : found == 0); /* never anything else than what was stored */
    mlxn_free(&device.allocator, data, found);
    return same;
}

/* The only file of the folder. */
static void only_entry(char path[512]) {
    path[0] = '\0';
    DIR *open_folder = opendir(folder);
    assert_non_null(open_folder);
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;)
        if (entry->d_name[0] != '.') {
            assert_true(path[0] == '\0');
            snprintf(path, 512, "%s/%s", folder, entry->d_name);
        }
    closedir(open_folder);
    assert_true(path[0] != '\0');
}

static void keys_tell_texts_apart(void **state) {
    (void)state;
    const char *const *const lists[] = {
        (const char *const[]){NULL},           (const char *const[]){"", NULL},
        (const char *const[]){"ab", NULL},     (const char *const[]){"a", "b", NULL},
        (const char *const[]){"ab", "", NULL}, (const char *const[]){"", "ab", NULL},
        (const char *const[]){"b", "a", NULL},
    };
    enum { COUNT = sizeof lists / sizeof *lists };
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) {
            const mlxn_cache_key a = mlxn_cache_key_of(lists[i]), b = mlxn_cache_key_of(lists[j]);
            assert_int_equal(a.low == b.low && a.high == b.high, i == j);
        }
}

static void what_was_stored_is_found(void **state) {
    (void)state;
    char *large = malloc(1 << 20);
    assert_non_null(large);
    for (int i = 0; i < 1 << 20; i++)
        large[i] = (char)(i * 7 + i / 256);
    assert_false(has(key_of("x"), "one", 3));
    mlxn_cache_store(&device, key_of("x"), "one", 3);
    mlxn_cache_store(&device, key_of("y"), large, 1 << 20);
    assert_true(has(key_of("x"), "one", 3));
    assert_true(has(key_of("y"), large, 1 << 20));
    assert_false(has(key_of("z"), "one", 3));
    mlxn_cache_store(&device, key_of("x"), "other", 5);
    assert_true(has(key_of("x"), "other", 5));
    assert_int_equal(count_files(folder), 2); /* no temporary file is left */
    free(large);

    struct stat status;
    assert_int_equal(stat(folder, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
}

static void nothing_is_stored_without_a_folder_or_data(void **state) {
    (void)state;
    mlxn_cache_store(&device, key_of("x"), "", 0);
    assert_int_equal(count_files(folder), 0);
    device.cache_folder = NULL;
    mlxn_cache_store(&device, key_of("x"), "one", 3);
    assert_false(has(key_of("x"), "one", 3));
}

/* Every cut and every changed byte of an entry. */
static void a_damaged_entry_is_a_miss_and_is_replaced(void **state) {
    (void)state;
    char path[512], entry[256];
    mlxn_cache_store(&device, key_of("x"), "the data", 8);
    only_entry(path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(entry, 1, sizeof entry, file);
    fclose(file);
    assert_true(bytes > 8 && bytes < sizeof entry);
    for (size_t i = 0; i < 2 * bytes + 1; i++) {
        file = fopen(path, "wb");
        assert_non_null(file);
        if (i < bytes) { /* truncated, at first to nothing */
            fwrite(entry, 1, i, file);
        } else if (i < 2 * bytes) { /* one byte is another, the version's too */
            entry[i - bytes] ^= 0x20;
            fwrite(entry, 1, bytes, file);
            entry[i - bytes] ^= 0x20;
        } else { /* too long */
            fwrite(entry, 1, bytes, file);
            fwrite("x", 1, 1, file);
        }
        fclose(file);
        assert_false(has(key_of("x"), "the data", 8));
        mlxn_cache_store(&device, key_of("x"), "the data", 8);
        assert_true(has(key_of("x"), "the data", 8));
    }
    assert_int_equal(count_files(folder), 1);
}

/* An entry under another's name, as after a collision of names, and things that are no files. */
static void what_is_no_entry_is_a_miss(void **state) {
    (void)state;
    char path[512], other[600];
    mlxn_cache_store(&device, key_of("x"), "the data", 8);
    only_entry(path);
    snprintf(other, sizeof other, "%s.kept", path);
    assert_int_equal(rename(path, other), 0);
    mlxn_cache_store(&device, key_of("y"), "other data", 10);
    assert_int_equal(unlink(other), 0);
    char name_of_y[512];
    only_entry(name_of_y);
    assert_int_equal(rename(name_of_y, path), 0);
    assert_false(has(key_of("x"), "the data", 8));
    assert_int_equal(unlink(path), 0);

    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(has(key_of("x"), "the data", 8));
    mlxn_cache_store(&device, key_of("x"), "the data", 8); /* cannot take a folder's place */
    assert_int_equal(count_files(folder), 1);
    assert_int_equal(rmdir(path), 0);

    alarm(30);
    assert_int_equal(mkfifo(path, 0700), 0);
    assert_false(has(key_of("x"), "the data", 8));
    mlxn_cache_store(&device, key_of("x"), "the data", 8);
    assert_true(has(key_of("x"), "the data", 8));
    alarm(0);
}

static void folders_that_cannot_be_written(void **state) {
    (void)state;
    char endless[5000];
    memset(endless, 'x', sizeof endless - 1);
    endless[0] = '/';
    endless[sizeof endless - 1] = '\0';
    char *const folders[] = {"/dev/null/folder", "/proc/mlxn", "/dev/null", endless, endless + 904};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        device.cache_folder = folders[i];
        mlxn_cache_store(&device, key_of("x"), "one", 3);
        assert_false(has(key_of("x"), "one", 3));
    }
}

/* In a child, whose limit of file sizes stands for a full disk: the signal that it raises is not delivered. */
static void a_full_disk_is_no_failure(void **state) {
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit small = {40, 40};
        char data[1000] = {1};
        if (setrlimit(RLIMIT_FSIZE, &small) != 0)
            _exit(1);
        mlxn_cache_store(&device, key_of("x"), data, sizeof data);
        sigset_t pending;
        size_t bytes;
        _exit(sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ) != 0      ? 2
              : mlxn_cache_load(&device, key_of("x"), &bytes) != NULL || bytes != 0 ? 3
                                                                                    : 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(count_files(folder), 0);
}

static void no_memory_is_a_miss(void **state) {
    (void)state;
    mlxn_cache_store(&device, key_of("x"), "one", 3);
    counting count = {0};
    device.allocator = counting_allocator(&count);
    atomic_store(&count.fail_at, 1);
    assert_false(has(key_of("x"), "one", 3));
    assert_true(has(key_of("x"), "one", 3));
    assert_int_equal(atomic_load(&count.live), 0);
    atomic_store(&count.fail_at, 3);
    setenv("MLXN_CACHE_DIR", "/tmp/folder", 1);
    assert_null(mlxn_cache_folder(&device.allocator, NULL));
}

/* Eight processes write and read the same entries; a reader finds a whole entry or none. */
static void eight_processes_at_once(void **state) {
    (void)state;
    enum { PROCESSES = 8, ROUNDS = 200, BYTES = 20000 };
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        if ((children[i] = fork()) == 0) {
            char data[BYTES], name[2] = "a";
            for (int round = 0; round < ROUNDS; round++) {
                name[0] = (char)('a' + (round + i) % 3);
                size_t bytes;
                char *found = mlxn_cache_load(&device, key_of(name), &bytes);
                for (size_t at = 0; found != NULL && at < bytes; at++)
                    if (bytes != BYTES || found[at] != found[0])
                        _exit(1);
                if (found == NULL && round > 20)
                    _exit(2);
                mlxn_free(&device.allocator, found, bytes);
                memset(data, 'A' + i, sizeof data);
                mlxn_cache_store(&device, key_of(name), data, sizeof data);
            }
            _exit(0);
        }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_files(folder), 3);
}

static void expect_folder(const char *option, const char *expected) {
    const mlxn_device_options options = {.size = sizeof options, .cache_folder = option};
    char *found = mlxn_cache_folder(&mlxn_default_allocator, option != NULL ? &options : NULL);
    if (expected == NULL)
        assert_null(found);
    else {
        assert_non_null(found);
        assert_string_equal(found, expected);
        mlxn_free(&mlxn_default_allocator, found, strlen(found) + 1);
    }
}

static void where_the_folder_is(void **state) {
    (void)state;
    char expected[5000];
    snprintf(expected, sizeof expected, "%s/.cache/mlxn", root);
    expect_folder(NULL, expected);
    setenv("XDG_CACHE_HOME", "relative", 1); /* which that variable must not be */
    expect_folder(NULL, expected);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    expect_folder(NULL, "/xdg/mlxn");
    setenv("MLXN_CACHE_DIR", "/dir", 1);
    expect_folder(NULL, "/dir");
    expect_folder("/option", "/option");
    snprintf(expected, sizeof expected, "%s/below/here", start);
    expect_folder("below/here", expected);
    expect_folder("", "/dir");
    setenv("MLXN_CACHE_DIR", "", 1);
    expect_folder("", "/xdg/mlxn");
    setenv("MLXN_CACHE", "on", 1);
    expect_folder("/option", "/option");
    setenv("MLXN_CACHE", "off", 1);
    expect_folder("/option", NULL);
    unsetenv("MLXN_CACHE");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    expect_folder(NULL, NULL);
    memset(expected, 'x', sizeof expected - 1);
    expected[sizeof expected - 1] = '\0';
    expect_folder(expected, NULL);
    expected[4096] = '\0';
    expect_folder(expected, NULL);
}

static int make_root(void **state) {
    (void)state;
    return mkdtemp(root) != NULL && getcwd(start, sizeof start) != NULL ? 0 : 1;
}

static int remove_root(void **state) {
    (void)state;
    remove_tree(root);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_tell_texts_apart, prepare, clean),
        cmocka_unit_test_setup_teardown(what_was_stored_is_found, prepare, clean),
        cmocka_unit_test_setup_teardown(nothing_is_stored_without_a_folder_or_data, prepare, clean),
        cmocka_unit_test_setup_teardown(a_damaged_entry_is_a_miss_and_is_replaced, prepare, clean),
        cmocka_unit_test_setup_teardown(what_is_no_entry_is_a_miss, prepare, clean),
        cmocka_unit_test_setup_teardown(folders_that_cannot_be_written, prepare, clean),
        cmocka_unit_test_setup_teardown(a_full_disk_is_no_failure, prepare, clean),
        cmocka_unit_test_setup_teardown(no_memory_is_a_miss, prepare, clean),
        cmocka_unit_test_setup_teardown(eight_processes_at_once, prepare, clean),
        cmocka_unit_test_setup_teardown(where_the_folder_is, prepare, clean),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
