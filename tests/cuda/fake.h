/* A CUDA driver and an NVRTC of the tests' own, with host memory behind them: a test program that links them has the
 * device "cuda:0" on any machine. Streams put their work off until something waits for it and then do as little as they
 * may, so that an order that the backend did not ask for does not come about by chance. Wrong uses (a dead handle, no
 * current context, memory freed under work in flight, another floating-point environment than the default) are counted as
 * complaints, and printed. */
#ifndef MLXN_TESTS_CUDA_FAKE_H
#define MLXN_TESTS_CUDA_FAKE_H

#include <stdbool.h>
#include <stddef.h>

/* One number a function of the driver: FAKE_LaunchKernel is cuLaunchKernel. */
typedef enum fake_function {
#define FUNCTION(name, symbol, arguments) FAKE_##name,
#define OPTIONAL FUNCTION
#include "backend/cuda/driver.def"
#undef FUNCTION
#undef OPTIONAL
    FAKE_FUNCTIONS
} fake_function;

typedef struct fake_driver {
    /* To set before the driver is first used. */
    bool absent; /* there is no libcuda.so.1 */
    int init_result;
    int device_count;
    int capability;

    /* To set at any time. */
    size_t memory;        /* bytes that the device has */
    bool no_pinned;       /* host memory cannot be pinned */
    bool no_graphs;       /* graphs cannot be instantiated */
    bool no_nvrtc;        /* NVRTC cannot be opened */
    bool refuse_image;    /* the next image that is loaded is refused */
    bool no_early;        /* neither launches nor edges may start a kernel early: "not supported" */
    bool no_early_graphs; /* graphs with such edges cannot be instantiated */
    int newest;           /* architecture that NVRTC knows */
    long fail_at;         /* the call of this number (of those counted in all_calls, from 1) fails; 0 = none */
    int fail_with;        /* with this result; an error that a context does not survive stays */

    /* To read. */
    long all_calls;
    long calls[FAKE_FUNCTIONS];
    int complaints;
    size_t memory_used, largest_use;
    long compilations;
    int contexts; /* retained */
    int objects;  /* streams, events, modules, graphs that exist */
    int pinned;   /* pieces of pinned memory that exist */
    unsigned last_grid[3], last_group[3], last_local;
} fake_driver;

extern fake_driver fake;

/* How deep this thread's stack of current contexts is: 0 outside of the library's calls. */
int fake_current(void);

/* Does all work that is put off. */
void fake_run_all(void);

/* The kernels that the driver knows. A text that has the name in it has the kernel; one that has "mistake" in it does
 * not compile. Each works on f32 and takes a struct of a float and the number of elements as constants.
 *     add(x, y, {by, n})          y = x + by
 *     sum(x, y, z, {by, n})       z = x + y + by
 *     twice(x, {by, n})           x = 2 x + by
 *     trap(x, {by, n})            an illegal memory access
 *     narrow(x, {by, n})          twice, in groups of at most 64 threads, with 1024 bytes of its own local memory
 * Those whose names begin with "own_" do the same. A kernel waits by itself for the one before it if its text says
 * "AWAIT();", in the dialect's sense, and it was compiled for 9.0 or later; the driver complains where another one is
 * started early, or one behind anything but a kernel. */
typedef struct fake_constants {
    float by;
    unsigned n;
} fake_constants;

#endif
