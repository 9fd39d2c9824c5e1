/* The arguments of a call of an op, each at a place of its own that nothing beside may be written to: between guard pages
 * on the CPU, and elsewhere in one buffer, between margins that are all ones, which are NaN in every dtype: what
 * is read of them spoils the result. */
#ifndef MLXN_TESTS_SUPPORT_PLACED_H
#define MLXN_TESTS_SUPPORT_PLACED_H

#include "op_case.h"

typedef struct placed {
    mlxn_buffer *buffer[MLXN_MAX_ARGUMENTS];
    size_t count; /* arguments */
    size_t bytes[MLXN_MAX_ARGUMENTS];
    guard guards[MLXN_MAX_ARGUMENTS]; /* the CPU */
    mlxn_buffer *storage;             /* elsewhere: all arguments, */
    size_t at[MLXN_MAX_ARGUMENTS];    /* the byte where each begins, */
    size_t storage_bytes;
    unsigned char *contents; /* and after placed_finish what is there */
} placed;

/* Puts the arrays of `a` into place and makes buffers of them. */
placed placed_create(mlxn_device *device, const op_case *c, const op_arrays *a, const op_layout *layout);

/* After the work is done: gives up the buffers. */
void placed_finish(placed *p);

/* After placed_finish: what an argument holds, and whether the bytes beside it are untouched. */
const void *placed_result(const placed *p, size_t argument);
bool placed_intact(const placed *p, size_t argument);

void placed_destroy(placed *p);

#endif
