/* Lists: the first commit launches their dispatches one by one, later ones launch a graph of them. */
#include <string.h>

#include "backend/cuda/state.h"

/* Fewer dispatches than this are launched no slower than a graph of them. */
enum { GRAPH_FROM = 4 };

/* The state of a list that has none yet: one that another list has given back, or a new one. With device->lock held. */
static mlxn_cuda_list *take_list(mlxn_device *device, mlxn_cuda_state *state) {
    pthread_mutex_lock(&state->lock);
    mlxn_cuda_list *taken = state->lists;
    if (taken != NULL) {
        state->lists = taken->next;
    }
    pthread_mutex_unlock(&state->lock);
    if (taken == NULL) {
        taken = mlxn_allocate(&device->allocator, sizeof *taken, _Alignof(mlxn_cuda_list));
        if (taken != NULL) {
            *taken = (mlxn_cuda_list){.stream = state->lists_made++ % LIST_STREAMS};
        }
    }
    return taken;
}

void mlxn_cuda_forget(mlxn_device *device, mlxn_list *list) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    mlxn_cuda_list *own = list->state;
    if (own == NULL) {
        return;
    }
    if (own->graph != NULL && !mlxn_cuda_forked() && mlxn_cuda_enter(state) == MLXN_OK) {
        mlxn_cuda.GraphExecDestroy(own->graph);
        mlxn_cuda_leave();
    }
    own->graph = NULL;
    own->commits = 0;
    own->pending = own->timed = own->direct = false;
    own->ranges.count = 0;
    list->state = NULL;
    pthread_mutex_lock(&state->lock);
    own->next = state->lists;
    state->lists = own;
    pthread_mutex_unlock(&state->lock);
}

void mlxn_cuda_free_lists(mlxn_device *device, bool with_events) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    for (mlxn_cuda_list *own = state->lists, *next; own != NULL; own = next) {
        next = own->next;
        for (size_t i = 0; with_events && i < own->event_count; i++) {
            mlxn_cuda.EventDestroy(own->events[i]);
        }
        mlxn_free(&device->allocator, own->events, own->event_capacity * sizeof *own->events);
        mlxn_free(&device->allocator, own, sizeof *own);
    }
    state->lists = NULL;
}

/* Checks the dispatches and finds out which memory they touch. */
static mlxn_status prepare(mlxn_cuda_state *state, const mlxn_list *list, mlxn_cuda_list *own) {
    own->ranges.count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const mlxn_record *record = list->records[i];
        const mlxn_status status = mlxn_cuda_check_launch(state, record);
        if (status != MLXN_OK) {
            return status;
        }
        for (uint32_t k = 0; k < record->slice_count; k++) {
            const mlxn_slice *slice = &record->slices[k];
            const uintptr_t begin = mlxn_slice_begin(slice);
            mlxn_cuda_add_range(&own->ranges, begin, begin + slice->bytes, (slice->access & MLXN_WRITE) != 0);
        }
    }
    return MLXN_OK;
}

/* Whether a dispatch keeps a large GPU's memory busy for some time. */
static bool moves_much(const mlxn_record *record) {
    enum { MUCH = 4 << 20 }; /* bytes: about a microsecond */
    return record->cost >= MUCH;
}

/* Whether a kernel gains from starting early. Few groups that move much do not: they would settle where the kernel before
 * leaves room, few on one multiprocessor and more on the next, and stay there. */
static bool gains_early(const mlxn_cuda_state *state, const mlxn_record *record) {
    enum { MANY = 64 }; /* groups a multiprocessor, one after the other */
    const bool many = record->groups >= (uint64_t)MANY * (uint64_t)state->processors;
    return mlxn_cuda_awaits(record) && (many || !moves_much(record));
}

/* `idle`: the stream has nothing to do. Else the first dispatch stands behind whatever that is, which may be a wait. */
static mlxn_status launch_all(mlxn_cuda_state *state, const mlxn_list *list, CUstream stream, bool idle) {
    for (size_t i = 0; i < list->count; i++) {
        const bool early = (i > 0 || idle) && gains_early(state, list->records[i]);
        const CUresult result = mlxn_cuda_launch(state, list->records[i], stream, early);
        if (result != CUDA_SUCCESS) {
            return mlxn_cuda_failed(state, "cuLaunchKernel", result);
        }
    }
    return MLXN_OK;
}

/* An event before the first dispatch and one behind each. */
static mlxn_status make_events(mlxn_device *device, mlxn_cuda_state *state, mlxn_cuda_list *own, size_t count) {
    while (own->event_count < count) {
        void *events = own->events;
        if (own->event_count == own->event_capacity) {
            if (!mlxn_grow(&device->allocator, &events, &own->event_capacity, sizeof *own->events)) {
                return mlxn_fail(MLXN_OUT_OF_MEMORY, "mlxn_encoder_commit: no memory for %zu events", count);
            }
            own->events = events;
        }
        const mlxn_status status = CU(state, EventCreate, &own->events[own->event_count], CU_EVENT_DEFAULT);
        if (status != MLXN_OK) {
            return status;
        }
        own->event_count++;
    }
    return MLXN_OK;
}

/* Where there are no graphs: the first dispatches then seem as slow as the host is in launching them. */
static mlxn_status launch_timed(mlxn_cuda_state *state, const mlxn_list *list, const mlxn_cuda_list *own,
                                CUstream stream) {
    mlxn_status status = CU(state, EventRecord, own->events[0], stream);
    for (size_t i = 0; status == MLXN_OK && i < list->count; i++) {
        status = mlxn_cuda_check(state, "cuLaunchKernel", mlxn_cuda_launch(state, list->records[i], stream, false));
        if (status == MLXN_OK) {
            status = CU(state, EventRecord, own->events[i + 1], stream);
        }
    }
    return status;
}

/* Whether dispatch i begins a wave. One that moves much keeps the device busy by itself, and is in a wave by itself: beside
 * others it would end no earlier, and branches of a graph take longer than a chain. */
static bool begins_wave(const mlxn_list *list, size_t i) {
    mlxn_record *const *records = list->records;
    return i == 0 || records[i]->barrier || moves_much(records[i]) || moves_much(records[i - 1]);
}

/* Whether dispatch i is all of its wave. */
static bool is_alone(const mlxn_list *list, size_t i) {
    return begins_wave(list, i) && (i + 1 == list->count || begins_wave(list, i + 1));
}

/* Adds a node for each dispatch; those of a wave follow all of the wave before. `*early`: whether a kernel may start while
 * the only one of the wave before ends; afterwards, whether one may indeed. */
static bool add_nodes(mlxn_cuda_state *state, const mlxn_list *list, CUgraph graph, CUgraphNode *nodes, bool *early) {
    const bool allowed = *early;
    size_t wave = 0, before = 0;
    CUresult result = CUDA_SUCCESS;
    *early = false;
    for (size_t i = 0; result == CUDA_SUCCESS && i < list->count; i++) {
        const mlxn_record *record = list->records[i];
        if (begins_wave(list, i) && i > 0) {
            before = wave;
            wave = i;
        }
        if (allowed && wave - before == 1 && is_alone(list, i) && gains_early(state, record)) {
            *early = true;
            result = mlxn_cuda_add_early_node(state, record, graph, nodes[before], &nodes[i]);
        } else {
            result = mlxn_cuda_add_node(state, record, graph, nodes + before, wave - before, &nodes[i]);
        }
    }
    return result == CUDA_SUCCESS;
}

/* The same with an event between any two dispatches, one behind the other. */
static bool add_timed_nodes(mlxn_cuda_state *state, const mlxn_list *list, const mlxn_cuda_list *own, CUgraph graph) {
    CUgraphNode last, next;
    CUresult result = mlxn_cuda.GraphAddEventRecordNode(&last, graph, NULL, 0, own->events[0]);
    for (size_t i = 0; result == CUDA_SUCCESS && i < list->count; i++) {
        result = mlxn_cuda_add_node(state, list->records[i], graph, &last, 1, &next);
        if (result == CUDA_SUCCESS) {
            result = mlxn_cuda.GraphAddEventRecordNode(&last, graph, &next, 1, own->events[i + 1]);
        }
    }
    return result == CUDA_SUCCESS;
}

/* A graph of the list, or NULL. `early` as for add_nodes. */
static CUgraphExec build_graph(mlxn_device *device, const mlxn_list *list, const mlxn_cuda_list *own, bool timing,
                               bool *early) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    CUgraphNode *nodes = mlxn_allocate(&device->allocator, list->count * sizeof *nodes, _Alignof(CUgraphNode));
    if (nodes != NULL && mlxn_cuda.GraphCreate(&graph, 0) == CUDA_SUCCESS) {
        const bool whole =
            timing ? add_timed_nodes(state, list, own, graph) : add_nodes(state, list, graph, nodes, early);
        if (!whole || mlxn_cuda.GraphInstantiate(&executable, graph, 0) != CUDA_SUCCESS) {
            executable = NULL;
        }
        mlxn_cuda.GraphDestroy(graph);
    }
    mlxn_free(&device->allocator, nodes, list->count * sizeof *nodes);
    return executable;
}

/* The same, or NULL: whatever the reason, launching does the same. */
static CUgraphExec make_graph(mlxn_device *device, const mlxn_list *list, const mlxn_cuda_list *own, bool timing) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    bool early = !timing && state->early_edges;
    CUgraphExec executable = build_graph(device, list, own, timing, &early);
    if (executable == NULL && early) {
        early = false;
        executable = build_graph(device, list, own, timing, &early);
        state->early_edges = executable == NULL; /* if it is early edges that the driver does not make: never again */
    }
    return executable;
}

/* A graph pays from the second commit on; for timing from the first, since it leaves no gaps. */
static mlxn_status launch(mlxn_device *device, const mlxn_list *list, mlxn_cuda_list *own, bool timing, bool idle) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    const CUstream stream = state->streams[own->stream].stream;
    const mlxn_status status = timing ? make_events(device, state, own, list->count + 1) : MLXN_OK;
    if (status != MLXN_OK) {
        return status;
    }
    if (!own->direct && (timing || (own->commits > 0 && list->count >= GRAPH_FROM))) {
        own->graph = own->graph != NULL ? own->graph : make_graph(device, list, own, timing);
        if (own->graph != NULL && mlxn_cuda.GraphLaunch(own->graph, stream) == CUDA_SUCCESS) {
            return MLXN_OK;
        }
        own->direct = true;
    }
    return timing ? launch_timed(state, list, own, stream) : launch_all(state, list, stream, idle);
}

/* With the context current. */
static mlxn_status commit(mlxn_device *device, const mlxn_list *list, mlxn_cuda_list *own, bool timing) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    mlxn_status status = own->commits == 0 ? prepare(state, list, own) : MLXN_OK;
    if (status != MLXN_OK) {
        return status;
    }
    pthread_mutex_lock(&state->lock);
    status = mlxn_cuda_order(state, own->stream, &own->ranges);
    const bool idle = mlxn_cuda_is_idle(state, own->stream);
    pthread_mutex_unlock(&state->lock);
    if (status != MLXN_OK) {
        return status;
    }
    status = launch(device, list, own, timing, idle);
    /* Also where a launch has failed: those before it are on their way. They are put down behind the launches, so that a
     * thread that waits for the stream now does not take them for done. */
    own->commits++;
    own->pending = true;
    own->timed = timing && status == MLXN_OK;
    pthread_mutex_lock(&state->lock);
    mlxn_cuda_issued(state, own->stream, &own->ranges);
    pthread_mutex_unlock(&state->lock);
    return status;
}

mlxn_status mlxn_cuda_commit(mlxn_device *device, mlxn_list *list, bool timing) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    mlxn_status status = mlxn_cuda_usable(state);
    if (status != MLXN_OK || list->count == 0) {
        return status;
    }
    if (list->state == NULL) {
        list->state = take_list(device, state);
        if (list->state == NULL) {
            return mlxn_fail(MLXN_OUT_OF_MEMORY, "mlxn_encoder_commit: no memory for the list");
        }
    }
    status = mlxn_cuda_enter(state);
    if (status == MLXN_OK) {
        status = commit(device, list, list->state, timing);
        mlxn_cuda_leave();
    }
    return status;
}

static mlxn_status read_times(mlxn_cuda_state *state, mlxn_list *list, const mlxn_cuda_list *own) {
    for (size_t i = 0; i < list->count; i++) {
        float milliseconds = 0;
        const mlxn_status status = CU(state, EventElapsedTime, &milliseconds, own->events[i], own->events[i + 1]);
        if (status != MLXN_OK) {
            return status;
        }
        list->records[i]->nanoseconds = (uint64_t)((double)milliseconds * 1e6 + 0.5);
    }
    return MLXN_OK;
}

/* With the context current. */
static mlxn_status finish_list(mlxn_cuda_state *state, mlxn_list *list, mlxn_cuda_list *own) {
    mlxn_status status = mlxn_cuda_finish(state, own->stream);
    if (status != MLXN_OK) {
        /* The list's memory will be released while it may still be at work on it. */
        mlxn_cuda_break(state, mlxn_last_error());
    } else if (own->timed) {
        status = read_times(state, list, own);
    }
    return status;
}

mlxn_status mlxn_cuda_wait(mlxn_device *device, mlxn_list *list) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    mlxn_cuda_list *own = list->state;
    if (own == NULL || !own->pending) {
        return MLXN_OK;
    }
    own->pending = false;
    mlxn_status status = mlxn_cuda_usable(state);
    if (status != MLXN_OK) {
        return status;
    }
    status = mlxn_cuda_enter(state);
    if (status == MLXN_OK) {
        status = finish_list(state, list, own);
        mlxn_cuda_leave();
    } else {
        mlxn_cuda_break(state, mlxn_last_error());
    }
    own->timed = false;
    return status == MLXN_OK ? MLXN_OK : MLXN_DEVICE_FAILED; /* the message says the rest */
}
