/* Objects, memory and streams of the fake driver. */
#define _GNU_SOURCE
#include "fake_work.h"

#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { MOST_BUFFERS = 3 };
typedef struct call {
    const fake_kernel *kernel;
    float *buffer[MOST_BUFFERS];
    fake_constants constants;
} call;

typedef struct fake_operation {
    struct fake_operation *next;
    enum { RECORD, WAIT, FILL, COPY, KERNEL } what;
    fake_object *event, *other; /* the event, and for WAIT the stream it was recorded in */
    uint64_t version;
    void *to;
    const void *from;
    void *snapshot;
    size_t bytes;
    call made;
} operation;

typedef struct fake_node {
    call made;
    fake_object *event; /* or what is recorded */
    size_t *after;
    size_t count;
} node;

typedef struct block {
    struct block *next;
    void *memory;
    size_t bytes;
} block;

static fake_object *objects;
static block *blocks, *pinned;
static uint64_t clock_now;

static fake_kernel kernels[] = {
    {.name = "add", .buffers = 2, .threads = 1024},
    {.name = "sum", .buffers = 3, .threads = 1024},
    {.name = "twice", .buffers = 1, .threads = 1024},
    {.name = "trap", .buffers = 1, .threads = 1024},
    {.name = "narrow", .buffers = 1, .threads = 64, .local = 1024},
    {.name = "own_add", .buffers = 2, .threads = 1024},
    {.name = "own_sum", .buffers = 3, .threads = 1024},
    {.name = "own_twice", .buffers = 1, .threads = 1024},
};

fake_kernel *fake_find(const char *name) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

/* ---- objects ---- */

fake_object *fake_new(fake_kind kind) {
    fake_object *made = calloc(1, sizeof *made);
    made->kind = kind;
    made->alive = true;
    made->last = &made->first;
    made->next = objects;
    objects = made;
    fake.objects++;
    return made;
}

fake_object *fake_is(const void *handle, fake_kind kind) {
    for (fake_object *at = objects; at != NULL; at = at->next)
        if (at == handle && at->kind == kind && at->alive)
            return at;
    fake_complain("this is no handle of that kind, or a dead one");
    abort();
}

void fake_delete(void *handle, fake_kind kind) {
    fake_object *object = fake_is(handle, kind);
    object->alive = false;
    fake.objects--;
}

static void free_nodes(fake_object *object) {
    for (size_t i = 0; i < object->node_count; i++)
        free(object->nodes[i].after);
    free(object->nodes);
}

static void free_blocks(block **list) {
    while (*list != NULL) {
        block *first = *list;
        *list = first->next;
        free(first->memory);
        free(first);
    }
}

void fake_end(void) {
    for (fake_object *at = objects, *next; at != NULL; at = next) {
        next = at->next;
        for (operation *o = at->first, *after; o != NULL; o = after) {
            after = o->next;
            free(o->snapshot);
            free(o);
        }
        free_nodes(at);
        free(at->text);
        free(at);
    }
    objects = NULL;
    free_blocks(&blocks);
    free_blocks(&pinned);
    fake.memory_used = 0;
    fake.objects = fake.pinned = 0;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        kernels[i].local_allowed = 0;
}

/* ---- memory ---- */

static void *add_block(block **list, size_t bytes) {
    block *made = malloc(sizeof *made);
    *made = (block){*list, aligned_alloc(256, (bytes + 255) / 256 * 256), bytes};
    *list = made;
    return made->memory;
}

void *fake_allocate(size_t bytes) {
    if (bytes > fake.memory - fake.memory_used)
        return NULL;
    fake.memory_used += bytes;
    fake.largest_use = fake.largest_use > fake.memory_used ? fake.largest_use : fake.memory_used;
    return memset(add_block(&blocks, bytes), 0xee, bytes);
}

void *fake_pin(size_t bytes) {
    fake.pinned++;
    return add_block(&pinned, bytes);
}

static bool inside(const void *pointer, const block *of) {
    return (const char *)pointer >= (char *)of->memory && (const char *)pointer < (char *)of->memory + of->bytes;
}

static bool touches(const operation *o, const block *of) {
    bool found = (o->what == FILL || o->what == COPY) && (inside(o->to, of) || inside(o->from, of));
    for (size_t i = 0; o->what == KERNEL && i < o->made.kernel->buffers; i++)
        found |= inside(o->made.buffer[i], of);
    return found;
}

static size_t remove_block(block **list, const void *memory) {
    for (block **at = list; *at != NULL; at = &(*at)->next) {
        block *found = *at;
        if (found->memory != memory)
            continue;
        for (fake_object *object = objects; object != NULL; object = object->next)
            for (operation *o = object->first; o != NULL; o = o->next)
                if (touches(o, found))
                    fake_complain("memory is freed under work in flight");
        const size_t bytes = found->bytes;
        *at = found->next;
        free(found->memory);
        free(found);
        return bytes;
    }
    fake_complain("memory is freed that is not there");
    return 0;
}

void fake_free(void *memory) {
    fake.memory_used -= remove_block(&blocks, memory);
}

void fake_unpin(void *memory) {
    remove_block(&pinned, memory);
    fake.pinned--;
}

/* Whether [memory, memory + bytes) lies in one block. */
static bool holds(const block *list, const void *memory, size_t bytes) {
    for (; list != NULL; list = list->next)
        if (inside(memory, list) && bytes <= list->bytes - (size_t)((const char *)memory - (char *)list->memory))
            return true;
    return false;
}

static void expect_on_device(const void *memory, size_t bytes) {
    if (!holds(blocks, memory, bytes))
        fake_complain("memory that is not the device's");
}

/* ---- putting work off ---- */

static operation *put(fake_object *stream, operation made) {
    operation *kept = malloc(sizeof *kept);
    *kept = made;
    kept->next = NULL;
    *stream->last = kept;
    stream->last = &kept->next;
    return kept;
}

void fake_record(fake_object *stream, fake_object *event) {
    event->recorded++;
    event->stream = stream;
    put(stream, (operation){.what = RECORD, .event = event, .version = event->recorded});
}

void fake_wait(fake_object *stream, fake_object *event) {
    if (event->recorded > 0)
        put(stream, (operation){.what = WAIT, .event = event, .other = event->stream, .version = event->recorded});
}

void fake_fill(fake_object *stream, void *at, size_t bytes) {
    expect_on_device(at, bytes);
    put(stream, (operation){.what = FILL, .to = at, .bytes = bytes});
}

/* As the driver does: memory that is not pinned is copied before the call returns. */
void fake_copy(fake_object *stream, void *to, const void *from, size_t bytes, bool from_host) {
    operation made = {.what = COPY, .to = to, .from = from, .bytes = bytes};
    expect_on_device(from_host ? to : from, bytes);
    const bool at_leisure = holds(pinned, from_host ? from : to, bytes);
    if (from_host && !at_leisure) {
        made.from = made.snapshot = malloc(bytes);
        memcpy(made.snapshot, from, bytes);
    }
    put(stream, made);
    if (!from_host && !at_leisure)
        fake_run(stream);
}

static call call_of(const fake_kernel *kernel, void **arguments) {
    call made = {.kernel = kernel};
    for (size_t i = 0; i < kernel->buffers; i++)
        memcpy(&made.buffer[i], arguments[i], sizeof made.buffer[i]);
    memcpy(&made.constants, arguments[kernel->buffers], sizeof made.constants);
    for (size_t i = 0; i < kernel->buffers; i++)
        expect_on_device(made.buffer[i], made.constants.n * sizeof(float));
    return made;
}

void fake_launch(fake_object *stream, const fake_kernel *kernel, void **arguments) {
    put(stream, (operation){.what = KERNEL, .made = call_of(kernel, arguments)});
}

/* Whether the stream has nothing to do, or a kernel last: that is all that a kernel waits for by itself. */
bool fake_may_start_early(const fake_object *stream) {
    bool may = true;
    for (const operation *o = stream->first; o != NULL; o = o->next)
        may = o->what == KERNEL || (may && o->what == RECORD);
    return may;
}

/* ---- graphs: a node's handle is its number + 1 ---- */

static void *add_node(fake_object *graph, node added, const size_t *after, size_t count) {
    graph->nodes = realloc(graph->nodes, (graph->node_count + 1) * sizeof *graph->nodes);
    node *made = &graph->nodes[graph->node_count++];
    *made = added;
    made->count = count;
    made->after = malloc((count + 1) * sizeof *after);
    for (size_t i = 0; i < count; i++) {
        made->after[i] = after[i] - 1;
        if (made->after[i] >= graph->node_count - 1)
            fake_complain("a node follows one that is not there");
    }
    return (void *)graph->node_count;
}

void *fake_add_node(fake_object *graph, const fake_kernel *kernel, void **arguments, const size_t *after,
                    size_t count) {
    return add_node(graph, (node){.made = call_of(kernel, arguments)}, after, count);
}

void *fake_add_event(fake_object *graph, fake_object *event, const size_t *after, size_t count) {
    return add_node(graph, (node){.event = event}, after, count);
}

/* The dependency of a kernel that waits by itself is as good as any. */
void fake_add_early_edge(fake_object *graph, const void *from, const void *to) {
    const size_t source = (size_t)from - 1, target = (size_t)to - 1;
    if (source >= target || target >= graph->node_count || graph->nodes[source].event != NULL ||
        graph->nodes[target].event != NULL) {
        fake_complain("an edge that is not from a kernel to a later one");
        return;
    }
    node *behind = &graph->nodes[target];
    if (!behind->made.kernel->awaits)
        fake_complain("an early edge to a kernel that does not wait");
    behind->after = realloc(behind->after, (behind->count + 1) * sizeof *behind->after);
    behind->after[behind->count++] = source;
    graph->early_edges++;
}

fake_object *fake_instantiate(const fake_object *graph) {
    fake_object *made = fake_new(FAKE_EXECUTABLE);
    made->nodes = malloc((graph->node_count + 1) * sizeof *made->nodes);
    for (size_t i = 0; i < graph->node_count; i++) {
        const node *from = &graph->nodes[i];
        made->nodes[i] = *from;
        made->nodes[i].after = malloc((from->count + 1) * sizeof *from->after);
        memcpy(made->nodes[i].after, from->after, from->count * sizeof *from->after);
    }
    made->node_count = graph->node_count;
    return made;
}

static bool ready(const node *of, const bool *done) {
    for (size_t i = 0; i < of->count; i++)
        if (!done[of->after[i]])
            return false;
    return true;
}

/* Of the nodes that may come next the last one does. */
void fake_launch_graph(fake_object *stream, const fake_object *executable) {
    bool *done = calloc(executable->node_count + 1, sizeof *done);
    for (size_t left = executable->node_count; left > 0; left--) {
        size_t next = executable->node_count;
        while (next-- > 0 && (done[next] || !ready(&executable->nodes[next], done))) {
        }
        done[next] = true;
        if (executable->nodes[next].event != NULL)
            fake_record(stream, fake_is(executable->nodes[next].event, FAKE_EVENT));
        else
            put(stream, (operation){.what = KERNEL, .made = executable->nodes[next].made});
    }
    free(done);
}

/* ---- doing it ---- */

static void execute(const call *made) {
    float *const *b = made->buffer;
    const float by = made->constants.by;
    const char *name = made->kernel->name;
    name += strncmp(name, "own_", 4) == 0 ? 4 : 0;
    if (strcmp(name, "trap") == 0) {
        fake_break(700);
        return;
    }
    for (unsigned i = 0; i < made->constants.n; i++) {
        if (strcmp(name, "add") == 0)
            b[1][i] = b[0][i] + by;
        else if (strcmp(name, "sum") == 0)
            b[2][i] = b[0][i] + b[1][i] + by;
        else
            b[0][i] = 2 * b[0][i] + by;
    }
}

static void step(fake_object *stream) {
    operation *o = stream->first;
    if (o->what == WAIT)
        while (o->event->done < o->version)
            step(o->other);
    stream->first = o->next;
    if (stream->first == NULL)
        stream->last = &stream->first;
    clock_now++;
    if (o->what == RECORD) {
        o->event->done = o->version;
        o->event->time = clock_now;
    } else if (o->what == FILL) {
        memset(o->to, 0, o->bytes);
    } else if (o->what == COPY) {
        memcpy(o->to, o->from, o->bytes);
    } else if (o->what == KERNEL) {
        execute(&o->made);
    }
    free(o->snapshot);
    free(o);
}

void fake_run(fake_object *stream) {
    while (stream->first != NULL)
        step(stream);
}

void fake_run_to(fake_object *event) {
    const uint64_t version = event->recorded;
    while (event->done < version)
        step(event->stream);
}

void fake_run_streams(void) {
    for (fake_object *at = objects; at != NULL; at = at->next)
        if (at->kind == FAKE_STREAM)
            fake_run(at);
}
