/* Any bytes as a sequence of calls: buffers, views, ops, commits, in any order and with any arguments. No call may crash,
 * a call that fails must say why and give nothing, an op that succeeds must have written all of its outputs, and one that
 * is refused must have written none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlxn/mlxn.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { BUFFERS = 8, ENCODERS = 2, OUTSIDE_BYTES = 4096, MOST_CALLS = 200, MOST_BYTES = 16 << 20 };

typedef struct session {
    const unsigned char *data;
    size_t left;
    mlxn_buffer *buffer[BUFFERS];
    mlxn_encoder *encoder[ENCODERS];
} session;

static mlxn_device *device;
static _Alignas(64) unsigned char outside[OUTSIDE_BYTES];

static void require(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s; last error: %s\n", what, mlxn_last_error());
        abort();
    }
}

static unsigned take(session *s) {
    if (s->left == 0)
        return 0;
    s->left--;
    return *s->data++;
}

static size_t take_shape(session *s, int64_t shape[MLXN_MAX_RANK + 1]) {
    static const int64_t odd[] = {-1, INT64_MIN, INT64_MAX, INT64_C(1) << 62, INT64_C(1) << 32, 0, 100, 33};
    const size_t rank = take(s) % (MLXN_MAX_RANK + 2);
    for (size_t i = 0; i < rank; i++) {
        const unsigned byte = take(s);
        shape[i] = byte >= 248 ? odd[byte - 248] : (int64_t)(byte % 7) + 1;
    }
    return rank;
}

static mlxn_dtype take_dtype(session *s) {
    const unsigned byte = take(s);
    return (mlxn_dtype)(byte < 200 ? byte % 3 : byte % 16);
}

/* Puts what a call made into a slot, and checks that it made something exactly when it says so. */
static void keep(session *s, mlxn_status status, mlxn_buffer *made) {
    require((status == MLXN_OK) == (made != NULL), "status and handle disagree");
    require(status == MLXN_OK || mlxn_last_error()[0] != '\0', "a failure without a message");
    if (made == NULL)
        return;
    mlxn_buffer **slot = &s->buffer[take(s) % BUFFERS];
    mlxn_buffer_destroy(*slot);
    *slot = made;
}

static mlxn_buffer *take_buffer(session *s) {
    const unsigned byte = take(s);
    return byte == 255 ? NULL : s->buffer[byte % BUFFERS];
}

static void create_buffer(session *s) {
    int64_t shape[MLXN_MAX_RANK + 1];
    mlxn_buffer *made = (mlxn_buffer *)1;
    const mlxn_dtype dtype = take_dtype(s);
    const size_t rank = take_shape(s, shape);
    const mlxn_status status = mlxn_buffer_create(device, dtype, rank, shape, &made);
    keep(s, status, made);
}

static void wrap_memory(session *s) {
    int64_t shape[MLXN_MAX_RANK + 1];
    mlxn_buffer *made = (mlxn_buffer *)1;
    const mlxn_wrap_options options = {.size = sizeof options, .read_only = take(s) % 4 == 0};
    const mlxn_dtype dtype = take_dtype(s);
    const size_t offset = take(s), rank = take_shape(s, shape);
    size_t bytes = mlxn_dtype_size(dtype);
    for (size_t i = 0; i < rank && rank <= MLXN_MAX_RANK; i++)
        if (shape[i] >= 0 && __builtin_mul_overflow(bytes, (size_t)shape[i], &bytes))
            bytes = SIZE_MAX;
    if (bytes != SIZE_MAX && bytes > OUTSIDE_BYTES - offset)
        return; /* the caller's promise: the memory is there */
    const mlxn_status status = mlxn_buffer_wrap(device, dtype, rank, shape, outside + offset, &options, &made);
    keep(s, status, made);
}

static void make_view(session *s) {
    int64_t shape[MLXN_MAX_RANK + 1];
    mlxn_buffer *made = (mlxn_buffer *)1, *of = take_buffer(s);
    const unsigned byte = take(s);
    const int64_t offset = byte == 255 ? INT64_MAX : byte == 254 ? -1 : (int64_t)byte;
    const size_t rank = take_shape(s, shape);
    const mlxn_status status = mlxn_buffer_view(of, offset, rank, shape, &made);
    keep(s, status, made);
}

static void reshape(session *s) {
    int64_t shape[MLXN_MAX_RANK + 1];
    mlxn_buffer *made = (mlxn_buffer *)1, *of = take_buffer(s);
    size_t rank = take_shape(s, shape);
    if (rank == 0) { /* flat, which always fits */
        shape[0] = mlxn_buffer_count(of);
        rank = 1;
    }
    const mlxn_status status = mlxn_buffer_reshape(of, rank, shape, &made);
    keep(s, status, made);
}

static void copy(session *s) {
    unsigned char bytes[256];
    mlxn_buffer *buffer = take_buffer(s);
    const size_t offset = take(s) == 255 ? SIZE_MAX : take(s), size = take(s);
    memset(bytes, (int)take(s), sizeof bytes);
    const mlxn_status status =
        size % 2 == 0 ? mlxn_buffer_write(buffer, offset, size, bytes) : mlxn_buffer_read(buffer, offset, size, bytes);
    require(status != MLXN_OK || offset + size <= mlxn_buffer_bytes(buffer), "a copy outside of the buffer");
}

static const mlxn_op_info *take_op(session *s) {
    return mlxn_op_at(take(s) % mlxn_op_count());
}

static mlxn_mode take_mode(session *s) {
    const unsigned byte = take(s);
    return (mlxn_mode)(byte < 250 ? byte % 2 : byte);
}

static void record_op(session *s) {
    mlxn_encoder *encoder = s->encoder[take(s) % ENCODERS];
    const mlxn_op_info *op = take_op(s);
    const mlxn_mode mode = take_mode(s);
    mlxn_buffer *arguments[MLXN_MAX_ARGUMENTS + 2];
    for (size_t i = 0; i < MLXN_MAX_ARGUMENTS + 2; i++)
        arguments[i] = take_buffer(s);
    const size_t count = take(s) < 240 ? op->input_count + op->output_count : take(s) % (MLXN_MAX_ARGUMENTS + 2);
    const size_t before = mlxn_encoder_dispatches(encoder);
    if (mlxn_encode(encoder, op->name, arguments, count, mode) != MLXN_OK)
        require(mlxn_encoder_dispatches(encoder) == before && mlxn_encoder_message(encoder)[0] != '\0',
                "a refused op left something behind");
}

/* Fills a buffer with bytes that no op writes: a NaN other than the canonical one. */
static void poison(mlxn_buffer *buffer) {
    void *data;
    if (mlxn_buffer_read_only(buffer) || mlxn_buffer_map(buffer, &data) != MLXN_OK)
        return;
    memset(data, 0xff, mlxn_buffer_bytes(buffer));
}

/* Whether all elements, or none, are still poisoned. */
static int all_poisoned(const mlxn_buffer *buffer, int poisoned) {
    const size_t size = mlxn_dtype_size(mlxn_buffer_dtype(buffer));
    const unsigned char *data;
    if (mlxn_buffer_map(buffer, (void **)&data) != MLXN_OK)
        return 0;
    for (size_t i = 0; i < mlxn_buffer_bytes(buffer); i += size) {
        size_t k = 0;
        while (k < size && data[i + k] == 0xff)
            k++;
        if ((k == size) != poisoned)
            return 0;
    }
    return 1;
}

/* One op alone, its outputs made with the shapes that it asks for, or taken from any slot. */
static void run_op(session *s) {
    const mlxn_op_info *op = take_op(s);
    mlxn_buffer *arguments[MLXN_MAX_ARGUMENTS] = {NULL}, *made[MLXN_MAX_ARGUMENTS] = {NULL};
    for (size_t i = 0; i < op->input_count; i++)
        arguments[i] = take_buffer(s);
    const int fitting = take(s) % 4 != 0;
    for (size_t o = 0; o < op->output_count; o++) {
        int64_t shape[MLXN_MAX_RANK];
        size_t rank = 0, at = op->input_count + o;
        if (!fitting) {
            arguments[at] = take_buffer(s);
        } else if (mlxn_op_output_shape(op->name, (const mlxn_buffer *const *)arguments, op->input_count, o, &rank,
                                        shape) == MLXN_OK &&
                   mlxn_buffer_create(device, mlxn_buffer_dtype(arguments[0]), rank, shape, &made[at]) == MLXN_OK) {
            arguments[at] = made[at];
        }
        if (arguments[at] != NULL)
            poison(arguments[at]);
    }
    mlxn_encoder *encoder = NULL;
    if (mlxn_encoder_create(device, NULL, &encoder) == MLXN_OK) {
        const mlxn_status status =
            mlxn_encode(encoder, op->name, arguments, op->input_count + op->output_count, MLXN_OVERWRITE);
        require(mlxn_encoder_commit(encoder) == status, "commit and op disagree");
        require(mlxn_encoder_wait(encoder) == MLXN_OK, "wait failed");
        for (size_t o = op->input_count; o < op->input_count + op->output_count; o++)
            if (arguments[o] != NULL && !mlxn_buffer_read_only(arguments[o]))
                require(all_poisoned(arguments[o], status != MLXN_OK) || mlxn_buffer_count(arguments[o]) == 0,
                        status == MLXN_OK ? "an output was not written" : "a refused op wrote");
    }
    mlxn_encoder_destroy(encoder);
    for (size_t i = 0; i < MLXN_MAX_ARGUMENTS; i++)
        mlxn_buffer_destroy(made[i]);
}

/* The user's kernel writes nothing. */
static void nothing(const mlxn_call *call, uint64_t begin, uint64_t end) {
    (void)call;
    (void)begin;
    (void)end;
}

static void dispatch(session *s) {
    static const char *const names[] = {"nothing", "exp_f32", "", "no such kernel"};
    mlxn_binding bindings[MLXN_MAX_BINDINGS + 1];
    unsigned char constants[MLXN_MAX_CONSTANT_BYTES + 1] = {0};
    mlxn_encoder *encoder = s->encoder[take(s) % ENCODERS];
    mlxn_dispatch d = {.size = sizeof d,
                       .kernel = names[take(s) < 200 ? 0 : take(s) % 4],
                       .bindings = bindings,
                       .binding_count = take(s) % (MLXN_MAX_BINDINGS + 2),
                       .constants = constants,
                       .constant_bytes = take(s) % (MLXN_MAX_CONSTANT_BYTES + 2),
                       .group = {1, 1, 1}};
    for (size_t i = 0; i < 3; i++)
        d.grid[i] = take(s) % 9;
    for (size_t i = 0; i < d.binding_count && i <= MLXN_MAX_BINDINGS; i++)
        bindings[i] = (mlxn_binding){take_buffer(s), (mlxn_access)(take(s) % 5)};
    mlxn_encoder_dispatch(encoder, &d);
}

static void commit(session *s) {
    mlxn_encoder *encoder = s->encoder[take(s) % ENCODERS];
    const char *message = mlxn_encoder_message(encoder);
    const int failed = message[0] != '\0';
    const mlxn_status status = take(s) % 2 == 0 ? mlxn_encoder_commit(encoder) : mlxn_encoder_commit_and_wait(encoder);
    require((status != MLXN_OK) == failed, "commit and the encoder's message disagree");
}

static void change_encoder(session *s) {
    mlxn_encoder **encoder = &s->encoder[take(s) % ENCODERS];
    if (take(s) % 4 != 0) {
        mlxn_encoder_reset(*encoder);
        return;
    }
    mlxn_encoder_destroy(*encoder);
    const mlxn_encoder_options options = {.size = sizeof options, .timing = take(s) % 2 == 0};
    require(mlxn_encoder_create(device, &options, encoder) == MLXN_OK, "no encoder");
}

static void destroy_buffer(session *s) {
    mlxn_buffer **slot = &s->buffer[take(s) % BUFFERS];
    mlxn_buffer_destroy(*slot);
    *slot = NULL;
}

/* Memory ends early, so that a fuzzer's does not: outer products of outer products grow quickly. */
static void *allocate(void *context, size_t size, size_t alignment) {
    (void)context;
    void *memory = NULL;
    return size <= MOST_BYTES && posix_memalign(&memory, alignment < 64 ? 64 : alignment, size) == 0 ? memory : NULL;
}

static void release(void *context, void *memory, size_t size) {
    (void)context;
    (void)size;
    free(memory);
}

static void open_once(void) {
    static const mlxn_allocator allocator = {allocate, release, NULL};
    const mlxn_device_options options = {.size = sizeof options, .threads = 1, .allocator = &allocator};
    if (device != NULL)
        return;
    require(mlxn_device_open("cpu", &options, &device) == MLXN_OK, "no device");
    require(mlxn_registry_add_function(device, "nothing", nothing) == MLXN_OK, "no kernel");
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static void (*const calls[])(session *) = {create_buffer,  create_buffer, run_op,  record_op,     record_op,
                                               commit,         make_view,     reshape, wrap_memory,   copy,
                                               change_encoder, dispatch,      run_op,  destroy_buffer};
    session s = {.data = data, .left = size};
    open_once();
    memset(outside, 0, sizeof outside);
    for (size_t i = 0; i < ENCODERS; i++)
        require(mlxn_encoder_create(device, NULL, &s.encoder[i]) == MLXN_OK, "no encoder");
    for (int call = 0; call < MOST_CALLS && s.left > 0; call++)
        calls[take(&s) % (sizeof calls / sizeof calls[0])](&s);
    for (size_t i = 0; i < BUFFERS; i++)
        mlxn_buffer_destroy(s.buffer[i]);
    for (size_t i = 0; i < ENCODERS; i++)
        mlxn_encoder_destroy(s.encoder[i]);
    return 0;
}
