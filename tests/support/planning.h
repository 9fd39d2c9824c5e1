/* A device that plans as graphics processors do and has no memory behind its addresses, so that shapes of any size can be
 * tried. One at a time. */
#ifndef MLXN_TESTS_SUPPORT_PLANNING_H
#define MLXN_TESTS_SUPPORT_PLANNING_H

#include "core/encoder.h"
#include "support/test.h"

/* Its groups may have so much local memory. */
mlxn_device *planning_open(size_t local_bytes);
void planning_close(mlxn_device *device);

/* What buffers and scratch memory take now. */
size_t planning_live_bytes(void);

/* Called with each dispatch of a list that is committed, unless NULL. */
extern void (*planning_sees)(const mlxn_record *record);

#endif
