/* OpenCL devices: opening, memory and copies. compile.c makes kernels and run.c executes lists. */
#include "backend/opencl/opencl.h"

#include <stdlib.h>
#include <string.h>

#include "backend/opencl/devices.h"
#include "core/cache.h"
#include "core/op.h"

/* Addresses are made up: they only tell one byte of the device's memory from another. */
static const uintptr_t first_address = 256;

mlxn_status mlxn_opencl_failed(const mlxn_device *device, const char *function, const char *of, cl_int error) {
    return mlxn_fail(error == CL_OUT_OF_HOST_MEMORY || error == CL_MEM_OBJECT_ALLOCATION_FAILURE ? MLXN_OUT_OF_MEMORY
                                                                                                 : MLXN_DEVICE_FAILED,
                     "%s: %s for %.80s gave %s (%d)", device->info.name, function, of, mlxn_opencl_error(error),
                     (int)error);
}

mlxn_status mlxn_opencl_check_fork(const mlxn_device *device) {
    const mlxn_opencl_state *state = device->state;
    return state->forked
               ? mlxn_fail(MLXN_DEVICE_FAILED, "%s: the process has forked, and OpenCL does not work in the child",
                           device->info.name)
               : MLXN_OK;
}

/* ---- opening -------------------------------------------------------------------------------------- */

static mlxn_status choose_f64(mlxn_opencl_state *state) {
    const char *choice = getenv("MLXN_OPENCL_F64");
    const bool off = mlxn_opencl_f64_is_off();
    if (choice != NULL && choice[0] != '\0' && strcmp(choice, "on") != 0 && !off) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_device_open: MLXN_OPENCL_F64 is \"%.40s\", expected on or off",
                         choice);
    }
    state->f64 = state->f64 && !off;
    return MLXN_OK;
}

static cl_command_queue make_queue(mlxn_opencl_state *state, cl_int *error) {
    return *error == CL_SUCCESS ? mlxn_cl.CreateCommandQueue(state->context, state->device, 0, error) : NULL;
}

static void release_driver(mlxn_opencl_state *state) {
    const cl_command_queue queues[] = {state->work, state->memory, state->timing};
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        if (queues[i] != NULL) {
            mlxn_cl.ReleaseCommandQueue(queues[i]);
        }
    }
    if (state->context != NULL) {
        mlxn_cl.ReleaseContext(state->context);
    }
}

static mlxn_status open_driver(mlxn_device *device, mlxn_opencl_state *state) {
    cl_int error = CL_SUCCESS;
    state->context = mlxn_cl.CreateContext(
        (const cl_context_properties[]){CL_CONTEXT_PLATFORM, (cl_context_properties)state->platform, 0}, 1,
        &state->device, NULL, NULL, &error);
    if (state->context == NULL) {
        return mlxn_opencl_failed(device, "clCreateContext", "mlxn_device_open", error);
    }
    state->work = make_queue(state, &error);
    state->memory = make_queue(state, &error);
    if (state->work == NULL || state->memory == NULL) {
        return mlxn_opencl_failed(device, "clCreateCommandQueue", "mlxn_device_open", error);
    }
    state->most_threads = (size_t)mlxn_opencl_number(state->device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    error = mlxn_cl.GetDeviceInfo(state->device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof state->most_threads_of,
                                  state->most_threads_of, NULL);
    return error == CL_SUCCESS ? MLXN_OK : mlxn_opencl_failed(device, "clGetDeviceInfo", "mlxn_device_open", error);
}

static mlxn_status opencl_open(mlxn_device *device, size_t index, const mlxn_device_options *options) {
    const mlxn_opencl_entry *entry = mlxn_opencl_entry_at(index);
    mlxn_opencl_state *state = mlxn_allocate(&device->allocator, sizeof *state, _Alignof(mlxn_opencl_state));
    if (state == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "mlxn_device_open: no memory for the device");
    }
    *state = (mlxn_opencl_state){
        .platform = entry->platform, .device = entry->device, .f64 = entry->f64, .next_address = first_address};
    mlxn_status status = choose_f64(state);
    if (status == MLXN_OK) {
        status = open_driver(device, state);
    }
    if (status == MLXN_OK) {
        status = mlxn_op_add_gpu_kernels(device);
    }
    if (status != MLXN_OK) {
        release_driver(state);
        mlxn_free(&device->allocator, state, sizeof *state);
        return status;
    }
    device->state = state;
    mlxn_opencl_write_detail(entry, state->f64, &device->info);
    device->local_bytes = (size_t)mlxn_opencl_number(state->device, CL_DEVICE_LOCAL_MEM_SIZE);
    device->cache_folder = mlxn_cache_folder(&device->allocator, options);
    return MLXN_OK;
}

static void opencl_close(mlxn_device *device) {
    mlxn_opencl_state *state = device->state;
    if (!state->forked) {
        release_driver(state);
    }
    mlxn_free(&device->allocator, state, sizeof *state);
}

static void opencl_forked(mlxn_device *device) {
    mlxn_opencl_state *state = device->state;
    state->forked = true;
}

/* ---- memory --------------------------------------------------------------------------------------- */

/* Drivers have several names for memory that is lacking; some use the vaguest of them. */
static mlxn_status no_memory(const mlxn_device *device, const char *function, size_t bytes, cl_int error) {
    const bool lacking = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES ||
                         error == CL_OUT_OF_HOST_MEMORY || error == CL_INVALID_BUFFER_SIZE;
    return mlxn_fail(lacking ? MLXN_OUT_OF_MEMORY : MLXN_DEVICE_FAILED, "%s: %s of %zu bytes gave %s (%d)",
                     device->info.name, function, bytes, mlxn_opencl_error(error), (int)error);
}

/* Zeros, which also makes a driver that would wait for the first use find the memory now. In the longest units that there
 * are: NVIDIA's driver counts them in 32 bits, and writes elsewhere beyond. */
static cl_int fill(mlxn_opencl_state *state, cl_mem memory, size_t bytes) {
    static const unsigned char zeros[128];
    cl_event event = NULL;
    cl_int error = mlxn_cl.EnqueueFillBuffer(state->memory, memory, zeros, sizeof zeros, 0, bytes, 0, NULL, &event);
    if (error != CL_SUCCESS) {
        return error;
    }
    error = mlxn_cl.WaitForEvents(1, &event);
    cl_int result = CL_COMPLETE;
    mlxn_cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof result, &result, NULL);
    mlxn_cl.ReleaseEvent(event);
    return result < 0 ? result : error;
}

static mlxn_status opencl_allocate(mlxn_device *device, size_t bytes, mlxn_memory *memory) {
    mlxn_opencl_state *state = device->state;
    const mlxn_status status = mlxn_opencl_check_fork(device);
    if (status != MLXN_OK) {
        return status;
    }
    if (bytes > SIZE_MAX / 2) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "%s: no device has %zu bytes", device->info.name, bytes);
    }
    const size_t rounded = bytes > 0 ? (bytes + 255) / 256 * 256 : 256;
    cl_int error = CL_SUCCESS;
    const cl_mem handle = mlxn_cl.CreateBuffer(state->context, CL_MEM_READ_WRITE, rounded, NULL, &error);
    if (handle == NULL) {
        return no_memory(device, "clCreateBuffer", rounded, error);
    }
    error = fill(state, handle, rounded);
    if (error != CL_SUCCESS) {
        mlxn_cl.ReleaseMemObject(handle);
        return no_memory(device, "clEnqueueFillBuffer", rounded, error);
    }
    const uintptr_t address = atomic_fetch_add_explicit(&state->next_address, rounded, memory_order_relaxed);
    *memory = (mlxn_memory){.address = address, .bytes = bytes, .handle = handle};
    return MLXN_OK;
}

static void opencl_release(mlxn_device *device, mlxn_memory *memory) {
    const mlxn_opencl_state *state = device->state;
    if (!state->forked) {
        mlxn_cl.ReleaseMemObject(memory->handle);
    }
}

/* The queue is in order, so that a copy comes after all that was committed. */
static mlxn_status opencl_copy_out(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size,
                                   void *data) {
    mlxn_opencl_state *state = device->state;
    const mlxn_status status = mlxn_opencl_check_fork(device);
    if (status != MLXN_OK) {
        return status;
    }
    const cl_int error =
        mlxn_cl.EnqueueReadBuffer(state->work, memory->handle, CL_TRUE, offset, size, data, 0, NULL, NULL);
    return error == CL_SUCCESS ? MLXN_OK : mlxn_opencl_failed(device, "clEnqueueReadBuffer", "mlxn_buffer_read", error);
}

static mlxn_status opencl_copy_in(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size,
                                  const void *data) {
    mlxn_opencl_state *state = device->state;
    const mlxn_status status = mlxn_opencl_check_fork(device);
    if (status != MLXN_OK) {
        return status;
    }
    const cl_int error =
        mlxn_cl.EnqueueWriteBuffer(state->work, memory->handle, CL_TRUE, offset, size, data, 0, NULL, NULL);
    return error == CL_SUCCESS ? MLXN_OK
                               : mlxn_opencl_failed(device, "clEnqueueWriteBuffer", "mlxn_buffer_write", error);
}

extern const mlxn_backend mlxn_opencl_backend;
const mlxn_backend mlxn_opencl_backend = {
    .prefix = "opencl",
    .count = mlxn_opencl_count,
    .describe = mlxn_opencl_describe,
    .open = opencl_open,
    .close = opencl_close,
    .allocate = opencl_allocate,
    .release = opencl_release,
    .copy_out = opencl_copy_out,
    .copy_in = opencl_copy_in,
    .compile = mlxn_opencl_compile,
    .unload = mlxn_opencl_unload,
    .commit = mlxn_opencl_commit,
    .wait = mlxn_opencl_wait,
    .forget = mlxn_opencl_forget,
    .forked = opencl_forked,
};
