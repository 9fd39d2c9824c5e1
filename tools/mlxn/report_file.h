/* Files that a verb writes its report to: whole, or not at all. */
#ifndef MLXN_TOOL_REPORT_FILE_H
#define MLXN_TOOL_REPORT_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Opens a file beside `path`; writes it to disk and renames it over `path`, or removes it. */
typedef struct report_file {
    const char *path;
    char *temporary;
    FILE *stream;
} report_file;

/* These say what is wrong and return false if the file cannot be written. */
bool report_file_open(const char *path, report_file *file);
bool report_file_close(report_file *file, bool keep);
bool tool_write_json(const json_t *root, const char *path);

/* The same without writing; `path` may be NULL for none. */
bool tool_can_write(const char *path);

#endif
