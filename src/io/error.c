/* The message of a thread's last failure. */
#include "io/internal.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[4096];

const char *mlxn_io_last_error(void) {
    return last_error;
}

void mlxn_io_explain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    /* Names from files reach terminals through this text. */
    for (char *at = last_error; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            *at = '?';
        }
    }
}
