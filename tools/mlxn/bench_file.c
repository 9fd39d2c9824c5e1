/* A file written whole or not at all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "text.h"

static bool fail(bench_file *file) {
    tool_error("%s: cannot write: %s", file->path, strerror(errno));
    if (file->stream) {
        fclose(file->stream);
    }
    if (file->stream && file->temporary) {
        remove(file->temporary);
    }
    free(file->temporary);
    return false;
}

/* Whether a pipe, a terminal or the like is there, which cannot be replaced. */
static bool is_special(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool bench_file_open(const char *path, bench_file *file) {
    const size_t size = strlen(path) + 12;
    *file = (bench_file){.path = path};
    if (is_folder(path)) {
        errno = EISDIR;
        return fail(file);
    }
    if (is_special(path)) {
        /* It gets the bytes directly. */
        file->stream = fopen(path, "w");
        return file->stream ? true : fail(file);
    }
    file->temporary = tool_allocate(size, 1);
    snprintf(file->temporary, size, "%s.tmp-XXXXXX", path);
    int descriptor = mkstemp(file->temporary);
    file->stream = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    return file->stream ? true : fail(file);
}

bool bench_file_close(bench_file *file, bool keep) {
    if (!keep) {
        fclose(file->stream);
        if (file->temporary) {
            remove(file->temporary);
        }
        free(file->temporary);
        return true;
    }
    const mode_t mask = umask(0);
    umask(mask);
    if (fflush(file->stream) != 0 || (file->temporary && (fchmod(fileno(file->stream), 0666 & ~mask) != 0 ||
                                                          rename(file->temporary, file->path) != 0))) {
        return fail(file);
    }
    fclose(file->stream);
    free(file->temporary);
    return true;
}

bool bench_can_write(const char *path) {
    bench_file file;
    return !path || is_special(path) || (bench_file_open(path, &file) && bench_file_close(&file, false));
}
