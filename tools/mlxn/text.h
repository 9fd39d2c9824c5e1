/* What the program says, and how. */
#ifndef MLXN_TOOL_TEXT_H
#define MLXN_TOOL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes "mlxn: " and the text to stderr as exactly one line, whatever bytes a file's name brings. */
__attribute__((format(printf, 1, 2))) void tool_error(const char *format, ...);

/* Shows what is being done on the terminal's last line, to be overwritten; nothing where stderr is no
 * terminal, and nothing in the first second after the first call. */
__attribute__((format(printf, 1, 2))) void tool_progress(const char *format, ...);

/* Wipes that line. */
void tool_progress_end(void);

/* A byte count for people: "16 KiB". Returns `text`. */
char *tool_bytes(char text[16], double bytes);

/* Seconds of the monotonic clock. */
double tool_seconds(void);

#endif
