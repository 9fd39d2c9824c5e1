/* The driver's objects and calls. */
#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/driver.h"
#include "fake_work.h"
#include "support/environment.h"

#define FUNCTION(name, symbol, arguments) CUresult symbol arguments;
#define OPTIONAL FUNCTION
#include "backend/cuda/driver.def"
#undef FUNCTION
#undef OPTIONAL

fake_driver fake = {.device_count = 1, .capability = 90, .newest = 90, .memory = (size_t)256 << 20};

static _Thread_local int current;
static pthread_mutex_t big = PTHREAD_MUTEX_INITIALIZER;
static int broken;

int fake_current(void) {
    return current;
}

void fake_complain(const char *about) {
    fake.complaints++;
    fprintf(stderr, "the fake driver complains: %s\n", about);
}

/* Real drivers compute, too, and are made for the default. Flags may be raised. */
void fake_look_at_environment(void) {
#if defined(__x86_64__)
    const bool is_default = (environment_get().control & 0xffc0) == 0x1f80;
#else
    const bool is_default = environment_get().control == 0;
#endif
    if (!is_default || fegetround() != FE_TONEAREST)
        fake_complain("a call in a floating-point environment that is not the default");
}

void fake_break(int result) {
    broken = result;
}

#define LOCK pthread_mutex_lock(&big)
#define UNLOCK pthread_mutex_unlock(&big)

static bool ends_the_context(int result) {
    return result == 700 || result == 719 || result == 709;
}

/* What every call begins with, the lock taken: the result it is to give, or 0. */
static int enter(fake_function function, bool in_context) {
    LOCK;
    fake_look_at_environment();
    fake.calls[function]++;
    fake.all_calls++;
    if (in_context && current == 0)
        fake_complain("no context is current");
    int result = in_context ? broken : 0;
    if (fake.fail_at != 0 && fake.all_calls == fake.fail_at) {
        result = fake.fail_with;
        if (ends_the_context(result))
            broken = result;
    }
    return result;
}

static int leave(int result) {
    UNLOCK;
    return result;
}

/* The begin of a call that fails by itself or goes on. */
#define CALL(name, in_context)                           \
    const int injected = enter(FAKE_##name, in_context); \
    if (injected != 0)                                   \
    return leave(injected)

/* The program's own symbols are the driver's and the compiler's. */
void *dlopen(const char *name, int flags) {
    void *(*others)(const char *, int);
    void *symbol = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&others, &symbol, sizeof symbol);
    if (name != NULL && strcmp(name, "libcuda.so.1") == 0)
        return fake.absent ? NULL : others(NULL, flags);
    if (name != NULL && strstr(name, "libnvrtc") != NULL)
        return fake.no_nvrtc ? NULL : others(NULL, flags);
    return others(name, flags);
}

/* ---- the driver and its devices ---- */

int cuInit(unsigned flags) {
    enter(FAKE_Init, false);
    if (flags != 0)
        fake_complain("cuInit has no flags");
    return leave(fake.init_result);
}

int cuDriverGetVersion(int *version) {
    CALL(DriverGetVersion, false);
    *version = 13000;
    return leave(0);
}

int cuGetErrorName(int error, const char **text) {
    fake_look_at_environment();
    *text = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL;
    return *text != NULL ? 0 : 1;
}

int cuGetErrorString(int error, const char **text) {
    fake_look_at_environment();
    *text = error == 700   ? "an illegal memory access was encountered"
            : error == 2   ? "out of memory"
            : error == 100 ? "no CUDA-capable device is detected"
                           : NULL;
    return *text != NULL ? 0 : 1;
}

int cuDeviceGetCount(int *count) {
    CALL(DeviceGetCount, false);
    *count = fake.device_count;
    return leave(0);
}

int cuDeviceGet(int *device, int ordinal) {
    CALL(DeviceGet, false);
    *device = ordinal;
    return leave(ordinal >= 0 && ordinal < fake.device_count ? 0 : 101);
}

int cuDeviceGetName(char *name, int bytes, int device) {
    CALL(DeviceGetName, false);
    snprintf(name, (size_t)bytes, "Fake %d", device);
    return leave(0);
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    CALL(DeviceGetAttribute, false);
    (void)device;
    switch (attribute) {
    case 2:
    case 3:
        *value = 1024;
        break;
    case 4:
        *value = 64;
        break;
    case 5:
        *value = 0x7fffffff;
        break;
    case 6:
    case 7:
        *value = 65535;
        break;
    case 16:
        *value = 132;
        break;
    case 20:
        *value = 0;
        break;
    case 38:
        *value = 50 << 20;
        break;
    case 75:
        *value = fake.capability / 10;
        break;
    case 76:
        *value = fake.capability % 10;
        break;
    case 81:
        *value = 228 << 10;
        break;
    case 97:
        *value = 227 << 10;
        break;
    case 111:
        *value = 1 << 10;
        break;
    default:
        return leave(1);
    }
    return leave(0);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    CALL(DeviceTotalMem, false);
    (void)device;
    *bytes = fake.memory;
    return leave(0);
}

int cuDevicePrimaryCtxRetain(CUcontext *context, int device) {
    CALL(DevicePrimaryCtxRetain, false);
    (void)device;
    fake.contexts++;
    *context = (CUcontext)&fake;
    return leave(0);
}

/* The last release ends the context, with all that is left in it. */
int cuDevicePrimaryCtxRelease_v2(int device) {
    const int result = enter(FAKE_DevicePrimaryCtxRelease, false);
    (void)device;
    if (fake.contexts < 1)
        fake_complain("a context is released that nobody has");
    if (--fake.contexts == 0) {
        if (broken == 0 && fake.fail_at == 0 && (fake.objects != 0 || fake.memory_used != 0 || fake.pinned != 0))
            fprintf(stderr, "%d objects, %zu bytes and %d pinned pieces are left\n", fake.objects, fake.memory_used,
                    fake.pinned),
                fake_complain("the context ends with things in it");
        fake_end();
        broken = 0;
    }
    return leave(result);
}

int cuCtxPushCurrent_v2(CUcontext context) {
    CALL(CtxPushCurrent, false);
    if (context != (CUcontext)&fake || fake.contexts < 1)
        fake_complain("this is no context");
    current++;
    return leave(0);
}

int cuCtxPopCurrent_v2(CUcontext *context) {
    const int result = enter(FAKE_CtxPopCurrent, true);
    *context = (CUcontext)&fake;
    current--;
    return leave(result == broken ? 0 : result);
}

/* ---- streams and events ---- */

int cuStreamCreate(CUstream *stream, unsigned flags) {
    CALL(StreamCreate, true);
    if (flags != 1)
        fake_complain("a stream that waits for the default stream");
    *stream = (CUstream)fake_new(FAKE_STREAM);
    return leave(0);
}

int cuStreamDestroy_v2(CUstream stream) {
    const int result = enter(FAKE_StreamDestroy, true);
    fake_run(fake_is(stream, FAKE_STREAM));
    fake_delete(stream, FAKE_STREAM);
    return leave(result);
}

int cuStreamSynchronize(CUstream stream) {
    CALL(StreamSynchronize, true);
    fake_run(fake_is(stream, FAKE_STREAM));
    return leave(broken);
}

int cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    CALL(StreamWaitEvent, true);
    (void)flags;
    fake_wait(fake_is(stream, FAKE_STREAM), fake_is(event, FAKE_EVENT));
    return leave(0);
}

int cuEventCreate(CUevent *event, unsigned flags) {
    CALL(EventCreate, true);
    *event = (CUevent)fake_new(FAKE_EVENT);
    ((fake_object *)*event)->timing = (flags & 2) == 0;
    return leave(0);
}

int cuEventDestroy_v2(CUevent event) {
    const int result = enter(FAKE_EventDestroy, true);
    fake_delete(event, FAKE_EVENT);
    return leave(result);
}

int cuEventRecord(CUevent event, CUstream stream) {
    CALL(EventRecord, true);
    fake_record(fake_is(stream, FAKE_STREAM), fake_is(event, FAKE_EVENT));
    return leave(0);
}

int cuEventSynchronize(CUevent event) {
    CALL(EventSynchronize, true);
    fake_run_to(fake_is(event, FAKE_EVENT));
    return leave(broken);
}

int cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    CALL(EventElapsedTime, true);
    const fake_object *a = fake_is(start, FAKE_EVENT), *b = fake_is(end, FAKE_EVENT);
    if (!a->timing || !b->timing || a->done == 0 || b->done == 0 || a->done < a->recorded || b->done < b->recorded)
        fake_complain("events that have no time");
    *milliseconds = (float)(b->time - a->time) / 1000;
    return leave(0);
}

/* ---- memory ---- */

int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    CALL(MemAlloc, true);
    *address = bytes > 0 ? (CUdeviceptr)(uintptr_t)fake_allocate(bytes) : 0;
    return leave(bytes == 0 ? 1 : *address != 0 ? 0 : 2);
}

int cuMemFree_v2(CUdeviceptr address) {
    const int result = enter(FAKE_MemFree, true);
    fake_free((void *)(uintptr_t)address);
    return leave(result);
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    CALL(MemHostAlloc, true);
    (void)flags;
    *memory = fake.no_pinned ? NULL : fake_pin(bytes);
    return leave(*memory != NULL ? 0 : 2);
}

int cuMemFreeHost(void *memory) {
    const int result = enter(FAKE_MemFreeHost, true);
    fake_unpin(memory);
    return leave(result);
}

int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    CALL(MemcpyHtoDAsync, true);
    fake_copy(fake_is(stream, FAKE_STREAM), (void *)(uintptr_t)to, from, bytes, true);
    return leave(0);
}

int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    CALL(MemcpyDtoHAsync, true);
    fake_copy(fake_is(stream, FAKE_STREAM), to, (const void *)(uintptr_t)from, bytes, false);
    return leave(0);
}

int cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream stream) {
    CALL(MemsetD32Async, true);
    if (value != 0 || count == 0)
        fake_complain("a fill that is not of zeros");
    fake_fill(fake_is(stream, FAKE_STREAM), (void *)(uintptr_t)at, 4 * count);
    return leave(0);
}

/* ---- kernels ---- */

int cuModuleLoadData(CUmodule *module, const void *image) {
    CALL(ModuleLoadData, true);
    if (fake.refuse_image) {
        fake.refuse_image = false;
        return leave(200);
    }
    fake_object *made = fake_new(FAKE_MODULE);
    made->text = strdup(image);
    *module = (CUmodule)made;
    return leave(0);
}

int cuModuleUnload(CUmodule module) {
    const int result = enter(FAKE_ModuleUnload, true);
    fake_delete(module, FAKE_MODULE);
    return leave(result);
}

int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CALL(ModuleGetFunction, true);
    fake_kernel *found = fake_find(name);
    const char *text = fake_is(module, FAKE_MODULE)->text;
    if (found == NULL || strstr(text, name) == NULL)
        return leave(500);
    const bool without_prelude = strncmp(text, "extern", 6) == 0;
    found->awaits = !without_prelude && strstr(text, "AWAIT();") != NULL;
    *function = (CUfunction)(uintptr_t)found;
    return leave(0);
}

int cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    CALL(FuncGetAttribute, true);
    const fake_kernel *kernel = (const fake_kernel *)function;
    *value = attribute == 0 ? kernel->threads : attribute == 1 ? kernel->local : 0;
    return leave(0);
}

int cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    CALL(FuncSetAttribute, true);
    fake_kernel *kernel = (fake_kernel *)function;
    if (attribute != 8 || value + kernel->local > 227 << 10)
        fake_complain("a function's attribute out of its range");
    kernel->local_allowed = value;
    return leave(0);
}

int cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes) {
    CALL(FuncGetParamInfo, true);
    const fake_kernel *kernel = (const fake_kernel *)function;
    *offset = 8 * index;
    *bytes = 8; /* the constants as well as an address */
    return leave(index <= kernel->buffers ? 0 : 1);
}

static bool launch_fits(const fake_kernel *kernel, const unsigned *grid, const unsigned *group, unsigned local) {
    memcpy(fake.last_grid, grid, sizeof fake.last_grid);
    memcpy(fake.last_group, group, sizeof fake.last_group);
    fake.last_local = local;
    const bool fits = grid[0] > 0 && grid[1] > 0 && grid[2] > 0 && grid[1] < 65536 && grid[2] < 65536 &&
                      group[0] * group[1] * group[2] <= (unsigned)kernel->threads &&
                      (int)local <= (kernel->local_allowed > 0 ? kernel->local_allowed : (48 << 10) - kernel->local);
    if (!fits)
        fake_complain("a launch beyond the limits");
    return fits;
}

int cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned group_x,
                   unsigned group_y, unsigned group_z, unsigned local, CUstream stream, void **arguments,
                   void **extra) {
    CALL(LaunchKernel, true);
    if (extra != NULL || !launch_fits((fake_kernel *)function, (unsigned[]){grid_x, grid_y, grid_z},
                                      (unsigned[]){group_x, group_y, group_z}, local))
        return leave(1);
    fake_launch(fake_is(stream, FAKE_STREAM), (const fake_kernel *)function, arguments);
    return leave(0);
}

/* The layouts of cuda.h on 64-bit machines. */
_Static_assert(sizeof(CUlaunchAttribute) == 72 && offsetof(CUlaunchAttribute, value) == 8, "CUlaunchAttribute");
_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(CUlaunchConfig) == 56 && offsetof(CUlaunchConfig, local_bytes) == 24 &&
                    offsetof(CUlaunchConfig, stream) == 32 && offsetof(CUlaunchConfig, attributes) == 40 &&
                    offsetof(CUlaunchConfig, attribute_count) == 48),
               "CUlaunchConfig");
_Static_assert(sizeof(CUgraphEdgeData) == 8, "CUgraphEdgeData");

int cuLaunchKernelEx(const CUlaunchConfig *launch, CUfunction function, void **arguments, void **extra) {
    CALL(LaunchKernelEx, true);
    if (fake.no_early)
        return leave(801);
    if (launch->attribute_count != 1 || launch->attributes->id != 6 || launch->attributes->value.programmatic != 1 ||
        fake.capability < 90 || !((fake_kernel *)function)->awaits)
        fake_complain("a launch that is early and should not be");
    if (!fake_may_start_early(fake_is(launch->stream, FAKE_STREAM)))
        fake_complain("a launch that is early and stands behind what is no kernel");
    if (extra != NULL || !launch_fits((fake_kernel *)function, launch->grid, launch->group, launch->local_bytes))
        return leave(1);
    fake_launch(fake_is(launch->stream, FAKE_STREAM), (const fake_kernel *)function, arguments);
    return leave(0);
}

int cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                              const CUgraphEdgeData *edges, size_t count) {
    static const unsigned char expected[] = {1, 0, 1, 0, 0, 0, 0, 0}; /* the port, to all of the node, the type */
    CALL(GraphAddDependencies, true);
    if (fake.no_early)
        return leave(801);
    if (fake.capability < 90 || count != 1 || memcmp(edges, expected, sizeof expected) != 0)
        return leave(1);
    fake_add_early_edge(fake_is(graph, FAKE_GRAPH), *from, *to);
    return leave(0);
}

int cuGraphCreate(CUgraph *graph, unsigned flags) {
    CALL(GraphCreate, true);
    (void)flags;
    *graph = (CUgraph)fake_new(FAKE_GRAPH);
    return leave(0);
}

int cuGraphDestroy(CUgraph graph) {
    const int result = enter(FAKE_GraphDestroy, true);
    fake_delete(graph, FAKE_GRAPH);
    return leave(result);
}

int cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                         const CUDA_KERNEL_NODE_PARAMS *parameters) {
    CALL(GraphAddKernelNode, true);
    if (!launch_fits((fake_kernel *)parameters->function, parameters->grid, parameters->group, parameters->local_bytes))
        return leave(1);
    *node = (CUgraphNode)fake_add_node(fake_is(graph, FAKE_GRAPH), (const fake_kernel *)parameters->function,
                                       parameters->arguments, (const size_t *)(const void *)after, count);
    return leave(0);
}

int cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUevent event) {
    CALL(GraphAddEventRecordNode, true);
    *node = (CUgraphNode)fake_add_event(fake_is(graph, FAKE_GRAPH), fake_is(event, FAKE_EVENT),
                                        (const size_t *)(const void *)after, count);
    return leave(0);
}

int cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
    CALL(GraphInstantiate, true);
    const fake_object *from = fake_is(graph, FAKE_GRAPH);
    if (flags != 0 || fake.no_graphs || (fake.no_early_graphs && from->early_edges > 0))
        return leave(1);
    *executable = (CUgraphExec)fake_instantiate(from);
    return leave(0);
}

int cuGraphExecDestroy(CUgraphExec executable) {
    const int result = enter(FAKE_GraphExecDestroy, true);
    fake_delete(executable, FAKE_EXECUTABLE);
    return leave(result);
}

int cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    CALL(GraphLaunch, true);
    fake_launch_graph(fake_is(stream, FAKE_STREAM), fake_is(executable, FAKE_EXECUTABLE));
    return leave(0);
}

void fake_run_all(void) {
    LOCK;
    fake_run_streams();
    UNLOCK;
}
