/* An open CUDA device: what the backend's files share.
 *
 * Work goes to a few streams, one a list, and to one more for copies and fills. Each stream remembers which memory its
 * work touches, until a wait has shown that it is idle; work on another stream that touches the same memory waits there,
 * on the device, by an event. Two locks: the core's device->lock fixes the order of commits and copies; state->lock
 * guards what this file declares, and is held for moments. Taken in this order. */
#ifndef MLXN_BACKEND_CUDA_STATE_H
#define MLXN_BACKEND_CUDA_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/cuda/driver.h"
#include "core/device.h"
#include "core/encoder.h"

enum { LIST_STREAMS = 4, COPY_STREAM = LIST_STREAMS, STREAMS };

/* Memory that work touches. Where there are more parts than have room, one range covers all. */
enum { MAX_RANGES = 32 };
typedef struct mlxn_cuda_range {
    uintptr_t begin, end;
    bool written;
} mlxn_cuda_range;
typedef struct mlxn_cuda_ranges {
    size_t count;
    mlxn_cuda_range list[MAX_RANGES];
} mlxn_cuda_ranges;

typedef struct mlxn_cuda_stream {
    CUstream stream;
    CUevent event;            /* recorded when another stream has to wait for this one */
    uint64_t issued, done;    /* how often work was put in, and how much of that is known to be done */
    uint64_t waited[STREAMS]; /* what this stream waits for: `issued` of the others at that time */
    mlxn_cuda_ranges ranges;  /* of the work that is not known to be done */
} mlxn_cuda_stream;

/* What commits keep with a list. */
typedef struct mlxn_cuda_list {
    struct mlxn_cuda_list *next; /* of those that wait for another list */
    unsigned stream;
    uint64_t commits;
    bool pending; /* committed since the last wait */
    bool timed;   /* the last commit was */
    bool direct;  /* a graph could not be made: commits launch */
    CUgraphExec graph;
    CUevent *events; /* of timing */
    size_t event_count, event_capacity;
    mlxn_cuda_ranges ranges;
} mlxn_cuda_list;

/* Kernel->compiled. */
typedef struct mlxn_cuda_kernel {
    CUmodule module;
    CUfunction function;
    bool awaits;             /* itself, that what is before it has ended: it may be started early (launch.c) */
    uint64_t threads;        /* of a group, at most */
    size_t local_bytes;      /* that the text declares */
    size_t local_allowed;    /* dynamic local memory, as the function is set up */
    size_t local_most;       /* and as it could be */
    bool arguments_known;    /* the driver told: */
    uint32_t argument_count; /* at most MAX_ARGUMENTS + 1 are counted */
    size_t argument_bytes[MLXN_MAX_BINDINGS + 1];
} mlxn_cuda_kernel;
enum { MAX_ARGUMENTS = MLXN_MAX_BINDINGS + 1 };

/* Arguments for kernels of which the driver does not tell how many they have: whatever a kernel has, it is there. */
enum { MOST_ARGUMENT_BYTES = 1 << 15 };
typedef struct mlxn_cuda_spare {
    unsigned char bytes[MOST_ARGUMENT_BYTES];
    void *arguments[MOST_ARGUMENT_BYTES / 4];
} mlxn_cuda_spare;

/* Memory that waits for reuse. */
typedef struct mlxn_cuda_block {
    CUdeviceptr address;
    size_t bytes;
} mlxn_cuda_block;

/* A half of the memory through which large copies go. */
typedef struct mlxn_cuda_half {
    char *memory;
    CUevent event; /* the transfer from or to it is done */
    bool busy;
} mlxn_cuda_half;

typedef struct mlxn_cuda_state {
    CUdevice device;
    CUcontext context;
    int capability;   /* 90 for 9.0 */
    uint64_t grid[3]; /* the device's limits */
    uint64_t group[3];
    int processors;         /* its multiprocessors, */
    int processor_local;    /* the local memory of each, and of that */
    int reserved_local;     /* what each group takes beside its own */
    bool early_launches;    /* the driver starts kernels that await early, by a launch */
    bool early_edges;       /* and by an edge of a graph; both used under device->lock */
    mlxn_cuda_spare *spare; /* where the driver does not know a kernel's arguments; used under device->lock */

    /* An error after which the driver does nothing any more: 0, 1 while the text is written, 2. */
    atomic_int broken;
    char broken_text[256];

    pthread_mutex_t lock;
    mlxn_cuda_stream streams[STREAMS];
    mlxn_cuda_list *lists; /* that wait for another list */
    unsigned lists_made;
    mlxn_cuda_block *blocks;
    size_t block_count, block_capacity;
    size_t blocks_bytes, blocks_most; /* all together, and how much that may be */

    mlxn_cuda_half halves[2]; /* used under device->lock */
    bool staging_failed;
} mlxn_cuda_state;

static inline mlxn_cuda_state *mlxn_cuda_state_of(const mlxn_device *device) {
    return device->state;
}

/* ---- failing (failure.c) ------------------------------------------------------------------------- */

/* Calls a function of the driver; the status of its result, with a message. */
#define CU(state, name, ...) mlxn_cuda_check(state, "cu" #name, mlxn_cuda.name(__VA_ARGS__))

mlxn_status mlxn_cuda_failed(mlxn_cuda_state *state, const char *call, CUresult result);
static inline mlxn_status mlxn_cuda_check(mlxn_cuda_state *state, const char *call, CUresult result) {
    return result == CUDA_SUCCESS ? MLXN_OK : mlxn_cuda_failed(state, call, result);
}

/* Ends the use of the device: after an error of the driver's that its context does not survive, and where it is not known
 * what the device is doing. */
void mlxn_cuda_break(mlxn_cuda_state *state, const char *text);

/* MLXN_OK if the device can be used: the process has not forked and no error has broken it. */
mlxn_status mlxn_cuda_usable(mlxn_cuda_state *state);

/* Makes the context current for calls of the driver, and gives the thread back the one it had. `leave` only where
 * `enter` succeeded. */
mlxn_status mlxn_cuda_enter(mlxn_cuda_state *state);
void mlxn_cuda_leave(void);

/* ---- the order of work (order.c); all with state->lock held --------------------------------------- */

void mlxn_cuda_add_range(mlxn_cuda_ranges *ranges, uintptr_t begin, uintptr_t end, bool written);

/* What is put into `stream` next will run after the work in flight elsewhere that conflicts with `ranges`. */
mlxn_status mlxn_cuda_order(mlxn_cuda_state *state, unsigned stream, const mlxn_cuda_ranges *ranges);

/* Whether all that was put into `stream` is known to be done, the waiting for other streams, too. */
bool mlxn_cuda_is_idle(const mlxn_cuda_state *state, unsigned stream);

/* Work that touches `ranges` was put into `stream`. */
void mlxn_cuda_issued(mlxn_cuda_state *state, unsigned stream, const mlxn_cuda_ranges *ranges);

/* ---- and without ---- */

/* Waits for all that was put into `stream`, or into any. */
mlxn_status mlxn_cuda_finish(mlxn_cuda_state *state, unsigned stream);
mlxn_status mlxn_cuda_finish_all(mlxn_cuda_state *state);

/* ---- the backend's functions ---------------------------------------------------------------------- */

mlxn_status mlxn_cuda_allocate(mlxn_device *device, size_t bytes, mlxn_memory *memory);
void mlxn_cuda_release(mlxn_device *device, mlxn_memory *memory);
void mlxn_cuda_release_cached(mlxn_cuda_state *state); /* the context is current */

mlxn_status mlxn_cuda_copy_out(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size, void *data);
mlxn_status mlxn_cuda_copy_in(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size,
                              const void *data);
void mlxn_cuda_close_staging(mlxn_cuda_state *state); /* the context is current */

mlxn_status mlxn_cuda_compile(mlxn_device *device, mlxn_kernel *kernel);
void mlxn_cuda_unload(mlxn_device *device, mlxn_kernel *kernel);

/* The whole text of a kernel, for mlxn_free; NULL if there is no memory. */
char *mlxn_cuda_text(const mlxn_allocator *allocator, const mlxn_kernel *kernel, size_t *bytes);

mlxn_status mlxn_cuda_commit(mlxn_device *device, mlxn_list *list, bool timing);
mlxn_status mlxn_cuda_wait(mlxn_device *device, mlxn_list *list);
void mlxn_cuda_forget(mlxn_device *device, mlxn_list *list);
void mlxn_cuda_free_lists(mlxn_device *device, bool with_events); /* if so, the context is current */

/* Checks a dispatch against the limits of the device and of its kernel (launch.c), and sets the kernel up for it. */
mlxn_status mlxn_cuda_check_launch(mlxn_cuda_state *state, const mlxn_record *record);

/* `early`: what the stream has last is a kernel, and the dispatch need not wait for all of it if it can await. */
CUresult mlxn_cuda_launch(mlxn_cuda_state *state, const mlxn_record *record, CUstream stream, bool early);

CUresult mlxn_cuda_add_node(mlxn_cuda_state *state, const mlxn_record *record, CUgraph graph, const CUgraphNode *after,
                            size_t after_count, CUgraphNode *node);

/* A node behind that of one other kernel, which may start early. Its kernel awaits. */
CUresult mlxn_cuda_add_early_node(mlxn_cuda_state *state, const mlxn_record *record, CUgraph graph, CUgraphNode after,
                                  CUgraphNode *node);
bool mlxn_cuda_awaits(const mlxn_record *record);

#endif
