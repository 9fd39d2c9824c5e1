/* Every input of a function, against the digests of the right results that ship with the program.
 *
 * Several threads take the blocks of inputs one by one, each with buffers and an encoder of its own, so that the host
 * writes inputs and hashes results while the device computes and copies. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "../../tests/elementary/digests.h"
#include "check.h"
#include "elements.h"
#include "text.h"

/* A block of inputs on its way through the device; where the device works in host memory nothing is copied. */
typedef struct input_block {
    const mlxn_op_info *op;
    mlxn_dtype dtype;
    size_t count, bytes;
    mlxn_encoder *encoder;
    mlxn_buffer *buffers[2];
    void *arrays[2]; /* inputs, results */
    bool mapped;
} input_block;

/* What the threads share. */
typedef struct every_input {
    const mlxn_op_info *op;
    mlxn_dtype dtype;
    const mlxn_digest_table *truth;
    mlxn_device *device;
    atomic_size_t next; /* block */
    atomic_bool stopped;
    pthread_mutex_t lock; /* of what follows */
    size_t wrong;
    check_result *result;
} every_input;

enum { MAX_THREADS = 8 };

static const mlxn_digest_table *find_truth(const mlxn_op_info *op, mlxn_dtype dtype) {
    for (size_t i = 0; i < mlxn_digest_table_count; i++) {
        if (mlxn_digest_tables[i].dtype == dtype && strcmp(mlxn_digest_tables[i].op, op->name) == 0) {
            return &mlxn_digest_tables[i];
        }
    }
    return NULL;
}

bool check_has_truth(const mlxn_op_info *op, mlxn_dtype dtype) {
    return find_truth(op, dtype) != NULL;
}

static void destroy_block(input_block *block) {
    mlxn_encoder_destroy(block->encoder);
    for (int k = 0; k < 2; k++) {
        if (!block->mapped) {
            free(block->arrays[k]);
        }
        mlxn_buffer_destroy(block->buffers[k]);
    }
}

static bool create_block(const every_input *every, input_block *block) {
    *block = (input_block){.op = every->op, .dtype = every->dtype, .count = (size_t)every->truth->block};
    block->bytes = block->count * mlxn_dtype_size(block->dtype);
    const int64_t count = (int64_t)block->count;
    for (int k = 0; k < 2; k++) {
        if (mlxn_buffer_create(every->device, block->dtype, 1, &count, &block->buffers[k]) != MLXN_OK) {
            return false;
        }
    }
    block->mapped = mlxn_buffer_map(block->buffers[0], &block->arrays[0]) == MLXN_OK &&
                    mlxn_buffer_map(block->buffers[1], &block->arrays[1]) == MLXN_OK;
    for (int k = 0; k < 2 && !block->mapped; k++) {
        block->arrays[k] = tool_allocate(block->bytes, 1);
    }
    return mlxn_encoder_create(every->device, NULL, &block->encoder) == MLXN_OK &&
           mlxn_encode(block->encoder, block->op->name, block->buffers, 2, MLXN_OVERWRITE) == MLXN_OK;
}

static bool run_block(const input_block *block, uint64_t first) {
    if (block->dtype == MLXN_F32) {
        uint32_t *inputs = block->arrays[0];
        for (size_t i = 0; i < block->count; i++) {
            inputs[i] = (uint32_t)(first + i);
        }
    } else {
        uint16_t *inputs = block->arrays[0];
        for (size_t i = 0; i < block->count; i++) {
            inputs[i] = (uint16_t)(first + i);
        }
    }
    return (block->mapped || mlxn_buffer_write(block->buffers[0], 0, block->bytes, block->arrays[0]) == MLXN_OK) &&
           mlxn_encoder_commit_and_wait(block->encoder) == MLXN_OK &&
           (block->mapped || mlxn_buffer_read(block->buffers[1], 0, block->bytes, block->arrays[1]) == MLXN_OK);
}

/* Finds the input that went wrong by the reference in float64, which decides all but the hardest roundings. */
static void explain(const input_block *block, uint64_t first, check_result *result) {
    for (size_t i = 0; i < block->count; i++) {
        double x = tool_widen(block->dtype, tool_get(block->dtype, block->arrays[0], i)), y;
        block->op->reference(1, 1, 1, (const double *const[]){&x}, (double *const[]){&y});
        uint32_t bits = tool_get(block->dtype, block->arrays[1], i), right = tool_narrow(block->dtype, y);
        if (bits != right) {
            const int digits = tool_digits(block->dtype);
            check_fail(result, "of input 0x%0*llx (%.9g) it gives 0x%0*x (%.9g), expected 0x%0*x (%.9g) exactly",
                       digits, (unsigned long long)(first + i), x, digits, bits, tool_widen(block->dtype, bits), digits,
                       right, tool_widen(block->dtype, right));
            return;
        }
    }
    check_fail(result, "the results of inputs 0x%08llx to 0x%08llx have another digest than the right ones",
               (unsigned long long)first, (unsigned long long)(first + block->count - 1));
}

static void fail(every_input *every) {
    pthread_mutex_lock(&every->lock);
    check_fail_call(every->result);
    pthread_mutex_unlock(&every->lock);
    every->stopped = true;
}

/* Notes a block whose results are wrong; the first one that is noted is explained. */
static void note_wrong(every_input *every, const input_block *block, uint64_t first) {
    pthread_mutex_lock(&every->lock);
    if (every->wrong == 0 && !every->result->failed) {
        explain(block, first, every->result);
    }
    every->wrong++;
    pthread_mutex_unlock(&every->lock);
}

static void run_blocks(every_input *every, bool reports) {
    const mlxn_digest_table *truth = every->truth;
    input_block block;
    if (!create_block(every, &block)) {
        fail(every);
    }
    size_t b;
    while (!every->stopped && (b = every->next++) < truth->count) {
        const uint64_t first = (uint64_t)b * truth->block;
        if (!run_block(&block, first)) {
            fail(every);
            break;
        }
        XXH128_hash_t hash = XXH3_128bits(block.arrays[1], block.bytes);
        if (hash.high64 != truth->digests[b].high || hash.low64 != truth->digests[b].low) {
            note_wrong(every, &block, first);
        }
        if (reports) {
            tool_progress("%s %s: every input, %zu of %zu blocks", truth->op, mlxn_dtype_name(truth->dtype), b,
                          truth->count);
        }
    }
    destroy_block(&block);
}

static void *run_thread(void *every) {
    run_blocks(every, false);
    return NULL;
}

/* As many threads as the machine has processors, or as were asked for, the calling one included. */
static size_t thread_count(const tool_session *session, const mlxn_digest_table *truth) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = session->threads ? session->threads : processors > 1 ? (size_t)processors : 1;
    count = count < MAX_THREADS ? count : MAX_THREADS;
    return count < truth->count ? count : truth->count;
}

static void run_threads(every_input *every, size_t count) {
    pthread_t threads[MAX_THREADS];
    size_t started = 0;
    while (started + 1 < count && pthread_create(&threads[started], NULL, run_thread, every) == 0) {
        started++;
    }
    run_blocks(every, true);
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}

void check_every_input(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result) {
    const mlxn_digest_table *truth = find_truth(op, dtype);
    if (!truth) {
        result->skipped = true;
        return;
    }
    every_input every = {.op = op, .dtype = dtype, .truth = truth, .device = session->device, .result = result};
    pthread_mutex_init(&every.lock, NULL);
    run_threads(&every, thread_count(session, truth));
    pthread_mutex_destroy(&every.lock);
    snprintf(result->text, sizeof result->text, "%llu right", (unsigned long long)(truth->block * truth->count));
    if (every.wrong) {
        size_t length = strlen(result->reason);
        snprintf(result->reason + length, sizeof result->reason - length, "; %zu of %zu blocks are wrong", every.wrong,
                 truth->count);
    }
}
