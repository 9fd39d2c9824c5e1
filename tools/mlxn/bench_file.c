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

bool bench_file_open(const char *path, bench_file *file) {
    const size_t size = strlen(path) + 12;
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        /* A pipe or a device cannot be replaced and gets the bytes directly. */
        *file = (bench_file){path, NULL, fopen(path, "w")};
        return file->stream ? true : fail(file);
    }
    *file = (bench_file){path, tool_allocate(size, 1), NULL};
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
