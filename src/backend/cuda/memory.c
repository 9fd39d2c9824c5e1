/* Memory of the device, and the blocks that are kept for reuse: asking the driver for memory and giving it back costs
 * as much as many kernels. Filling with zeros is work on the copy stream. A block that comes back is free of the work of
 * lists, since its storage lived as long as that; copies and fills of it may be in flight, but these are on the copy
 * stream, as is the fill that precedes its next use. */
#include "backend/cuda/state.h"

enum { ALIGNMENT = 256 };
static const size_t smallest = 512, large_from = (size_t)1 << 20, large_step = (size_t)2 << 20;

/* What is asked of the driver for `bytes`: the next power of two, or for large ones the next multiple of 2 MB, which is
 * what the driver's own pages are. 0 if there is no such number. */
static size_t block_bytes(size_t bytes) {
    if (bytes > large_from) {
        return bytes <= SIZE_MAX - large_step ? (bytes + large_step - 1) / large_step * large_step : 0;
    }
    size_t size = smallest;
    while (size < bytes) {
        size *= 2;
    }
    return size;
}

/* A block of exactly that size, the last one that came back, or 0. With the lock held. */
static CUdeviceptr take_block(mlxn_cuda_state *state, size_t bytes) {
    for (size_t i = state->block_count; i-- > 0;) {
        if (state->blocks[i].bytes == bytes) {
            const CUdeviceptr address = state->blocks[i].address;
            state->blocks[i] = state->blocks[--state->block_count];
            state->blocks_bytes -= bytes;
            return address;
        }
    }
    return 0;
}

/* Room for one more block. At every moment the list is whole, since a fork copies what it finds. With the lock held. */
static bool make_room(mlxn_device *device, mlxn_cuda_state *state) {
    enum { MOST_BLOCKS = 4096 };
    if (state->block_count < state->block_capacity) {
        return true;
    }
    if (state->block_capacity == MOST_BLOCKS) {
        return false;
    }
    const size_t larger = state->block_capacity > 0 ? 2 * state->block_capacity : 64;
    mlxn_cuda_block *grown = mlxn_allocate(&device->allocator, larger * sizeof *grown, _Alignof(mlxn_cuda_block));
    if (grown == NULL) {
        return false;
    }
    for (size_t i = 0; i < state->block_count; i++) {
        grown[i] = state->blocks[i];
    }
    mlxn_cuda_block *before = state->blocks;
    const size_t bytes = state->block_capacity * sizeof *before;
    state->blocks = grown;
    state->block_capacity = larger;
    mlxn_free(&device->allocator, before, bytes);
    return true;
}

void mlxn_cuda_release_cached(mlxn_cuda_state *state) {
    if (mlxn_cuda_finish_all(state) != MLXN_OK) {
        return;
    }
    pthread_mutex_lock(&state->lock);
    while (state->block_count > 0) {
        mlxn_cuda_block *last = &state->blocks[--state->block_count];
        state->blocks_bytes -= last->bytes;
        /* There is nobody to tell of an error, and the next call will meet the same. */
        mlxn_cuda.MemFree(last->address);
    }
    pthread_mutex_unlock(&state->lock);
}

static mlxn_status new_block(mlxn_cuda_state *state, size_t bytes, CUdeviceptr *address) {
    CUresult result = mlxn_cuda.MemAlloc(address, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        mlxn_cuda_release_cached(state);
        result = mlxn_cuda.MemAlloc(address, bytes);
    }
    return mlxn_cuda_check(state, "cuMemAlloc", result);
}

/* Zeros, up to where kernels may read. */
static mlxn_status fill(mlxn_cuda_state *state, CUdeviceptr address, size_t bytes) {
    const size_t filled = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (filled == 0) {
        return MLXN_OK;
    }
    mlxn_cuda_ranges ranges = {0};
    mlxn_cuda_add_range(&ranges, (uintptr_t)address, (uintptr_t)address + filled, true);
    pthread_mutex_lock(&state->lock);
    const mlxn_status status = CU(state, MemsetD32Async, address, 0, filled / 4, state->streams[COPY_STREAM].stream);
    if (status == MLXN_OK) {
        mlxn_cuda_issued(state, COPY_STREAM, &ranges);
    }
    pthread_mutex_unlock(&state->lock);
    return status;
}

mlxn_status mlxn_cuda_allocate(mlxn_device *device, size_t bytes, mlxn_memory *memory) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    const size_t size = block_bytes(bytes);
    mlxn_status status = mlxn_cuda_usable(state);
    if (status != MLXN_OK) {
        return status;
    }
    if (size == 0) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "cuda:%d has no %zu bytes", state->device, bytes);
    }
    status = mlxn_cuda_enter(state);
    if (status != MLXN_OK) {
        return status;
    }
    pthread_mutex_lock(&state->lock);
    CUdeviceptr address = take_block(state, size);
    pthread_mutex_unlock(&state->lock);
    if (address == 0) {
        status = new_block(state, size, &address);
    }
    if (status == MLXN_OK) {
        status = fill(state, address, bytes);
        if (status != MLXN_OK) {
            mlxn_cuda.MemFree(address);
        }
    }
    mlxn_cuda_leave();
    if (status == MLXN_OK) {
        *memory = (mlxn_memory){.address = (uintptr_t)address, .bytes = bytes};
    }
    return status;
}

void mlxn_cuda_release(mlxn_device *device, mlxn_memory *memory) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    if (mlxn_cuda_forked() || atomic_load(&state->broken) != 0) {
        return;
    }
    const size_t size = block_bytes(memory->bytes);
    pthread_mutex_lock(&state->lock);
    const bool kept = size <= state->blocks_most - state->blocks_bytes && make_room(device, state);
    if (kept) {
        state->blocks[state->block_count++] = (mlxn_cuda_block){memory->address, size};
        state->blocks_bytes += size;
    }
    pthread_mutex_unlock(&state->lock);
    if (!kept && mlxn_cuda_enter(state) == MLXN_OK) {
        if (mlxn_cuda_finish(state, COPY_STREAM) == MLXN_OK) {
            mlxn_cuda.MemFree(memory->address);
        }
        mlxn_cuda_leave();
    }
}
