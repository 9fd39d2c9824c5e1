#include "core/cache.h"

#define XXH_INLINE_ALL
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

/* What an entry begins with; the data follows. Another version's entries, and those of a machine of the other byte order,
 * look damaged. */
typedef struct header {
    char magic[8];
    uint64_t version;
    mlxn_cache_key key;
    uint64_t bytes;
    uint64_t hash[2]; /* of the data */
} header;
static const char magic[8] = {'m', 'l', 'x', 'n', 'k', 'e', 'r', 'n'};

/* Also part of every key. */
enum { FORMAT_VERSION = 1 };

/* Entries are kilobytes; a file beyond this is none of ours. */
static const uint64_t most_bytes = (uint64_t)1 << 30;

/* A path that is longer is no place for entries. */
enum { PATH_BYTES = 4096 };

/* ---- the folder ----------------------------------------------------------------------------------- */

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* `folder` with `below` after it, if that is a path that can be used. */
static char *folder_of(const mlxn_allocator *allocator, const char *folder, const char *below) {
    char here[PATH_BYTES] = "", path[PATH_BYTES];
    if (folder[0] != '/' && getcwd(here, sizeof here) == NULL) {
        return NULL;
    }
    const int length = snprintf(path, sizeof path, "%s%s%s%s", here, here[0] != '\0' ? "/" : "", folder, below);
    if (length < 0 || (size_t)length >= sizeof path) {
        return NULL;
    }
    char *copy = mlxn_allocate(allocator, (size_t)length + 1, 1);
    if (copy != NULL) {
        memcpy(copy, path, (size_t)length + 1);
    }
    return copy;
}

char *mlxn_cache_folder(const mlxn_allocator *allocator, const mlxn_device_options *options) {
    const char *cache = variable("MLXN_CACHE");
    if (cache != NULL && strcmp(cache, "off") == 0) {
        return NULL;
    }
    const char *folder = options != NULL && options->cache_folder != NULL && options->cache_folder[0] != '\0'
                             ? options->cache_folder
                             : variable("MLXN_CACHE_DIR");
    if (folder != NULL) {
        return folder_of(allocator, folder, "");
    }
    if ((folder = variable("XDG_CACHE_HOME")) != NULL && folder[0] == '/') {
        return folder_of(allocator, folder, "/mlxn");
    }
    folder = variable("HOME");
    return folder != NULL && folder[0] == '/' ? folder_of(allocator, folder, "/.cache/mlxn") : NULL;
}

/* Makes the folder and those above it. What cannot be made is noticed when a file is. */
static void make_folder(const char *folder) {
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s", folder) >= PATH_BYTES || mkdir(path, 0700) == 0 || errno != ENOENT) {
        return;
    }
    for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    mkdir(path, 0700);
}

static bool entry_path(const mlxn_device *device, mlxn_cache_key key, char path[PATH_BYTES]) {
    return device->cache_folder != NULL && snprintf(path, PATH_BYTES, "%s/%016" PRIx64 "%016" PRIx64 ".kernel",
                                                    device->cache_folder, key.high, key.low) < PATH_BYTES;
}

/* ---- entries -------------------------------------------------------------------------------------- */

mlxn_cache_key mlxn_cache_key_of(const char *const *texts) {
    XXH3_state_t state;
    const uint64_t version = FORMAT_VERSION;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &version, sizeof version);
    for (; *texts != NULL; texts++) {
        XXH3_128bits_update(&state, *texts, strlen(*texts) + 1); /* the zero byte tells "ab", "c" from "a", "bc" */
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return (mlxn_cache_key){hash.low64, hash.high64};
}

static header header_of(mlxn_cache_key key, const void *data, size_t bytes) {
    const XXH128_hash_t hash = XXH3_128bits(data, bytes);
    header made = {.version = FORMAT_VERSION, .key = key, .bytes = bytes, .hash = {hash.low64, hash.high64}};
    memcpy(made.magic, magic, sizeof magic);
    return made;
}

static bool read_all(int file, void *data, size_t bytes) {
    while (bytes > 0) {
        const ssize_t got = read(file, data, bytes);
        if (got > 0) {
            data = (char *)data + got;
            bytes -= (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

static bool write_all(int file, const void *data, size_t bytes) {
    while (bytes > 0) {
        const ssize_t written = write(file, data, bytes);
        if (written > 0) {
            data = (const char *)data + written;
            bytes -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* The data of an open entry, or NULL. `bytes` is set with the former. */
static void *load_file(const mlxn_allocator *allocator, int file, mlxn_cache_key key, size_t *bytes) {
    struct stat status;
    header found;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < (off_t)sizeof found ||
        (uint64_t)status.st_size > most_bytes || !read_all(file, &found, sizeof found) ||
        found.bytes != (uint64_t)status.st_size - sizeof found || found.bytes == 0) {
        return NULL;
    }
    const size_t size = (size_t)found.bytes;
    void *data = mlxn_allocate(allocator, size, 64);
    if (data == NULL) {
        return NULL;
    }
    if (read_all(file, data, size)) {
        const header expected = header_of(key, data, size);
        if (memcmp(&found, &expected, sizeof found) == 0) {
            *bytes = size;
            return data;
        }
    }
    mlxn_free(allocator, data, size);
    return NULL;
}

void *mlxn_cache_load(const mlxn_device *device, mlxn_cache_key key, size_t *bytes) {
    char path[PATH_BYTES];
    *bytes = 0;
    if (!entry_path(device, key, path)) {
        return NULL;
    }
    /* A pipe of that name would keep a blocking open waiting. */
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return NULL;
    }
    void *data = load_file(&device->allocator, file, key, bytes);
    close(file);
    return data;
}

/* Makes a file that nobody else writes, beside the entry. -1 if that fails. */
static int make_temporary(const char *path, char temporary[PATH_BYTES]) {
    static atomic_uint counter;
    /* Processes of two containers may have one number, and one that was killed may have left its file. */
    for (int attempt = 0; attempt < 16; attempt++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        if (snprintf(temporary, PATH_BYTES, "%s.%ld.%u.%ld", path, (long)getpid(), atomic_fetch_add(&counter, 1),
                     now.tv_nsec) >= PATH_BYTES) {
            return -1;
        }
        const int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0 || errno != EEXIST) {
            return file;
        }
    }
    return -1;
}

/* A write beyond the process's limit of file sizes raises SIGXFSZ in the thread that writes, which would end the
 * program. */
typedef struct quiet {
    sigset_t callers;
    bool pending; /* before us, so not ours */
} quiet;

static sigset_t size_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

static quiet hush(void) {
    const sigset_t set = size_signal();
    quiet before;
    sigset_t pending;
    pthread_sigmask(SIG_BLOCK, &set, &before.callers);
    before.pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
    return before;
}

static void unhush(const quiet *before) {
    const sigset_t set = size_signal();
    const struct timespec at_once = {0};
    while (!before->pending && sigtimedwait(&set, NULL, &at_once) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before->callers, NULL);
}

void mlxn_cache_store(const mlxn_device *device, mlxn_cache_key key, const void *data, size_t bytes) {
    char path[PATH_BYTES], temporary[PATH_BYTES];
    if (bytes == 0 || bytes > most_bytes - sizeof(header) || !entry_path(device, key, path)) {
        return;
    }
    make_folder(device->cache_folder);
    const int file = make_temporary(path, temporary);
    if (file < 0) {
        return;
    }
    const header begin = header_of(key, data, bytes);
    const quiet before = hush();
    const bool written = write_all(file, &begin, sizeof begin) && write_all(file, data, bytes);
    unhush(&before);
    if (close(file) != 0 || !written || rename(temporary, path) != 0) {
        unlink(temporary);
    }
}
