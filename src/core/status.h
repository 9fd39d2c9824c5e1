/* Failing: one call sets the thread's message and is the status. */
#ifndef MLXN_CORE_STATUS_H
#define MLXN_CORE_STATUS_H

#include "mlxn/mlxn.h"

/* Sets the thread's message. */
void mlxn_explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Explains and is the status, so that `return mlxn_fail(…)` reads well. A macro, so that compilers and analyzers
 * see that it is not MLXN_OK. */
#define mlxn_fail(status, ...) (mlxn_explain(__VA_ARGS__), (mlxn_status)(status))

/* Room for the text of a shape, and the function that writes it: "[8,5]". Returns `text`. */
enum { MLXN_SHAPE_TEXT = MLXN_MAX_RANK * 21 + 3 };
const char *mlxn_shape_text(char text[MLXN_SHAPE_TEXT], size_t rank, const int64_t *shape);

#endif
