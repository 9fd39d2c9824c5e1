/* What the CUDA driver itself takes for small work, as the yardstick of a library on top of it:
 *
 *     cc -O2 driver_costs.c -ldl -o driver_costs && ./driver_costs [DEVICE]
 *
 * prints, in microseconds: the host's part of cuLaunchKernel for a kernel of 64 elements; such a kernel and its wait; a
 * node of a replayed graph that is a chain of 1000 of them. The driver is opened at run time, no header is needed. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CHAIN = 1000, SINGLES = 2000, REPS = 9, ELEMENTS = 64 };

/* The driver's types, as its binary interface has them. */
typedef void *handle;
typedef uint64_t address;
typedef struct node_parameters {
    handle function;
    unsigned grid[3], group[3], local_bytes;
    void **arguments, **extra;
} node_parameters;

static int (*init)(unsigned);
static int (*device_get)(int *, int);
static int (*retain)(handle *, int);
static int (*set_current)(handle);
static int (*module_load)(handle *, const void *);
static int (*get_function)(handle *, handle, const char *);
static int (*allocate)(address *, size_t);
static int (*stream_create)(handle *, unsigned);
static int (*stream_wait)(handle);
static int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **,
                     void **);
static int (*graph_create)(handle *, unsigned);
static int (*graph_add)(handle *, handle, const handle *, size_t, const node_parameters *);
static int (*graph_instantiate)(handle *, handle, unsigned long long);
static int (*graph_launch)(handle, handle);

static const struct {
    void *place;
    const char *name;
} symbols[] = {
    {&init, "cuInit"},
    {&device_get, "cuDeviceGet"},
    {&retain, "cuDevicePrimaryCtxRetain"},
    {&set_current, "cuCtxSetCurrent"},
    {&module_load, "cuModuleLoadData"},
    {&get_function, "cuModuleGetFunction"},
    {&allocate, "cuMemAlloc_v2"},
    {&stream_create, "cuStreamCreate"},
    {&stream_wait, "cuStreamSynchronize"},
    {&launch, "cuLaunchKernel"},
    {&graph_create, "cuGraphCreate"},
    {&graph_add, "cuGraphAddKernelNode"},
    {&graph_instantiate, "cuGraphInstantiateWithFlags"},
    {&graph_launch, "cuGraphLaunch"},
};

/* y[i] = x[i] * x[i] */
static const char text[] = ".version 6.3\n.target sm_75\n.address_size 64\n"
                           ".visible .entry square(.param .u64 x, .param .u64 y) {\n"
                           ".reg .u32 %i;\n.reg .u64 %a, %b, %o;\n.reg .f32 %v;\n"
                           "mov.u32 %i, %tid.x;\nmul.wide.u32 %o, %i, 4;\n"
                           "ld.param.u64 %a, [x];\ncvta.to.global.u64 %a, %a;\nadd.u64 %a, %a, %o;\n"
                           "ld.param.u64 %b, [y];\ncvta.to.global.u64 %b, %b;\nadd.u64 %b, %b, %o;\n"
                           "ld.global.f32 %v, [%a];\nmul.f32 %v, %v, %v;\nst.global.f32 [%b], %v;\nret;\n}\n";

static void check(int error, const char *what) {
    if (error != 0) {
        fprintf(stderr, "%s: error %d\n", what, error);
        exit(1);
    }
}

static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values) {
    qsort(values, REPS, sizeof *values, by_value);
    return values[REPS / 2];
}

static handle function, stream;
static address x, y;
static void *arguments[] = {&x, &y};

static void launch_once(void) {
    check(launch(function, 1, 1, 1, ELEMENTS, 1, 1, 0, stream, arguments, NULL), "cuLaunchKernel");
}

static double time_launches(void) {
    const double start = microseconds();
    for (int i = 0; i < CHAIN; i++) {
        launch_once();
    }
    const double end = microseconds();
    check(stream_wait(stream), "cuStreamSynchronize");
    return (end - start) / CHAIN;
}

static double time_singles(void) {
    const double start = microseconds();
    for (int i = 0; i < SINGLES; i++) {
        launch_once();
        check(stream_wait(stream), "cuStreamSynchronize");
    }
    return (microseconds() - start) / SINGLES;
}

static handle make_chain(void) {
    const node_parameters parameters = {function, {1, 1, 1}, {ELEMENTS, 1, 1}, 0, arguments, NULL};
    handle graph, chain, last = NULL;
    check(graph_create(&graph, 0), "cuGraphCreate");
    for (int i = 0; i < CHAIN; i++) {
        handle node;
        check(graph_add(&node, graph, &last, i > 0 ? 1 : 0, &parameters), "cuGraphAddKernelNode");
        last = node;
    }
    check(graph_instantiate(&chain, graph, 0), "cuGraphInstantiateWithFlags");
    return chain;
}

static double time_chain(handle chain) {
    const double start = microseconds();
    check(graph_launch(chain, stream), "cuGraphLaunch");
    check(stream_wait(stream), "cuStreamSynchronize");
    return (microseconds() - start) / CHAIN;
}

int main(int argc, char **argv) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "no CUDA driver: %s\n", dlerror());
        return 1;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        *(void **)symbols[i].place = dlsym(driver, symbols[i].name);
        check(*(void **)symbols[i].place == NULL, symbols[i].name);
    }
    int device;
    handle context, module;
    check(init(0), "cuInit");
    check(device_get(&device, argc > 1 ? atoi(argv[1]) : 0), "cuDeviceGet");
    check(retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(set_current(context), "cuCtxSetCurrent");
    check(module_load(&module, text), "cuModuleLoadData");
    check(get_function(&function, module, "square"), "cuModuleGetFunction");
    check(stream_create(&stream, 1), "cuStreamCreate");
    check(allocate(&x, ELEMENTS * sizeof(float)), "cuMemAlloc");
    check(allocate(&y, ELEMENTS * sizeof(float)), "cuMemAlloc");

    double launches[REPS], singles[REPS], nodes[REPS];
    handle chain = make_chain();
    time_launches();
    time_chain(chain);
    for (int i = 0; i < REPS; i++) {
        launches[i] = time_launches();
        singles[i] = time_singles();
        nodes[i] = time_chain(chain);
    }
    printf("launch %.3f\nlaunch_and_wait %.3f\ngraph_node %.3f\n", median(launches), median(singles), median(nodes));
    return 0;
}
