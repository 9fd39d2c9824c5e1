/* Every input of a function, against the digests of the right results that ship with the program. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    mlxn_buffer *buffers[2];
    void *arrays[2]; /* inputs, results */
    bool mapped;
} input_block;

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
    for (int k = 0; k < 2; k++) {
        if (!block->mapped) {
            free(block->arrays[k]);
        }
        mlxn_buffer_destroy(block->buffers[k]);
    }
}

static bool create_block(mlxn_device *device, const mlxn_digest_table *truth, input_block *block) {
    block->count = (size_t)truth->block;
    block->bytes = block->count * mlxn_dtype_size(block->dtype);
    const int64_t count = (int64_t)block->count;
    for (int k = 0; k < 2; k++) {
        if (mlxn_buffer_create(device, block->dtype, 1, &count, &block->buffers[k]) != MLXN_OK) {
            return false;
        }
    }
    block->mapped = mlxn_buffer_map(block->buffers[0], &block->arrays[0]) == MLXN_OK &&
                    mlxn_buffer_map(block->buffers[1], &block->arrays[1]) == MLXN_OK;
    for (int k = 0; k < 2 && !block->mapped; k++) {
        block->arrays[k] = tool_allocate(block->bytes, 1);
    }
    return true;
}

static bool record(mlxn_encoder *encoder, const input_block *block) {
    return mlxn_encoder_reset(encoder) == MLXN_OK &&
           mlxn_encode(encoder, block->op->name, block->buffers, 2, MLXN_OVERWRITE) == MLXN_OK;
}

static bool run_block(mlxn_encoder *encoder, const input_block *block, uint64_t first) {
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
           mlxn_encoder_commit_and_wait(encoder) == MLXN_OK &&
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

static void run_blocks(tool_session *session, const mlxn_digest_table *truth, input_block *block,
                       check_result *result) {
    size_t wrong = 0;
    for (size_t b = 0; b < truth->count; b++) {
        const uint64_t first = (uint64_t)b * truth->block;
        if (!run_block(session->encoder, block, first)) {
            check_fail_call(result);
            return;
        }
        XXH128_hash_t hash = XXH3_128bits(block->arrays[1], block->bytes);
        if (hash.high64 != truth->digests[b].high || hash.low64 != truth->digests[b].low) {
            explain(block, first, result);
            wrong++;
        }
        if (b % 16 == 0) {
            tool_progress("%s %s: every input, %zu of %zu blocks", truth->op, mlxn_dtype_name(truth->dtype), b,
                          truth->count);
        }
    }
    snprintf(result->text, sizeof result->text, "%llu right", (unsigned long long)(truth->block * truth->count));
    if (wrong) {
        size_t length = strlen(result->reason);
        snprintf(result->reason + length, sizeof result->reason - length, "; %zu of %zu blocks are wrong", wrong,
                 truth->count);
    }
}

void check_every_input(tool_session *session, const mlxn_op_info *op, mlxn_dtype dtype, check_result *result) {
    const mlxn_digest_table *truth = find_truth(op, dtype);
    input_block block = {.op = op, .dtype = dtype};
    if (!truth) {
        result->skipped = true;
        return;
    }
    if (!create_block(session->device, truth, &block) || !record(session->encoder, &block)) {
        check_fail_call(result);
    } else {
        run_blocks(session, truth, &block, result);
    }
    destroy_block(&block);
}
