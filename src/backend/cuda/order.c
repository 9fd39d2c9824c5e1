/* Which work on one stream has to wait for work on another. */
#include "backend/cuda/state.h"

static bool overlap(const mlxn_cuda_range *a, const mlxn_cuda_range *b) {
    return a->begin < b->end && b->begin < a->end;
}

/* Ranges that overlap become one, which counts as written if a part of it is. */
static void join(mlxn_cuda_range *into, const mlxn_cuda_range *range) {
    into->begin = into->begin < range->begin ? into->begin : range->begin;
    into->end = into->end > range->end ? into->end : range->end;
    into->written |= range->written;
}

void mlxn_cuda_add_range(mlxn_cuda_ranges *ranges, uintptr_t begin, uintptr_t end, bool written) {
    const mlxn_cuda_range range = {begin, end, written};
    if (begin == end) {
        return;
    }
    for (size_t i = 0; i < ranges->count; i++) {
        if (overlap(&ranges->list[i], &range)) {
            join(&ranges->list[i], &range);
            return;
        }
    }
    if (ranges->count == MAX_RANGES) {
        for (size_t i = 1; i < MAX_RANGES; i++) {
            join(&ranges->list[0], &ranges->list[i]);
        }
        join(&ranges->list[0], &range);
        ranges->count = 1;
        return;
    }
    ranges->list[ranges->count++] = range;
}

static bool conflict(const mlxn_cuda_ranges *a, const mlxn_cuda_ranges *b) {
    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = 0; j < b->count; j++) {
            if ((a->list[i].written || b->list[j].written) && overlap(&a->list[i], &b->list[j])) {
                return true;
            }
        }
    }
    return false;
}

mlxn_status mlxn_cuda_order(mlxn_cuda_state *state, unsigned stream, const mlxn_cuda_ranges *ranges) {
    mlxn_cuda_stream *own = &state->streams[stream];
    for (unsigned i = 0; i < STREAMS; i++) {
        mlxn_cuda_stream *other = &state->streams[i];
        if (i == stream || other->done == other->issued || own->waited[i] == other->issued ||
            !conflict(&other->ranges, ranges)) {
            continue;
        }
        mlxn_status status = CU(state, EventRecord, other->event, other->stream);
        if (status == MLXN_OK) {
            status = CU(state, StreamWaitEvent, own->stream, other->event, 0);
        }
        if (status != MLXN_OK) {
            return status;
        }
        own->waited[i] = other->issued;
        own->issued++; /* the wait is work, too */
    }
    return MLXN_OK;
}

bool mlxn_cuda_is_idle(const mlxn_cuda_state *state, unsigned stream) {
    return state->streams[stream].done == state->streams[stream].issued;
}

void mlxn_cuda_issued(mlxn_cuda_state *state, unsigned stream, const mlxn_cuda_ranges *ranges) {
    mlxn_cuda_stream *own = &state->streams[stream];
    own->issued++;
    for (size_t i = 0; i < ranges->count; i++) {
        mlxn_cuda_add_range(&own->ranges, ranges->list[i].begin, ranges->list[i].end, ranges->list[i].written);
    }
}

mlxn_status mlxn_cuda_finish(mlxn_cuda_state *state, unsigned stream) {
    mlxn_cuda_stream *own = &state->streams[stream];
    pthread_mutex_lock(&state->lock);
    const uint64_t issued = own->issued;
    pthread_mutex_unlock(&state->lock);
    /* Not under the lock: others may go on. What they put in meanwhile is not known to be done. */
    const mlxn_status status = CU(state, StreamSynchronize, own->stream);
    if (status == MLXN_OK) {
        pthread_mutex_lock(&state->lock);
        own->done = own->done > issued ? own->done : issued;
        if (own->done == own->issued) {
            own->ranges.count = 0;
        }
        pthread_mutex_unlock(&state->lock);
    }
    return status;
}

mlxn_status mlxn_cuda_finish_all(mlxn_cuda_state *state) {
    mlxn_status status = MLXN_OK;
    for (unsigned i = 0; status == MLXN_OK && i < STREAMS; i++) {
        status = mlxn_cuda_finish(state, i);
    }
    return status;
}
