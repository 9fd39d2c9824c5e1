/* Executing lists on an OpenCL device. The queue is in order, which is more than barriers ask for. */
#include <inttypes.h>
#include <string.h>

#include "backend/opencl/opencl.h"

/* ---- checks --------------------------------------------------------------------------------------- */

/* Fails if the dispatch is more than the device or the kernel can do. */
static mlxn_status check(const mlxn_device *device, const mlxn_record *record) {
    const mlxn_opencl_state *state = device->state;
    const mlxn_opencl_kernel *compiled = record->kernel->compiled;
    const char *device_name = device->info.name, *name = record->kernel->name;
    const uint32_t *group = record->group;
    const cl_uint arguments =
        2 * record->slice_count + (record->constant_bytes > 0 ? 1 : 0) + (record->local_bytes > 0 ? 1 : 0);
    if (arguments != compiled->arguments) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT,
                         "%s: %.80s takes %u arguments, and the dispatch gives %u: two for each of %u buffers, one if "
                         "there are constants, one if there is local memory",
                         device_name, name, compiled->arguments, arguments, record->slice_count);
    }
    uint64_t threads = 1;
    for (size_t i = 0; i < 3; i++) {
        if (group[i] > state->most_threads_of[i] || (compiled->group[0] > 0 && group[i] != compiled->group[i])) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %.80s: extent %zu of the group is %u, expected %s %zu",
                             device_name, name, i, group[i], compiled->group[0] > 0 ? "the kernel's" : "at most",
                             compiled->group[0] > 0 ? compiled->group[i] : state->most_threads_of[i]);
        }
        size_t extent;
        if (__builtin_mul_overflow(record->call.grid[i], group[i], &extent)) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT,
                             "%s: %.80s: extent %zu of the grid, %" PRIu64 " groups of %u, is more threads than fit",
                             device_name, name, i, record->call.grid[i], group[i]);
        }
        threads *= group[i]; /* cannot overflow: extents are checked, and the product before them */
        if (threads > compiled->most_threads) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT,
                             "%s: %.80s: a group of %u x %u x %u threads, expected at most %zu threads", device_name,
                             name, group[0], group[1], group[2], compiled->most_threads);
        }
    }
    if (record->groups > UINT32_MAX) { /* which drivers count in 32 bits: PoCL ends the process */
        return mlxn_fail(
            MLXN_INVALID_ARGUMENT,
            "%s: %.80s: a grid of %" PRIu64 " x %" PRIu64 " x %" PRIu64 " groups, expected at most %u groups in all",
            device_name, name, record->call.grid[0], record->call.grid[1], record->call.grid[2], UINT32_MAX);
    }
    if (compiled->local_bytes + record->local_bytes > device->local_bytes) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT,
                         "%s: %.80s: %u bytes of local memory besides the kernel's %" PRIu64
                         ", expected at most %zu together",
                         device_name, name, record->local_bytes, compiled->local_bytes, device->local_bytes);
    }
    return record->kernel->built_in ? MLXN_OK : mlxn_opencl_check_arguments(device, record);
}

/* ---- one dispatch --------------------------------------------------------------------------------- */

static cl_int set_all(const mlxn_record *record, cl_kernel kernel) {
    cl_uint index = 0;
    cl_int error = CL_SUCCESS;
    for (uint32_t i = 0; i < record->slice_count && error == CL_SUCCESS; i++) {
        const mlxn_slice *slice = &record->slices[i];
        const cl_mem memory = slice->storage->memory.handle;
        const cl_ulong offset = slice->offset;
        error = mlxn_cl.SetKernelArg(kernel, index++, sizeof memory, &memory);
        if (error == CL_SUCCESS) {
            error = mlxn_cl.SetKernelArg(kernel, index++, sizeof offset, &offset);
        }
    }
    if (error == CL_SUCCESS && record->constant_bytes > 0) {
        error = mlxn_cl.SetKernelArg(kernel, index++, record->constant_bytes, record->call.constants);
    }
    if (error == CL_SUCCESS && record->local_bytes > 0) {
        error = mlxn_cl.SetKernelArg(kernel, index, record->local_bytes, NULL);
    }
    return error;
}

/* The failure of an enqueueing function: arguments and sizes that do not suit are the caller's. */
static mlxn_status refused(const mlxn_device *device, const char *function, const char *name, cl_int error) {
    /* From CL_INVALID_ARG_INDEX by way of the group's sizes to the offset of the grid: -49 to -56. */
    const bool callers = error <= CL_INVALID_ARG_INDEX && error >= CL_INVALID_GLOBAL_OFFSET;
    return callers || error == CL_INVALID_GLOBAL_WORK_SIZE
               ? mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s for %.80s gave %s (%d)", device->info.name, function, name,
                           mlxn_opencl_error(error), (int)error)
               : mlxn_opencl_failed(device, function, name, error);
}

mlxn_status mlxn_opencl_set_arguments(const mlxn_device *device, const mlxn_record *record) {
    const mlxn_opencl_kernel *compiled = record->kernel->compiled;
    const cl_int error = set_all(record, compiled->kernel);
    return error == CL_SUCCESS ? MLXN_OK : refused(device, "clSetKernelArg", record->kernel->name, error);
}

/* `after`, unless NULL, is an event that comes earlier in the queue: the dispatch fails if that has failed. */
static mlxn_status enqueue(mlxn_device *device, const mlxn_record *record, cl_command_queue queue, cl_event after,
                           cl_event *event) {
    const mlxn_opencl_kernel *compiled = record->kernel->compiled;
    const mlxn_status status = mlxn_opencl_set_arguments(device, record);
    if (status != MLXN_OK) {
        return status;
    }
    const uint64_t *grid = record->call.grid;
    const size_t local[3] = {record->group[0], record->group[1], record->group[2]};
    const size_t global[3] = {grid[0] * local[0], grid[1] * local[1], grid[2] * local[2]};
    const cl_uint dimensions = global[2] > 1 ? 3 : global[1] > 1 ? 2 : 1;
    const cl_int error = mlxn_cl.EnqueueNDRangeKernel(queue, compiled->kernel, dimensions, NULL, global, local,
                                                      after != NULL ? 1 : 0, after != NULL ? &after : NULL, event);
    return error == CL_SUCCESS ? MLXN_OK : refused(device, "clEnqueueNDRangeKernel", record->kernel->name, error);
}

/* Waits for an event and releases it. `of` names its work. */
static mlxn_status finish_event(const mlxn_device *device, cl_event event, const char *of) {
    const cl_int error = mlxn_cl.WaitForEvents(1, &event);
    cl_int result = CL_COMPLETE; /* the event's own status tells more */
    mlxn_cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof result, &result, NULL);
    mlxn_cl.ReleaseEvent(event);
    if (error == CL_SUCCESS && result >= 0) {
        return MLXN_OK;
    }
    const cl_int reason = result < 0 ? result : error;
    return mlxn_fail(MLXN_DEVICE_FAILED, "%s: executing %.80s gave %s (%d)", device->info.name, of,
                     mlxn_opencl_error(reason), (int)reason);
}

/* ---- lists ---------------------------------------------------------------------------------------- */

static const char *last_name(const mlxn_list *list) {
    return list->count > 0 ? list->records[list->count - 1]->kernel->name : "an empty list";
}

/* list->state is the event of the last dispatch of the list's last commit. It ends after all of the list's work, and the
 * last dispatch of a commit waits for the event of the commit before, so that no failure is lost. */
static mlxn_status run(mlxn_device *device, mlxn_list *list) {
    const mlxn_opencl_state *state = device->state;
    const size_t last = list->count - 1;
    cl_event event = NULL;
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; i < last && status == MLXN_OK; i++) {
        status = enqueue(device, list->records[i], state->work, NULL, NULL);
    }
    if (status == MLXN_OK) {
        status = enqueue(device, list->records[last], state->work, list->state, &event);
    }
    if (status != MLXN_OK) {
        mlxn_cl.Finish(state->work); /* nothing of the list is in flight that wait would not know of */
        return status;
    }
    if (list->state != NULL) {
        mlxn_cl.ReleaseEvent(list->state);
    }
    list->state = event;
    const cl_int error = mlxn_cl.Flush(state->work);
    return error == CL_SUCCESS ? MLXN_OK : mlxn_opencl_failed(device, "clFlush", last_name(list), error);
}

/* Runs one dispatch after the other on a queue that measures, and waits for each. */
static mlxn_status run_timed(mlxn_device *device, mlxn_list *list) {
    mlxn_opencl_state *state = device->state;
    cl_int error = CL_SUCCESS;
    if (state->timing == NULL) {
        state->timing = mlxn_cl.CreateCommandQueue(state->context, state->device, CL_QUEUE_PROFILING_ENABLE, &error);
        if (state->timing == NULL) {
            return mlxn_opencl_failed(device, "clCreateCommandQueue", "an encoder with timing", error);
        }
    }
    error = mlxn_cl.Finish(state->work);
    if (error != CL_SUCCESS) {
        return mlxn_opencl_failed(device, "clFinish", "work committed earlier", error);
    }
    for (size_t i = 0; i < list->count; i++) {
        mlxn_record *record = list->records[i];
        cl_event event = NULL;
        mlxn_status status = enqueue(device, record, state->timing, NULL, &event);
        if (status != MLXN_OK) {
            return status;
        }
        mlxn_cl.WaitForEvents(1, &event);
        cl_ulong begin = 0, end = 0;
        mlxn_cl.GetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, NULL);
        mlxn_cl.GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
        record->nanoseconds = end > begin ? end - begin : 0;
        status = finish_event(device, event, record->kernel->name);
        if (status != MLXN_OK) {
            return status;
        }
    }
    return MLXN_OK;
}

mlxn_status mlxn_opencl_commit(mlxn_device *device, mlxn_list *list, bool timing) {
    mlxn_status status = mlxn_opencl_check_fork(device);
    for (size_t i = 0; i < list->count && status == MLXN_OK; i++) {
        status = check(device, list->records[i]);
    }
    if (status != MLXN_OK || list->count == 0) {
        return status;
    }
    return timing ? run_timed(device, list) : run(device, list);
}

mlxn_status mlxn_opencl_wait(mlxn_device *device, mlxn_list *list) {
    const mlxn_status status = mlxn_opencl_check_fork(device);
    const cl_event event = list->state;
    if (status != MLXN_OK || event == NULL) {
        return status;
    }
    list->state = NULL;
    return finish_event(device, event, last_name(list));
}

/* An event is left only in a forked child, where it is not ours to release. */
void mlxn_opencl_forget(mlxn_device *device, mlxn_list *list) {
    (void)device;
    list->state = NULL;
}
