/* Failing: one function sets the thread's message and returns the status. */
#ifndef MLXN_CORE_STATUS_H
#define MLXN_CORE_STATUS_H

#include "mlxn/mlxn.h"

/* Formats the thread's message and returns `status`, so that `return mlxn_fail(…)` reads well. */
mlxn_status mlxn_fail(mlxn_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for the text of a shape, and the function that writes it: "[8,5]". Returns `text`. */
enum { MLXN_SHAPE_TEXT = MLXN_MAX_RANK * 21 + 3 };
const char *mlxn_shape_text(char text[MLXN_SHAPE_TEXT], size_t rank, const int64_t *shape);

#endif
