/* What the fake driver's calls work with: objects, memory, and work that is put off. All under the driver's lock. */
#ifndef MLXN_TESTS_CUDA_FAKE_WORK_H
#define MLXN_TESTS_CUDA_FAKE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum fake_kind { FAKE_STREAM = 1, FAKE_EVENT, FAKE_MODULE, FAKE_GRAPH, FAKE_EXECUTABLE } fake_kind;

typedef struct fake_kernel {
    const char *name;
    size_t buffers; /* constants follow */
    int threads, local;
    int local_allowed;
    bool awaits; /* as it was last looked up */
} fake_kernel;

struct fake_operation;
struct fake_node;
typedef struct fake_object {
    struct fake_object *next;
    fake_kind kind;
    bool alive;
    /* stream */
    struct fake_operation *first, **last;
    /* event */
    bool timing;
    uint64_t recorded, done, time;
    struct fake_object *stream; /* of the last record */
    /* module */
    char *text;
    /* graph, executable */
    struct fake_node *nodes;
    size_t node_count, early_edges;
} fake_object;

void fake_complain(const char *about);
void fake_look_at_environment(void);
void fake_break(int result);

fake_object *fake_new(fake_kind kind);
fake_object *fake_is(const void *handle, fake_kind kind); /* complains of a dead or foreign one */
void fake_delete(void *handle, fake_kind kind);
void fake_end(void); /* everything goes */

void *fake_allocate(size_t bytes);
void fake_free(void *memory);
void *fake_pin(size_t bytes);
void fake_unpin(void *memory);

void fake_record(fake_object *stream, fake_object *event);
void fake_wait(fake_object *stream, fake_object *event);
void fake_fill(fake_object *stream, void *at, size_t bytes);
void fake_copy(fake_object *stream, void *to, const void *from, size_t bytes, bool from_host);
void fake_launch(fake_object *stream, const fake_kernel *kernel, void **arguments);
bool fake_may_start_early(const fake_object *stream);
void fake_launch_graph(fake_object *stream, const fake_object *executable);

fake_kernel *fake_find(const char *name);
void *fake_add_node(fake_object *graph, const fake_kernel *kernel, void **arguments, const size_t *after, size_t count);
void *fake_add_event(fake_object *graph, fake_object *event, const size_t *after, size_t count);
void fake_add_early_edge(fake_object *graph, const void *from, const void *to);
fake_object *fake_instantiate(const fake_object *graph);

void fake_run(fake_object *stream);
void fake_run_to(fake_object *event);
void fake_run_streams(void);

#endif
