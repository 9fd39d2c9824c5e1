/* An op on arrays of the program's own: the common ground of checks and benchmarks. Knows ops by what
 * mlxn_op_info tells of them. */
#ifndef MLXN_TOOL_JOB_H
#define MLXN_TOOL_JOB_H

#include "args.h"

/* The extents that an op's arguments are made of: the leading "...", then N and M. */
typedef struct tool_extents {
    size_t batch_rank; /* 0 to 2 */
    int64_t batch[2];
    int64_t n, m; /* 1 for an elementwise op */
} tool_extents;

/* A device that is open and an encoder on it. */
typedef struct tool_session {
    mlxn_device *device;
    mlxn_encoder *encoder;
    mlxn_device_info info;
    size_t threads; /* as asked for; 0 = as many as the machine allows */
} tool_session;

/* Every argument lies in the middle of a larger array whose margins must stay as they are. */
typedef struct tool_job {
    const mlxn_op_info *op;
    mlxn_dtype dtype;
    tool_extents extents;
    int64_t batch; /* the product of the leading extents */
    size_t argument_count;
    size_t counts[MLXN_MAX_ARGUMENTS];
    void *arrays[MLXN_MAX_ARGUMENTS]; /* the host's copy of each argument */
    size_t offset;                    /* elements before each argument */
    void *storage[MLXN_MAX_ARGUMENTS];
    size_t storage_bytes[MLXN_MAX_ARGUMENTS];
    mlxn_buffer *storage_buffers[MLXN_MAX_ARGUMENTS];
    mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
} tool_job;

/* Memory or the end of the program: exit 1 with a message. Freed with free(). */
void *tool_allocate(size_t count, size_t size);

/* Opens the device that the arguments name. On failure says so and returns false. */
bool tool_open(const tool_arguments *arguments, tool_session *session);
bool tool_open_named(const char *name, size_t threads, tool_session *session);
void tool_close(tool_session *session);

/* Finds the ops that the operands name, all of them if there are none, into `ops` (mlxn_op_count() places are
 * enough when repeats are dropped, as they are). On failure says so and returns false. */
bool tool_select_ops(const tool_arguments *arguments, const mlxn_op_info **ops, size_t *count);

/* The shape of an argument, and its element count. */
size_t tool_argument_shape(const mlxn_argument *argument, const tool_extents *extents, int64_t shape[MLXN_MAX_RANK]);
size_t tool_argument_count(const mlxn_argument *argument, const tool_extents *extents);

/* The place of the argument called `prefix` and `name` among the op's first or later ones; -1 if there is none. */
int tool_find_argument(const mlxn_op_info *op, const char *prefix, const char *name, size_t begin, size_t end);

/* Makes arrays and buffers for an op, `offset` elements into their storage. */
mlxn_status tool_job_create(mlxn_device *device, const mlxn_op_info *op, mlxn_dtype dtype, tool_extents extents,
                            size_t offset, tool_job *job);

/* Brings the arrays to the device, runs the op and brings the outputs back. *intact tells whether the
 * margins of the outputs are as they were. */
mlxn_status tool_job_run(tool_job *job, mlxn_encoder *encoder, mlxn_mode mode, bool *intact);

/* Inputs and outputs in float64, by the op's reference; with `magnitudes` of the inputs' absolute values. The
 * caller frees each of `outputs`. */
void tool_job_reference(const tool_job *job, bool magnitudes, double *outputs[MLXN_MAX_ARGUMENTS]);

void tool_job_destroy(tool_job *job);

#endif
