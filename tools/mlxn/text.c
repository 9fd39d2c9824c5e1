#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static bool progress_shown;

void tool_progress_end(void) {
    if (progress_shown) {
        fputs("\r\033[K", stderr);
        progress_shown = false;
    }
}

void tool_error(const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            *at = '?';
        }
    }
    fflush(stdout);
    tool_progress_end();
    fprintf(stderr, "mlxn: %s\n", text);
}

void tool_progress(const char *format, ...) {
    static double start;
    if (start == 0) {
        start = tool_seconds();
    }
    if (tool_seconds() - start < 1 || !isatty(STDERR_FILENO)) {
        return;
    }
    fflush(stdout);
    fputs("\r\033[K", stderr);
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fflush(stderr);
    progress_shown = true;
}

char *tool_bytes(char text[16], double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 16, bytes < 10 && unit ? "%.3g %s" : "%.4g %s", bytes, units[unit]);
    return text;
}

double tool_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
