/* Copies between the device and the host. Small ones go straight: the driver takes care of memory that is not pinned.
 * Large ones go through two halves of pinned memory, one of which the device transfers while the host copies the other. */
#include <string.h>

#include "backend/cuda/state.h"

static const size_t straight_below = (size_t)128 << 10, smallest_piece = (size_t)512 << 10;
static const size_t half_bytes = (size_t)8 << 20;

/* Pinned memory, made when it is first needed. False if there is none to be had. */
static bool have_staging(mlxn_cuda_state *state) {
    if (state->halves[0].memory != NULL || state->staging_failed) {
        return !state->staging_failed;
    }
    void *memory = NULL;
    state->staging_failed = mlxn_cuda.MemHostAlloc(&memory, 2 * half_bytes, 0) != CUDA_SUCCESS;
    for (int i = 0; i < 2 && !state->staging_failed; i++) {
        state->staging_failed = mlxn_cuda.EventCreate(&state->halves[i].event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS;
    }
    if (state->staging_failed && memory != NULL) {
        state->halves[0].memory = memory;
        mlxn_cuda_close_staging(state);
    } else if (!state->staging_failed) {
        state->halves[0].memory = memory;
        state->halves[1].memory = (char *)memory + half_bytes;
    }
    return !state->staging_failed;
}

void mlxn_cuda_close_staging(mlxn_cuda_state *state) {
    for (int i = 0; i < 2; i++) {
        if (state->halves[i].event != NULL) {
            mlxn_cuda.EventDestroy(state->halves[i].event);
        }
    }
    if (state->halves[0].memory != NULL) {
        mlxn_cuda.MemFreeHost(state->halves[0].memory);
    }
    memset(state->halves, 0, sizeof state->halves);
}

static size_t piece_bytes(size_t size) {
    const size_t quarter = (size / 4 + 4095) & ~(size_t)4095;
    return quarter < smallest_piece ? smallest_piece : quarter < half_bytes ? quarter : half_bytes;
}

/* Waits until the device is done with a half. */
static mlxn_status wait_for_half(mlxn_cuda_state *state, mlxn_cuda_half *half) {
    const mlxn_status status = half->busy ? CU(state, EventSynchronize, half->event) : MLXN_OK;
    half->busy = half->busy && status != MLXN_OK;
    return status;
}

static mlxn_status mark_half(mlxn_cuda_state *state, mlxn_cuda_half *half) {
    const mlxn_status status = CU(state, EventRecord, half->event, state->streams[COPY_STREAM].stream);
    half->busy = status == MLXN_OK;
    return status;
}

/* One piece from the device into a half. */
static mlxn_status fetch(mlxn_cuda_state *state, mlxn_cuda_half *half, CUdeviceptr from, size_t bytes) {
    mlxn_status status = wait_for_half(state, half);
    if (status == MLXN_OK) {
        status = CU(state, MemcpyDtoHAsync, half->memory, from, bytes, state->streams[COPY_STREAM].stream);
    }
    return status == MLXN_OK ? mark_half(state, half) : status;
}

static size_t lesser(size_t a, size_t b) {
    return a < b ? a : b;
}

static mlxn_status out_in_pieces(mlxn_cuda_state *state, CUdeviceptr from, size_t size, char *to) {
    const size_t piece = piece_bytes(size);
    mlxn_status status = fetch(state, &state->halves[0], from, lesser(piece, size));
    int at = 0;
    for (size_t done = 0; status == MLXN_OK && done < size; done += piece, at = 1 - at) {
        const size_t next = done + piece;
        if (next < size) {
            status = fetch(state, &state->halves[1 - at], from + next, lesser(piece, size - next));
        }
        if (status == MLXN_OK) {
            status = wait_for_half(state, &state->halves[at]);
        }
        if (status == MLXN_OK) {
            memcpy(to + done, state->halves[at].memory, lesser(piece, size - done));
        }
    }
    return status;
}

static mlxn_status in_in_pieces(mlxn_cuda_state *state, CUdeviceptr to, size_t size, const char *from) {
    const size_t piece = piece_bytes(size);
    mlxn_status status = MLXN_OK;
    int at = 0;
    for (size_t done = 0; status == MLXN_OK && done < size; done += piece, at = 1 - at) {
        mlxn_cuda_half *half = &state->halves[at];
        const size_t bytes = lesser(piece, size - done);
        status = wait_for_half(state, half);
        if (status == MLXN_OK) {
            memcpy(half->memory, from + done, bytes);
            status = CU(state, MemcpyHtoDAsync, to + done, half->memory, bytes, state->streams[COPY_STREAM].stream);
        }
        if (status == MLXN_OK) {
            status = mark_half(state, half);
        }
    }
    return status;
}

/* What both directions begin with: the context is current, and the copy stream runs after what conflicts. */
static mlxn_status begin(mlxn_cuda_state *state, const mlxn_cuda_ranges *ranges) {
    mlxn_status status = mlxn_cuda_usable(state);
    if (status == MLXN_OK) {
        status = mlxn_cuda_enter(state);
    }
    if (status != MLXN_OK) {
        return status;
    }
    pthread_mutex_lock(&state->lock);
    status = mlxn_cuda_order(state, COPY_STREAM, ranges);
    pthread_mutex_unlock(&state->lock);
    if (status != MLXN_OK) {
        mlxn_cuda_leave();
    }
    return status;
}

mlxn_status mlxn_cuda_copy_out(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size, void *data) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    const uintptr_t from = memory->address + offset;
    mlxn_cuda_ranges ranges = {0};
    mlxn_cuda_add_range(&ranges, from, from + size, false);
    mlxn_status status = begin(state, &ranges);
    if (status != MLXN_OK) {
        return status;
    }
    const CUstream stream = state->streams[COPY_STREAM].stream;
    if (size > straight_below && have_staging(state)) {
        status = out_in_pieces(state, from, size, data);
    } else {
        status = CU(state, MemcpyDtoHAsync, data, from, size, stream);
    }
    /* Whatever has failed: nothing may write to the caller's memory once this has returned. */
    const mlxn_status finished = mlxn_cuda_finish(state, COPY_STREAM);
    mlxn_cuda_leave();
    return status == MLXN_OK ? finished : status;
}

mlxn_status mlxn_cuda_copy_in(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size,
                              const void *data) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    const uintptr_t to = memory->address + offset;
    mlxn_cuda_ranges ranges = {0};
    mlxn_cuda_add_range(&ranges, to, to + size, true);
    mlxn_status status = begin(state, &ranges);
    if (status != MLXN_OK) {
        return status;
    }
    const CUstream stream = state->streams[COPY_STREAM].stream;
    const bool staged = size > straight_below && have_staging(state);
    status = staged ? in_in_pieces(state, to, size, data) : CU(state, MemcpyHtoDAsync, to, data, size, stream);
    pthread_mutex_lock(&state->lock);
    mlxn_cuda_issued(state, COPY_STREAM, &ranges);
    pthread_mutex_unlock(&state->lock);
    if (!staged) {
        /* The caller may change its memory once this has returned. */
        const mlxn_status finished = mlxn_cuda_finish(state, COPY_STREAM);
        status = status == MLXN_OK ? finished : status;
    }
    mlxn_cuda_leave();
    return status;
}
