/* The CUDA device: the list of what is here, opening and closing. The other files of this folder do the work. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/state.h"
#include "core/cache.h"
#include "core/op.h"

enum { OLDEST_CAPABILITY = 70 };

/* The share of the device's memory that blocks that wait for reuse may have. */
enum { KEPT_SHARE = 4 };

static size_t cuda_count(void) {
    return mlxn_cuda_load() == NULL ? (size_t)mlxn_cuda_device_count() : 1;
}

static mlxn_status attribute(CUdevice device, int which, int *value) {
    return CU(NULL, DeviceGetAttribute, value, which, device);
}

static mlxn_status capability_of(CUdevice device, int *capability) {
    int major = 0, minor = 0;
    mlxn_status status = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major);
    if (status == MLXN_OK) {
        status = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor);
    }
    *capability = 10 * major + minor;
    return status;
}

/* Fills in what the driver tells without a context. Leaves a message where it fails. */
static mlxn_status ask(size_t index, mlxn_device_info *info, int *capability) {
    CUdevice device = 0;
    int processors = 0, mode = 0, cache = 0;
    size_t bytes = 0;
    mlxn_status status = CU(NULL, DeviceGet, &device, (int)index);
    if (status == MLXN_OK) {
        status = CU(NULL, DeviceGetName, info->description, (int)sizeof info->description, device);
    }
    if (status == MLXN_OK) {
        status = CU(NULL, DeviceTotalMem, &bytes, device);
    }
    if (status == MLXN_OK) {
        status = capability_of(device, capability);
    }
    if (status == MLXN_OK) {
        status = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors);
    }
    if (status == MLXN_OK) {
        status = attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &cache);
    }
    if (status == MLXN_OK) {
        status = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &mode);
    }
    if (status != MLXN_OK) {
        return status;
    }
    const int version = mlxn_cuda_version();
    info->cache_bytes = cache > 0 ? (uint64_t)cache : 0;
    snprintf(info->detail, sizeof info->detail, "CUDA %d.%d, sm_%d, %d multiprocessors, %zu GiB", version / 1000,
             version % 1000 / 10, *capability, processors, bytes >> 30);
    if (mode == CU_COMPUTEMODE_PROHIBITED) {
        return mlxn_fail(MLXN_UNSUPPORTED, "the device's compute mode prohibits its use");
    }
    if (*capability < OLDEST_CAPABILITY) {
        return mlxn_fail(MLXN_UNSUPPORTED, "the device's compute capability is %d.%d, expected at least %d.%d",
                         *capability / 10, *capability % 10, OLDEST_CAPABILITY / 10, OLDEST_CAPABILITY % 10);
    }
    return MLXN_OK;
}

static void cuda_describe(size_t index, mlxn_device_info *info) {
    const char *reason = mlxn_cuda_load();
    info->gpu = true;
    if (reason != NULL) {
        snprintf(info->name, sizeof info->name, "cuda");
        snprintf(info->reason, sizeof info->reason, "%s", reason);
        return;
    }
    snprintf(info->name, sizeof info->name, "cuda:%zu", index);
    if (mlxn_cuda_forked()) {
        snprintf(info->reason, sizeof info->reason, "the process has forked since CUDA was started");
        return;
    }
    int capability;
    info->available = ask(index, info, &capability) == MLXN_OK;
    if (!info->available) {
        snprintf(info->reason, sizeof info->reason, "%.150s", mlxn_last_error());
    }
}

/* The device's limits. */
static mlxn_status read_limits(mlxn_device *device, mlxn_cuda_state *state) {
    int local = 0;
    size_t bytes = 0;
    mlxn_status status = capability_of(state->device, &state->capability);
    for (int i = 0; status == MLXN_OK && i < 3; i++) {
        int grid = 0, group = 0;
        status = attribute(state->device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i, &grid);
        if (status == MLXN_OK) {
            status = attribute(state->device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i, &group);
        }
        state->grid[i] = (uint64_t)grid;
        state->group[i] = (uint64_t)group;
    }
    if (status == MLXN_OK) {
        status = attribute(state->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &local);
    }
    if (status == MLXN_OK) {
        status = attribute(state->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &state->processors);
    }
    if (status == MLXN_OK) {
        status =
            attribute(state->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &state->processor_local);
    }
    if (status == MLXN_OK) {
        status = attribute(state->device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, &state->reserved_local);
    }
    if (status == MLXN_OK) {
        status = CU(state, DeviceTotalMem, &bytes, state->device);
    }
    device->local_bytes = (size_t)local;
    state->early_launches = mlxn_cuda.LaunchKernelEx != NULL;
    state->early_edges = mlxn_cuda.GraphAddDependencies != NULL;
    state->blocks_most = bytes / KEPT_SHARE;
    return status;
}

/* With the context current. */
static mlxn_status make_streams(mlxn_cuda_state *state) {
    mlxn_status status = MLXN_OK;
    for (int i = 0; status == MLXN_OK && i < STREAMS; i++) {
        status = CU(state, StreamCreate, &state->streams[i].stream, CU_STREAM_NON_BLOCKING);
        if (status == MLXN_OK) {
            status = CU(state, EventCreate, &state->streams[i].event, CU_EVENT_DISABLE_TIMING);
        }
    }
    return status;
}

/* With the context current. */
static void close_streams(mlxn_cuda_state *state) {
    for (int i = 0; i < STREAMS; i++) {
        if (state->streams[i].event != NULL) {
            mlxn_cuda.EventDestroy(state->streams[i].event);
        }
        if (state->streams[i].stream != NULL) {
            mlxn_cuda.StreamDestroy(state->streams[i].stream);
        }
    }
}

/* What the driver has of the device. The context is retained first and given up last, so that it is there in between. */
static mlxn_status open_context(mlxn_cuda_state *state) {
    mlxn_status status = CU(state, DevicePrimaryCtxRetain, &state->context, state->device);
    if (status != MLXN_OK) {
        return status;
    }
    status = mlxn_cuda_enter(state);
    if (status == MLXN_OK) {
        status = make_streams(state);
        if (status != MLXN_OK) {
            close_streams(state);
        }
        mlxn_cuda_leave();
    }
    if (status != MLXN_OK) {
        mlxn_cuda.DevicePrimaryCtxRelease(state->device);
    }
    return status;
}

/* Where the device does not get as far as having nothing to do, what it may be at work on is left to the context's end. */
static void close_context(mlxn_device *device, mlxn_cuda_state *state) {
    const bool entered = mlxn_cuda_enter(state) == MLXN_OK;
    const bool idle = entered && mlxn_cuda_finish_all(state) == MLXN_OK;
    mlxn_cuda_free_lists(device, idle);
    if (idle) {
        mlxn_cuda_release_cached(state);
        mlxn_cuda_close_staging(state);
        close_streams(state);
    }
    if (entered) {
        mlxn_cuda_leave();
    }
    mlxn_cuda.DevicePrimaryCtxRelease(state->device);
}

/* Room for arguments that a kernel may have beyond the dispatch's, where the driver does not tell. */
static bool make_spare(const mlxn_allocator *allocator, mlxn_cuda_state *state) {
    if (mlxn_cuda.FuncGetParamInfo != NULL) {
        return true;
    }
    state->spare = mlxn_allocate_zeroed(allocator, sizeof *state->spare);
    for (size_t i = 0; state->spare != NULL && i < sizeof state->spare->arguments / sizeof(void *); i++) {
        state->spare->arguments[i] = state->spare->bytes;
    }
    return state->spare != NULL;
}

static void free_state(const mlxn_allocator *allocator, mlxn_cuda_state *state) {
    mlxn_free(allocator, state->blocks, state->block_capacity * sizeof *state->blocks);
    mlxn_free(allocator, state->spare, sizeof *state->spare);
    pthread_mutex_destroy(&state->lock);
    mlxn_free(allocator, state, sizeof *state);
}

static mlxn_status cuda_open(mlxn_device *device, size_t index, const mlxn_device_options *options) {
    mlxn_cuda_state *state = mlxn_allocate_zeroed(&device->allocator, sizeof *state);
    if (state == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "mlxn_device_open: no memory for the device");
    }
    pthread_mutex_init(&state->lock, NULL);
    mlxn_status status = make_spare(&device->allocator, state)
                             ? CU(state, DeviceGet, &state->device, (int)index)
                             : mlxn_fail(MLXN_OUT_OF_MEMORY, "mlxn_device_open: no memory for the device");
    if (status == MLXN_OK) {
        status = read_limits(device, state);
    }
    if (status == MLXN_OK) {
        status = mlxn_op_add_gpu_kernels(device);
    }
    if (status == MLXN_OK) {
        status = open_context(state);
    }
    if (status != MLXN_OK) {
        free_state(&device->allocator, state);
        return status;
    }
    device->cache_folder = mlxn_cache_folder(&device->allocator, options);
    device->state = state;
    return MLXN_OK;
}

static void cuda_close(mlxn_device *device) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    if (mlxn_cuda_forked()) {
        mlxn_cuda_free_lists(device, false);
    } else {
        close_context(device, state);
    }
    free_state(&device->allocator, state);
}

/* Another thread may have held the lock. */
static void cuda_forked(mlxn_device *device) {
    pthread_mutex_init(&mlxn_cuda_state_of(device)->lock, NULL);
}

extern const mlxn_backend mlxn_cuda_backend;
const mlxn_backend mlxn_cuda_backend = {
    .prefix = "cuda",
    .count = cuda_count,
    .describe = cuda_describe,
    .open = cuda_open,
    .close = cuda_close,
    .allocate = mlxn_cuda_allocate,
    .release = mlxn_cuda_release,
    .copy_out = mlxn_cuda_copy_out,
    .copy_in = mlxn_cuda_copy_in,
    .compile = mlxn_cuda_compile,
    .unload = mlxn_cuda_unload,
    .commit = mlxn_cuda_commit,
    .wait = mlxn_cuda_wait,
    .forget = mlxn_cuda_forget,
    .forked = cuda_forked,
};
