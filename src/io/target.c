/* Replacing a file whole or not at all, and writing to what is no file. */
#include "io/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mlxn_status fail_errno(const mlxn_io_target *target, const char *doing, int error) {
    return mlxn_io_fail(MLXN_FILE_FAILED, "%s: cannot %s: %s", target->name, doing, strerror(error));
}

/* ---- looking at a target ---- */

/* The path's folder, ending in '/', or "" for the present one. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Replaces *path by what the symbolic link there points to. False without memory. */
static bool follow(char **path) {
    char link[4096];
    const ssize_t length = readlink(*path, link, sizeof link - 1);
    if (length < 0) {
        return true; /* gone since; what comes next reports it */
    }
    link[length] = '\0';
    const size_t folder = link[0] == '/' ? 0 : folder_length(*path);
    char *joined = malloc(folder + (size_t)length + 1);
    if (joined == NULL) {
        return false;
    }
    memcpy(joined, *path, folder);
    memcpy(joined + folder, link, (size_t)length + 1);
    free(*path);
    *path = joined;
    return true;
}

/* The number of the descriptor that the path names, or -1. */
static int named_descriptor(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0) {
        return STDOUT_FILENO;
    }
    if (strcmp(path, "/dev/stderr") == 0) {
        return STDERR_FILENO;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const size_t length = strlen(folders[i]);
        if (strncmp(path, folders[i], length) == 0 && path[length] >= '0' && path[length] <= '9') {
            char *end;
            const long number = strtol(path + length, &end, 10);
            return *end == '\0' && number >= 0 && number <= INT16_MAX ? (int)number : -1;
        }
    }
    return -1;
}

/* A copy of the path's folder; NULL without memory. */
static char *folder_of(const char *path) {
    const size_t length = folder_length(path);
    return length > 0 ? strndup(path, length) : strdup(".");
}

/* Of a file that does not exist yet, the folder tells which file it is. */
static mlxn_status look_at_folder(mlxn_io_target *target) {
    char *folder = folder_of(target->path);
    if (folder == NULL) {
        return mlxn_io_out_of_memory(target->name, strlen(target->path) + 1);
    }
    struct stat facts;
    const int error = stat(folder, &facts) == 0 ? 0 : errno;
    free(folder);
    if (error != 0) {
        return fail_errno(target, "write", error);
    }
    target->device = facts.st_dev;
    target->inode = facts.st_ino;
    return MLXN_OK;
}

mlxn_status mlxn_io_target_prepare(mlxn_io_target *target, const char *path) {
    enum { MOST_LINKS = 40 };
    *target = (mlxn_io_target){.name = path, .fd = -1, .stream_fd = named_descriptor(path)};
    if (*path == '\0') {
        return mlxn_io_fail(MLXN_INVALID_ARGUMENT, "the path of a file to write is empty");
    }
    target->path = strdup(path);
    if (target->path == NULL) {
        return mlxn_io_out_of_memory(path, strlen(path) + 1);
    }
    if (target->stream_fd >= 0) {
        target->stream = true;
        return MLXN_OK;
    }
    struct stat facts;
    int links = 0;
    while ((target->existed = lstat(target->path, &facts) == 0) && S_ISLNK(facts.st_mode)) {
        if (++links > MOST_LINKS) {
            return fail_errno(target, "write", ELOOP);
        }
        if (!follow(&target->path)) {
            return mlxn_io_out_of_memory(path, sizeof facts);
        }
    }
    if (!target->existed) {
        return errno == ENOENT ? look_at_folder(target) : fail_errno(target, "write", errno);
    }
    if (S_ISDIR(facts.st_mode)) {
        return fail_errno(target, "write", EISDIR);
    }
    target->stream = !S_ISREG(facts.st_mode);
    target->mode = facts.st_mode & 0777;
    target->uid = facts.st_uid;
    target->gid = facts.st_gid;
    target->device = facts.st_dev;
    target->inode = facts.st_ino;
    if (faccessat(AT_FDCWD, target->path, W_OK, AT_EACCESS) != 0) {
        return fail_errno(target, "write", errno);
    }
    return MLXN_OK;
}

bool mlxn_io_target_same(const mlxn_io_target *a, const mlxn_io_target *b) {
    if (a->stream || b->stream || a->existed != b->existed) {
        return false;
    }
    if (a->existed) {
        return a->device == b->device && a->inode == b->inode;
    }
    const char *a_name = a->path + folder_length(a->path), *b_name = b->path + folder_length(b->path);
    return a->device == b->device && a->inode == b->inode && strcmp(a_name, b_name) == 0;
}

/* ---- writing ---- */

/* A name beside the target that no other thread or process uses now. */
static char *beside(const mlxn_io_target *target) {
    static atomic_uint counter;
    const size_t folder = folder_length(target->path);
    const size_t room = folder + 64;
    char *name = malloc(room);
    if (name != NULL) {
        memcpy(name, target->path, folder);
        snprintf(name + folder, room - folder, ".mlxn-%ld-%u.tmp", (long)getpid(), atomic_fetch_add(&counter, 1));
    }
    return name;
}

static mlxn_status begin_stream(mlxn_io_target *target) {
    target->fd = target->stream_fd >= 0 ? fcntl(target->stream_fd, F_DUPFD_CLOEXEC, 0)
                                        : open(target->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return target->fd >= 0 ? MLXN_OK : fail_errno(target, "open", errno);
}

mlxn_status mlxn_io_target_begin(mlxn_io_target *target) {
    enum { MOST_TRIES = 100 };
    if (target->stream) {
        return begin_stream(target);
    }
    for (int i = 0; i < MOST_TRIES && target->fd < 0; i++) {
        target->temporary = beside(target);
        if (target->temporary == NULL) {
            return mlxn_io_out_of_memory(target->name, strlen(target->path) + 64);
        }
        target->fd = open(target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (target->fd < 0) {
            const int error = errno;
            free(target->temporary);
            target->temporary = NULL;
            if (error != EEXIST) {
                return fail_errno(target, "create a file beside it", error);
            }
        }
    }
    if (target->fd < 0) {
        return fail_errno(target, "create a file beside it", EEXIST);
    }
    if (target->existed) {
        /* The owner can be kept only by the privileged; where it cannot, the file becomes the writer's. */
        const bool same_owner = fchown(target->fd, target->uid, target->gid) == 0 || errno == EPERM || errno == EINVAL;
        if (!same_owner || fchmod(target->fd, target->mode) != 0) {
            return fail_errno(target, "set the permissions", errno);
        }
    }
    return MLXN_OK;
}

/* Holds SIGPIPE and SIGXFSZ back from this thread while it writes, and takes away those that a write raised. */
typedef struct signal_guard {
    sigset_t blocked, before;
    bool pipe_pending, size_pending;
} signal_guard;

static void guard_begin(signal_guard *guard) {
    sigset_t pending;
    sigpending(&pending);
    guard->pipe_pending = sigismember(&pending, SIGPIPE) == 1;
    guard->size_pending = sigismember(&pending, SIGXFSZ) == 1;
    sigemptyset(&guard->blocked);
    sigaddset(&guard->blocked, SIGPIPE);
    sigaddset(&guard->blocked, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &guard->blocked, &guard->before);
}

static void take_signal(int number, bool was_pending) {
    sigset_t pending, one;
    sigpending(&pending);
    if (!was_pending && sigismember(&pending, number) == 1) {
        int taken;
        sigemptyset(&one);
        sigaddset(&one, number);
        sigwait(&one, &taken);
    }
}

static void guard_end(const signal_guard *guard, int error) {
    if (error == EPIPE) {
        take_signal(SIGPIPE, guard->pipe_pending);
    } else if (error == EFBIG) {
        take_signal(SIGXFSZ, guard->size_pending);
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* Writes all; returns 0 or an error number. */
static int write_all(int fd, const unsigned char *data, size_t size) {
    while (size > 0) {
        const ssize_t put = write(fd, data, size);
        if (put > 0) {
            data += put;
            size -= (size_t)put;
        } else if (put == 0) {
            return EIO;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd wanted = {.fd = fd, .events = POLLOUT};
            if (poll(&wanted, 1, -1) < 0 && errno != EINTR) {
                return errno;
            }
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

mlxn_status mlxn_io_target_write(mlxn_io_target *target, const void *data, size_t size) {
    signal_guard guard;
    guard_begin(&guard);
    const int error = write_all(target->fd, data, size);
    guard_end(&guard, error);
    return error == 0 ? MLXN_OK : fail_errno(target, "write", error);
}

mlxn_status mlxn_io_target_finish(mlxn_io_target *target) {
    /* Some file systems cannot sync and say EINVAL or ENOTSUP; a stream need not be synced. */
    int error = 0;
    if (!target->stream && fsync(target->fd) != 0 && errno != EINVAL && errno != ENOTSUP) {
        error = errno;
    }
    const int closed = close(target->fd);
    target->fd = -1;
    if (error == 0 && closed != 0 && errno != EINTR) {
        error = errno;
    }
    return error == 0 ? MLXN_OK : fail_errno(target, "write", error);
}

/* ---- putting in place ---- */

/* Gives the old file a second name, so that it can come back. */
static mlxn_status keep_old(mlxn_io_target *target) {
    if (!target->existed) {
        return MLXN_OK;
    }
    target->backup = beside(target);
    if (target->backup == NULL) {
        return mlxn_io_out_of_memory(target->name, strlen(target->path) + 64);
    }
    /* A file system without hard links: the old file is moved instead. */
    if (link(target->path, target->backup) != 0 && rename(target->path, target->backup) != 0) {
        const int error = errno;
        free(target->backup);
        target->backup = NULL;
        return fail_errno(target, "keep the old file", error);
    }
    return MLXN_OK;
}

static mlxn_status put_in_place(mlxn_io_target *target) {
    if (rename(target->temporary, target->path) != 0) {
        return fail_errno(target, "rename the new file to it", errno);
    }
    free(target->temporary);
    target->temporary = NULL;
    target->renamed = true;
    return MLXN_OK;
}

/* Brings the old file back, or its absence. */
static void undo(mlxn_io_target *target) {
    if (target->backup != NULL) {
        /* Renaming one of two names of a file to the other does nothing, and the backup is then removed. */
        if (rename(target->backup, target->path) == 0) {
            unlink(target->backup);
        }
        free(target->backup);
        target->backup = NULL;
    } else if (target->renamed) {
        unlink(target->path);
    }
}

/* Makes the new names last. What cannot be synced is in place all the same. */
static void sync_folder(const mlxn_io_target *target) {
    char *folder = folder_of(target->path);
    const int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

mlxn_status mlxn_io_targets_publish(mlxn_io_target *targets, size_t count) {
    size_t files = 0;
    for (size_t i = 0; i < count; i++) {
        files += !targets[i].stream;
    }
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; status == MLXN_OK && i < count; i++) {
        if (!targets[i].stream) {
            status = files > 1 ? keep_old(&targets[i]) : MLXN_OK;
            status = status == MLXN_OK ? put_in_place(&targets[i]) : status;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (status != MLXN_OK) {
            undo(&targets[i]);
        } else if (!targets[i].stream) {
            sync_folder(&targets[i]);
        }
    }
    return status;
}

void mlxn_io_target_discard(mlxn_io_target *target) {
    if (target->fd >= 0) {
        close(target->fd);
    }
    if (target->temporary != NULL) {
        unlink(target->temporary);
        free(target->temporary);
    }
    if (target->backup != NULL) {
        unlink(target->backup);
        free(target->backup);
    }
    free(target->path);
    *target = (mlxn_io_target){.fd = -1};
}
