/* The encoder: an ordered list of dispatches, and the order they must keep among each other. */
#ifndef MLXN_CORE_ENCODER_H
#define MLXN_CORE_ENCODER_H

#include "core/buffer.h"

/* Part of a storage, and what a dispatch does with it. */
typedef struct mlxn_slice {
    mlxn_storage *storage;
    size_t offset, bytes;
    mlxn_access access;
} mlxn_slice;

/* One dispatch of the list. */
typedef struct mlxn_record {
    const mlxn_kernel *kernel;
    mlxn_call call; /* its arrays follow the record; on a GPU the buffers are its addresses */
    uint32_t constant_bytes;
    uint64_t groups;      /* of the grid, all three extents together */
    uint64_t cost;        /* bytes moved, about: what decides how the work is shared out */
    uint64_t nanoseconds; /* of the last commit, where timing is on */
    uint32_t group[3];
    uint32_t local_bytes, resident_groups;
    uint32_t slice_count;
    bool barrier; /* must see the results of the dispatches before it; without, it may run beside those since
                     the last barrier */
    mlxn_slice *slices;
} mlxn_record;

struct mlxn_list {
    mlxn_record **records;
    size_t count, capacity;
    void *state; /* the backend's: what it keeps of a commit for the next */
};

/* What an op gives the encoder. */
typedef struct mlxn_recording {
    const char *kernel;
    const mlxn_slice *slices; /* at most MLXN_MAX_BINDINGS */
    size_t slice_count;
    const void *constants; /* copied; a user's are limited to MLXN_MAX_CONSTANT_BYTES, the library's own are not */
    size_t constant_bytes;
    uint64_t grid[3];     /* each at least 1 */
    uint32_t group[3];    /* GPU threads; 0 on the CPU */
    uint32_t local_bytes; /* GPU: local memory of a group that the kernel does not declare itself */
    /* GPU: so many groups, at most, a multiprocessor is to work on at a time, if the device can be held to it; 0: as many as it
     * has room for. */
    uint32_t resident_groups;
    uint64_t cost; /* bytes read and written */
} mlxn_recording;

/* The whole of a buffer as a slice. */
mlxn_slice mlxn_slice_of(const mlxn_buffer *buffer, mlxn_access access);

/* Where a slice begins for the device, and whether two slices share a byte. */
uintptr_t mlxn_slice_begin(const mlxn_slice *slice);
bool mlxn_slices_overlap(const mlxn_slice *a, const mlxn_slice *b);

/* Appends a dispatch. The arguments are right by now; what can fail is memory and the kernel's compilation. The
 * caller passes a failure to mlxn_encoder_fail. */
mlxn_status mlxn_encoder_record(mlxn_encoder *encoder, const mlxn_recording *recording);

/* Memory for intermediate results, of undefined contents. The dispatch recorded next must use it. It may be given out again by
 * any later call that comes when no dispatch since the last barrier uses it, so that a long list takes no more of it than a
 * short one, and writes what caches still hold; what it holds must have been read by a dispatch recorded before. So is it
 * after a reset. */
mlxn_status mlxn_encoder_scratch(mlxn_encoder *encoder, size_t bytes, mlxn_slice *slice);

/* MLXN_OK if the encoder records; else the sticky status, or MLXN_INVALID_STATE after a commit, which becomes
 * sticky itself. `call` names the caller. */
mlxn_status mlxn_encoder_open_for(mlxn_encoder *encoder, const char *call);

/* Makes a failure whose message was just set the encoder's sticky one, unless it has one. Returns the status. */
mlxn_status mlxn_encoder_fail(mlxn_encoder *encoder, mlxn_status status);

/* Undoes the dispatches recorded since the list had `count` of them. */
void mlxn_encoder_rewind(mlxn_encoder *encoder, size_t count);

mlxn_device *mlxn_encoder_device(const mlxn_encoder *encoder);

#endif
