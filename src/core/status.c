/* Statuses, the message of a thread's last failure, dtypes. */
#include "core/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Long enough for a compiler's log of a screenful. */
static _Thread_local char last_error[4096];

void mlxn_explain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
}

const char *mlxn_last_error(void) {
    return last_error;
}

const char *mlxn_status_text(mlxn_status status) {
    static const char *const texts[] = {
#define STATUS_TEXT(id, text) [MLXN_##id] = text,
        MLXN_STATUSES(STATUS_TEXT)
#undef STATUS_TEXT
    };
    const size_t index = (size_t)status;
    return index < sizeof texts / sizeof *texts ? texts[index] : "unknown status";
}

const char *mlxn_version(void) {
    return MLXN_VERSION_STRING;
}

const char *mlxn_shape_text(char text[MLXN_SHAPE_TEXT], size_t rank, const int64_t *shape) {
    char *at = text;
    *at++ = '[';
    for (size_t i = 0; i < rank; i++) {
        at += sprintf(at, i == 0 ? "%" PRId64 : ",%" PRId64, shape[i]);
    }
    strcpy(at, "]");
    return text;
}

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define DTYPE_ROW(id, name, size) [MLXN_##id] = {name, size},
    MLXN_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

const char *mlxn_dtype_name(mlxn_dtype dtype) {
    return (size_t)dtype < DTYPE_COUNT ? dtypes[dtype].name : "unknown dtype";
}

size_t mlxn_dtype_size(mlxn_dtype dtype) {
    return (size_t)dtype < DTYPE_COUNT ? dtypes[dtype].size : 0;
}

mlxn_status mlxn_dtype_from_name(const char *name, mlxn_dtype *dtype) {
    if (name == NULL || dtype == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_dtype_from_name: %s is NULL", name == NULL ? "name" : "dtype");
    }
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype = (mlxn_dtype)i;
            return MLXN_OK;
        }
    }
    return mlxn_fail(MLXN_NOT_FOUND, "mlxn_dtype_from_name: no dtype is called \"%.40s\"", name);
}
