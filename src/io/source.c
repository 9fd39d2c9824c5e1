/* Where a file's bytes come from: a descriptor and a map, or memory. */
#include "io/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static mlxn_status fail_errno(const char *path, const char *doing) {
    return mlxn_io_fail(MLXN_FILE_FAILED, "%s: cannot %s: %s", path, doing, strerror(errno));
}

/* Whether what has come so far may be the start of a file in one of the formats: an endless device is not read until
 * memory is gone. */
static bool promising(const unsigned char *bytes, size_t size) {
    const size_t brace = 8; /* of a .safetensors header, behind its length */
    return size <= brace || memcmp(bytes, "\x93NUMPY", 6) == 0 || bytes[brace] == '{';
}

/* Reads a pipe or the like to its end. Memory grows with what has really come. */
static mlxn_status read_stream(mlxn_file *file, int fd) {
    size_t capacity = (size_t)64 << 10;
    unsigned char *bytes = malloc(capacity);
    if (bytes == NULL) {
        return mlxn_io_out_of_memory(file->path, capacity);
    }
    size_t size = 0;
    for (;;) {
        const ssize_t got = read(fd, bytes + size, capacity - size);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            free(bytes);
            return fail_errno(file->path, "read");
        }
        size += (size_t)got;
        if (got == 0 || !promising(bytes, size)) {
            break;
        }
        if (size == capacity) {
            unsigned char *larger = capacity > SIZE_MAX / 2 ? NULL : realloc(bytes, capacity * 2);
            if (larger == NULL) {
                free(bytes);
                return mlxn_io_out_of_memory(file->path, capacity);
            }
            bytes = larger;
            capacity *= 2;
        }
    }
    file->view = bytes;
    file->view_kind = MLXN_IO_OWNED;
    file->size = size;
    return MLXN_OK;
}

static mlxn_status take_regular(mlxn_file *file, int fd, off_t size, bool copy) {
    if ((uintmax_t)size > SIZE_MAX) {
        return mlxn_io_fail(MLXN_FILE_FAILED, "%s: has %lld bytes, more than this machine can address", file->path,
                            (long long)size);
    }
    file->fd = fd;
    file->size = (size_t)size;
    if (!copy && size > 0) {
        void *map = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) {
            file->view = map;
            file->view_kind = MLXN_IO_MAPPED;
        }
    }
    return MLXN_OK;
}

mlxn_status mlxn_io_source_open(mlxn_file *file, bool copy) {
    const int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return fail_errno(file->path, "open");
    }
    struct stat facts;
    mlxn_status status;
    if (fstat(fd, &facts) != 0) {
        status = fail_errno(file->path, "stat");
    } else if (S_ISDIR(facts.st_mode)) {
        status = mlxn_io_fail(MLXN_FILE_FAILED, "%s: is a folder", file->path);
    } else if (S_ISREG(facts.st_mode)) {
        status = take_regular(file, fd, facts.st_size, copy);
    } else {
        status = read_stream(file, fd);
    }
    if (file->fd != fd) {
        close(fd);
    }
    return status;
}

void mlxn_io_source_close(mlxn_file *file) {
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
    }
}

void mlxn_io_source_release(mlxn_file *file) {
    if (file->view_kind == MLXN_IO_MAPPED) {
        munmap((void *)(uintptr_t)file->view, file->size);
    } else if (file->view_kind == MLXN_IO_OWNED) {
        free((void *)(uintptr_t)file->view);
    }
    file->view = NULL;
    file->view_kind = MLXN_IO_NO_VIEW;
}

mlxn_status mlxn_io_fetch(const mlxn_file *file, size_t offset, size_t size, void *data) {
    if (file->fd < 0) {
        if (size > 0) {
            memcpy(data, file->view + offset, size);
        }
        return MLXN_OK;
    }
    size_t done = 0;
    while (done < size) {
        const ssize_t got = pread(file->fd, (unsigned char *)data + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail_errno(file->path, "read");
        }
        if (got == 0) {
            return mlxn_io_fail(MLXN_FILE_FAILED,
                                "%s: became shorter while it was open: had %zu bytes, now ends at byte %zu", file->path,
                                file->size, offset + done);
        }
        done += (size_t)got;
    }
    return MLXN_OK;
}
