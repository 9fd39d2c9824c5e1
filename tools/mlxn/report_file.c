/* A file written whole or not at all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job.h"
#include "report_file.h"
#include "text.h"

static bool fail(report_file *file) {
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

bool report_file_open(const char *path, report_file *file) {
    const size_t size = strlen(path) + 12;
    *file = (report_file){.path = path};
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

bool report_file_close(report_file *file, bool keep) {
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

bool tool_can_write(const char *path) {
    report_file file;
    return !path || is_special(path) || (report_file_open(path, &file) && report_file_close(&file, false));
}

bool tool_write_json(const json_t *root, const char *path) {
    report_file file;
    if (!root) {
        tool_error("%s: out of memory", path);
        return false;
    }
    if (!report_file_open(path, &file)) {
        return false;
    }
    bool dumped = json_dumpf(root, file.stream, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    dumped = dumped && fputc('\n', file.stream) != EOF;
    if (!dumped) {
        tool_error("%s: cannot write", path);
    }
    return report_file_close(&file, dumped) && dumped;
}
