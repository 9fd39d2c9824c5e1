/* One dispatch: its checks, its launch, its node in a graph.
 *
 * Starting early: the library's own kernels begin with AWAIT (kernels/gpu/cuda.h), which lets the kernel behind start, and
 * waits until the kernel in front has ended and what it has written is visible. So a kernel may be brought onto the device
 * while the one in front of it runs out: before its wait it touches no memory that others do.
 *
 * The wait is for the one kernel in front alone. That covers all before it: a kernel that was itself started early ends
 * only after its own wait, thus after the end of the one in front of it, and what has become visible to it is visible
 * to those that see what it has written. This goes back to a kernel that was started in the ordinary way, after the full
 * end of all that it is ordered behind (the first of a list, one behind several in a graph, and every user's kernel,
 * since a user's text does not wait), or to the first of a list whose stream had nothing to do or to wait for. In front of
 * a kernel that awaits a user's may stand: it lets the next one start by its end. */
#include <inttypes.h>
#include <string.h>

#include "backend/cuda/state.h"

/* Local memory, declared and dynamic, that a group of every kernel may have without being set up for it. */
static const size_t local_by_default = 48 << 10;

static mlxn_status check_extents(const mlxn_cuda_state *state, const mlxn_record *record) {
    static const char *const axes[] = {"x", "y", "z"};
    for (int i = 0; i < 3; i++) {
        if (record->call.grid[i] > state->grid[i]) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT,
                             "%s: the grid has %" PRIu64 " groups in %s, the device's limit is %" PRIu64,
                             record->kernel->name, record->call.grid[i], axes[i], state->grid[i]);
        }
        if (record->group[i] > state->group[i]) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT,
                             "%s: the group has %" PRIu32 " threads in %s, the device's limit is %" PRIu64,
                             record->kernel->name, record->group[i], axes[i], state->group[i]);
        }
    }
    return MLXN_OK;
}

static mlxn_status check_arguments(const mlxn_cuda_kernel *kernel, const mlxn_record *record) {
    const uint32_t given = record->slice_count + (record->constant_bytes > 0 ? 1 : 0);
    if (!kernel->arguments_known) {
        return MLXN_OK;
    }
    if (kernel->argument_count != given) {
        return mlxn_fail(
            MLXN_INVALID_ARGUMENT,
            "%s: the kernel takes %s%" PRIu32 " arguments, the dispatch gives %" PRIu32 ": %" PRIu32 " buffers%s",
            record->kernel->name, kernel->argument_count > MAX_ARGUMENTS ? "at least " : "", kernel->argument_count,
            given, record->slice_count, record->constant_bytes > 0 ? " and constants" : "");
    }
    for (uint32_t i = 0; i < given; i++) {
        const size_t bytes = i < record->slice_count ? sizeof(CUdeviceptr) : record->constant_bytes;
        if (kernel->argument_bytes[i] != bytes) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: argument %" PRIu32 " of the kernel has %zu bytes, %s has %zu",
                             record->kernel->name, i, kernel->argument_bytes[i],
                             i < record->slice_count ? "a buffer's address" : "the constants", bytes);
        }
    }
    return MLXN_OK;
}

/* What groups are given local memory in, at most: 128 bytes, or 256 before compute capability 8.0. */
enum { LOCAL_UNIT = 256 };

/* Dynamic local memory of a group. What no group uses keeps others out. */
static size_t local_of(const mlxn_cuda_state *state, const mlxn_cuda_kernel *kernel, const mlxn_record *record) {
    if (record->resident_groups == 0) {
        return record->local_bytes;
    }
    const size_t share = (size_t)state->processor_local / record->resident_groups / LOCAL_UNIT * LOCAL_UNIT;
    const size_t taken = (size_t)state->reserved_local + kernel->local_bytes;
    const size_t bytes = share > taken + record->local_bytes ? share - taken : record->local_bytes;
    return bytes < kernel->local_most ? bytes : kernel->local_most;
}

mlxn_status mlxn_cuda_check_launch(mlxn_cuda_state *state, const mlxn_record *record) {
    mlxn_cuda_kernel *kernel = record->kernel->compiled;
    mlxn_status status = check_extents(state, record);
    if (status == MLXN_OK) {
        status = check_arguments(kernel, record);
    }
    if (status != MLXN_OK) {
        return status;
    }
    const uint64_t threads = (uint64_t)record->group[0] * record->group[1] * record->group[2];
    if (threads == 0 || threads > kernel->threads) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: the group has %" PRIu64 " threads, expected 1 to %" PRIu64,
                         record->kernel->name, threads, kernel->threads);
    }
    if (record->local_bytes > kernel->local_most) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT,
                         "%s: the group has %" PRIu32 " bytes of local memory, expected at most %zu",
                         record->kernel->name, record->local_bytes, kernel->local_most);
    }
    const size_t local = local_of(state, kernel, record);
    if (kernel->local_bytes + local > local_by_default && local > kernel->local_allowed) {
        status =
            CU(state, FuncSetAttribute, kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)local);
        if (status == MLXN_OK) {
            kernel->local_allowed = local;
        }
    }
    return status;
}

/* Points `arguments` to those of the dispatch. A kernel whose arguments are not known gets spare ones behind them. */
static void **collect(mlxn_cuda_state *state, const mlxn_cuda_kernel *kernel, const mlxn_record *record,
                      void *arguments[MAX_ARGUMENTS]) {
    void *constants = (void *)(uintptr_t)record->call.constants;
    if (!kernel->arguments_known) {
        arguments = state->spare->arguments;
        for (size_t i = 0; i < MAX_ARGUMENTS; i++) {
            arguments[i] = state->spare->bytes; /* the others always are */
        }
        memcpy(state->spare->bytes, constants, record->constant_bytes);
        constants = state->spare->bytes;
    }
    for (uint32_t i = 0; i < record->slice_count; i++) {
        arguments[i] = (void *)(uintptr_t)&record->call.buffers[i];
    }
    if (record->constant_bytes > 0) {
        arguments[record->slice_count] = constants;
    }
    return arguments;
}

bool mlxn_cuda_awaits(const mlxn_record *record) {
    const mlxn_cuda_kernel *kernel = record->kernel->compiled;
    return kernel->awaits;
}

static CUresult launch_early(const mlxn_cuda_state *state, const mlxn_cuda_kernel *kernel, const mlxn_record *record,
                             CUstream stream, void **arguments) {
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value = {.programmatic = 1}};
    CUlaunchConfig launch = {.local_bytes = (unsigned)local_of(state, kernel, record),
                             .stream = stream,
                             .attributes = &attribute,
                             .attribute_count = 1};
    for (int i = 0; i < 3; i++) {
        launch.grid[i] = (unsigned)record->call.grid[i];
        launch.group[i] = record->group[i];
    }
    return mlxn_cuda.LaunchKernelEx(&launch, kernel->function, arguments, NULL);
}

CUresult mlxn_cuda_launch(mlxn_cuda_state *state, const mlxn_record *record, CUstream stream, bool early) {
    const mlxn_cuda_kernel *kernel = record->kernel->compiled;
    const uint64_t *grid = record->call.grid;
    const uint32_t *group = record->group;
    void *space[MAX_ARGUMENTS];
    void **arguments = collect(state, kernel, record, space);
    early = early && state->early_launches && kernel->awaits;
    if (early && launch_early(state, kernel, record, stream, arguments) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    const CUresult result =
        mlxn_cuda.LaunchKernel(kernel->function, (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2], group[0],
                               group[1], group[2], (unsigned)local_of(state, kernel, record), stream, arguments, NULL);
    if (early && result == CUDA_SUCCESS) {
        state->early_launches = false; /* early is what the driver does not do */
    }
    return result;
}

CUresult mlxn_cuda_add_node(mlxn_cuda_state *state, const mlxn_record *record, CUgraph graph, const CUgraphNode *after,
                            size_t after_count, CUgraphNode *node) {
    const mlxn_cuda_kernel *kernel = record->kernel->compiled;
    void *arguments[MAX_ARGUMENTS];
    CUDA_KERNEL_NODE_PARAMS parameters = {.function = kernel->function,
                                          .local_bytes = (unsigned)local_of(state, kernel, record),
                                          .arguments = collect(state, kernel, record, arguments)};
    for (int i = 0; i < 3; i++) {
        parameters.grid[i] = (unsigned)record->call.grid[i];
        parameters.group[i] = record->group[i];
    }
    return mlxn_cuda.GraphAddKernelNode(node, graph, after_count > 0 ? after : NULL, after_count, &parameters);
}

CUresult mlxn_cuda_add_early_node(mlxn_cuda_state *state, const mlxn_record *record, CUgraph graph, CUgraphNode after,
                                  CUgraphNode *node) {
    static const CUgraphEdgeData early = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                          .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    const CUresult result = mlxn_cuda_add_node(state, record, graph, NULL, 0, node);
    return result == CUDA_SUCCESS ? mlxn_cuda.GraphAddDependencies(graph, &after, node, &early, 1) : result;
}
