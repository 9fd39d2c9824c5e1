#include "ops/outer_product/gpu.h"

#include <string.h>

#include "kernels/text.h"

/* ---- the kernels --------------------------------------------------------------------------------- */

/* clang-format off */
#define OWN(name, dtype, defines) "#define NAME " #name "_" #dtype "\n#define DTYPE_" #dtype " 1\n" defines
#define TEXT(name, dtype, body, defines) \
    static const char *const name##_##dtype[] = {OWN(name, dtype, defines), mlxn_text_dtypes, mlxn_text_sums, body, NULL};
#define TEXTS(name, body, defines) TEXT(name, f32, body, defines) TEXT(name, f16, body, defines) TEXT(name, bf16, body, defines)
#define BACKWARD(name, wanted) \
    TEXTS(name, mlxn_text_outer_product_backward, wanted "#define STEPS 32\n") \
    TEXTS(name##_short, mlxn_text_outer_product_backward, wanted "#define STEPS 8\n") \
    TEXTS(name##_narrow, mlxn_text_outer_product_narrow, wanted)
#define ROWS "#define WANT_ROWS 1\n"
#define COLUMNS "#define WANT_COLUMNS 1\n"

TEXTS(outer_product, mlxn_text_outer_product, "")
TEXTS(outer_product_finish, mlxn_text_outer_product_finish, "")
BACKWARD(outer_product_backward_lhs, ROWS)
BACKWARD(outer_product_backward_rhs, COLUMNS)
BACKWARD(outer_product_backward, ROWS COLUMNS)

#define KERNEL(name, dtype) {#name "_" #dtype, name##_##dtype}
#define KERNELS(name) KERNEL(name, f32), KERNEL(name, f16), KERNEL(name, bf16)
#define BACKWARDS(name) KERNELS(name), KERNELS(name##_short), KERNELS(name##_narrow)
/* clang-format on */

static const mlxn_gpu_kernel kernels[] = {
    KERNELS(outer_product),
    BACKWARDS(outer_product_backward_lhs),
    BACKWARDS(outer_product_backward_rhs),
    BACKWARDS(outer_product_backward),
    KERNELS(outer_product_finish),
};
const mlxn_gpu_kernels mlxn_outer_product_gpu = {kernels, sizeof kernels / sizeof *kernels};

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The smallest power of two from `x` on. */
static int64_t power_from(int64_t x) {
    int64_t power = 1;
    while (power < x) {
        power *= 2;
    }
    return power;
}

/* ---- the forward --------------------------------------------------------------------------------- */

enum { FORWARD_THREADS = 256, FORWARD_SHORT = 16, FORWARD_ROWS = 4, FORWARD_MORE_ROWS = 8, FORWARD_LINES = 8 };

typedef struct forward_constants {
    int64_t n, m, total, across, tiles, rows, blocks;
    int64_t step[3];
} forward_constants;

mlxn_status mlxn_outer_product_gpu_forward(const mlxn_op *op, const mlxn_op_call *call) {
    const mlxn_slice slices[] = {mlxn_slice_of(call->arguments[0], MLXN_READ),
                                 mlxn_slice_of(call->arguments[1], MLXN_READ),
                                 mlxn_slice_of(call->arguments[2], MLXN_WRITE)};
    const int64_t line = 16 / (int64_t)mlxn_dtype_size(call->dtype), row_lines = call->m / line;
    const int64_t n = call->n, m = call->m;
    forward_constants c = {.n = n, .m = m, .total = call->batch * n * m};
    const bool aligned = (mlxn_slice_begin(&slices[1]) | mlxn_slice_begin(&slices[2])) % 16 == 0 && m % line == 0;
    int64_t groups;
    if (aligned && (row_lines >= FORWARD_THREADS || power_from(row_lines) == row_lines)) {
        c.across = minimum(row_lines, FORWARD_THREADS);
        c.tiles = divide_up(row_lines, FORWARD_THREADS);
        /* As measured: each row's writes lie together, and the group's too where it takes several rows at a time. */
        const bool more = line > 4 || (c.across < FORWARD_THREADS && c.across > FORWARD_SHORT);
        c.rows = more ? FORWARD_MORE_ROWS : FORWARD_ROWS;
        c.blocks = divide_up(n, c.rows * (FORWARD_THREADS / c.across));
        groups = call->batch * c.blocks * c.tiles;
    } else {
        c.step[0] = FORWARD_THREADS * line / m / n;
        c.step[1] = FORWARD_THREADS * line / m % n;
        c.step[2] = FORWARD_THREADS * line % m;
        /* One line more than the total has: the first may begin before it. */
        groups = divide_up(divide_up(c.total, line) + 1, FORWARD_THREADS * FORWARD_LINES);
    }
    return mlxn_encoder_record(call->encoder, &(mlxn_recording){.kernel = op->kernels[call->dtype],
                                                                .slices = slices,
                                                                .slice_count = 3,
                                                                .constants = &c,
                                                                .constant_bytes = sizeof c,
                                                                .grid = {(uint64_t)groups, 1, 1},
                                                                .group = {FORWARD_THREADS, 1, 1},
                                                                .cost = slices[2].bytes});
}

/* ---- the gradients ------------------------------------------------------------------------------- */

enum {
    WARPS = 4,
    SEGMENT = 1024,           /* of a row sum, in the canonical order */
    LEAF = 32,                /* rows of a leaf of a column sum */
    SHORT_ROW = 256,          /* rows up to this have a kernel of their own, */
    NARROW_ROW = 16,          /* and so have rows up to this */
    LANES_SUMS = 34 * 32 * 4, /* bytes that a warp has besides its ring */
    SLOT_BYTES = 4096,        /* about what a slot of the ring holds */
    RING_BYTES = 12800,   /* what a ring of several slots takes, about: three groups find room on a multiprocessor, */
    SHORT_RING = 9000,    /* and four where rows are short, which serves those better */
    MOST_SLOTS = 8,       /* that a warp can wait for */
    ENOUGH_GROUPS = 1024, /* keep a large GPU busy */
};

static int64_t round_up(int64_t x, int64_t to) {
    return divide_up(x, to) * to;
}

/* How many slots of a ring there is room for, and what a warp takes in all. */
static mlxn_status plan_ring(const mlxn_op *op, const mlxn_op_call *call, int64_t ring, int64_t slot, int64_t fixed,
                             uint32_t *slots, uint32_t *warp_bytes) {
    /* Some drivers count a few bytes of their own. */
    const int64_t most = ((int64_t)call->local_bytes - 128) / WARPS / 128 * 128;
    int64_t count = minimum(ring / slot, MOST_SLOTS);
    count = minimum(count > 2 ? count : 2, (most - fixed) / slot);
    if (count < 1) {
        return mlxn_fail(MLXN_UNSUPPORTED, "%s: it takes %d bytes of local memory, the device has %zu", op->info.name,
                         (int)(WARPS * round_up(fixed + slot, 128)), call->local_bytes);
    }
    *slots = (uint32_t)count;
    *warp_bytes = (uint32_t)round_up(count * slot + fixed, 128);
    return MLXN_OK;
}

/* The constants of outer_product_backward.h. */
typedef struct backward_constants {
    int64_t n, m, segments, units, unit_groups, row_blocks;
    uint32_t leaf_warps, rounds, slot_rows, leaf_slots, pieces, piece_stride, slots, slot_bytes, warp_bytes, accumulate;
} backward_constants;

/* Of an item: the partial sums of rows in segments, and of columns in blocks of rows. */
static int64_t partial_bytes(int64_t segments, int64_t n, int64_t m, int64_t row_blocks) {
    return ((segments > 1 ? segments * n : 0) + (row_blocks > 1 ? row_blocks * m : 0)) * (int64_t)sizeof(float);
}

static mlxn_status plan_backward(const mlxn_op *op, const mlxn_op_call *call, backward_constants *c) {
    const int64_t n = call->n, m = call->m, size = (int64_t)mlxn_dtype_size(call->dtype);
    const int64_t columns = minimum(m, SEGMENT), leaves = divide_up(n, LEAF);
    int64_t slot_rows = LEAF;
    while (slot_rows > 1 && slot_rows * columns * size > SLOT_BYTES) {
        slot_rows /= 2;
    }
    c->slot_rows = (uint32_t)slot_rows;
    c->leaf_slots = (uint32_t)divide_up(minimum(n, LEAF), slot_rows);
    c->pieces = (uint32_t)(c->segments == 1 ? 1 : slot_rows);
    /* Lanes read as far as the kernel's longest row, and must not come upon another slot there. */
    const int64_t longest = m <= SHORT_ROW ? SHORT_ROW : SEGMENT, rows = slot_rows / c->pieces;
    c->piece_stride = (uint32_t)round_up(((rows - 1) * columns + longest) * size + 16, 16);
    c->slot_bytes = c->pieces * c->piece_stride;

    /* As many rounds as the kernel has levels, unless that leaves too few groups; but no fewer than keep the partial sums
     * within a 64th of dy. */
    c->leaf_warps = leaves < 3 ? (uint32_t)leaves : WARPS;
    c->unit_groups = divide_up(c->units, WARPS / c->leaf_warps);
    const int64_t most =
        c->leaf_warps < WARPS ? 1 : minimum(m <= SHORT_ROW ? 8 : 4, power_from(divide_up(leaves, WARPS)));
    int64_t rounds = most;
    while (rounds > 1 && c->unit_groups * divide_up(leaves, rounds * WARPS) < ENOUGH_GROUPS) {
        rounds /= 2;
    }
    while (rounds < most && partial_bytes(c->segments, n, m, divide_up(leaves, rounds * WARPS)) > n * m * size / 64) {
        rounds *= 2;
    }
    c->rounds = (uint32_t)rounds;
    c->row_blocks = divide_up(leaves, rounds * c->leaf_warps);
    return plan_ring(op, call, m <= SHORT_ROW ? SHORT_RING : RING_BYTES, c->slot_bytes, LANES_SUMS, &c->slots,
                     &c->warp_bytes);
}

/* The constants of outer_product_narrow.h. */
typedef struct narrow_constants {
    int64_t n, m, items, item_groups, row_blocks;
    uint32_t width, leaf_run, run_warps, piece_stride, lhs_stride, slots, slot_bytes, warp_bytes, accumulate;
} narrow_constants;

/* Pieces of lane groups lie so that their columns meet different banks, of 4 bytes out of 128. */
static int64_t stride_apart(int64_t piece, int64_t apart) {
    return round_up(piece + 16, 128) + round_up(apart, 16);
}

static mlxn_status plan_narrow(const mlxn_op *op, const mlxn_op_call *call, bool columns, narrow_constants *c) {
    enum { LONGEST_RUN = 32 };
    const int64_t size = (int64_t)mlxn_dtype_size(call->dtype), width = power_from(call->m > 1 ? call->m : 2);
    const int64_t lane_groups = 32 / width, leaves = divide_up(call->n, LEAF);
    c->width = (uint32_t)width;
    c->piece_stride = (uint32_t)stride_apart(LEAF * call->m * size, width * size);
    c->lhs_stride = columns ? (uint32_t)stride_apart(LEAF * size, size) : 0;
    c->slot_bytes = (uint32_t)lane_groups * (c->piece_stride + c->lhs_stride);
    int64_t run = minimum(LONGEST_RUN, power_from(divide_up(leaves, lane_groups * WARPS)));
    for (;; run /= 2) {
        const int64_t warps = divide_up(leaves, run * lane_groups);
        c->leaf_run = (uint32_t)run;
        c->run_warps = (uint32_t)minimum(power_from(warps), WARPS);
        c->row_blocks = divide_up(warps, c->run_warps);
        c->item_groups = divide_up(c->items, WARPS / c->run_warps);
        if (run == 1 || c->item_groups * c->row_blocks >= ENOUGH_GROUPS) {
            return plan_ring(op, call, RING_BYTES, c->slot_bytes, 0, &c->slots, &c->warp_bytes);
        }
    }
}

enum { FINISH_THREADS = 256, FINISH_BATCH = 8, FINISH_CHUNK = 32 };

typedef struct finish_job {
    int64_t parts, length, results, columns;
    uint32_t across, chunk;
} finish_job;

typedef struct finish_constants {
    finish_job jobs[2];
    int64_t first_groups, accumulate;
} finish_constants;

/* Few parts are added by one thread a sum; of many, several threads add a chunk each, next to as many sums as fill 32 bytes
 * at least. */
static finish_job plan_finish(int64_t parts, int64_t length) {
    int64_t across = FINISH_THREADS;
    while (across > 8 && (FINISH_THREADS / across * FINISH_BATCH < parts || across / 2 >= length)) {
        across /= 2;
    }
    const int64_t together = FINISH_THREADS / across, wanted = power_from(divide_up(parts, together));
    const int64_t chunk = wanted < FINISH_BATCH ? FINISH_BATCH : minimum(wanted, FINISH_CHUNK);
    return (finish_job){.parts = parts,
                        .length = length,
                        .results = divide_up(parts, together * chunk),
                        .columns = divide_up(length, across),
                        .across = (uint32_t)across,
                        .chunk = (uint32_t)chunk};
}

static const char *const finish_kernels[] = {"outer_product_finish_f32", "outer_product_finish_f16",
                                             "outer_product_finish_bf16"};

/* Partial sums of a gradient, [batch, parts, length] of f32; one part: the gradient itself. */
typedef struct partial_sums {
    const mlxn_buffer *gradient;
    mlxn_slice slice;
    int64_t parts, length;
} partial_sums;

static mlxn_slice whole(const mlxn_op_call *call, const mlxn_buffer *gradient) {
    return mlxn_slice_of(gradient, call->mode == MLXN_ACCUMULATE ? MLXN_READ_WRITE : MLXN_WRITE);
}

static mlxn_status choose_target(const mlxn_op_call *call, partial_sums *sums) {
    if (sums->parts == 1) {
        sums->slice = whole(call, sums->gradient);
        return MLXN_OK;
    }
    return mlxn_encoder_scratch(call->encoder, (size_t)(call->batch * sums->parts * sums->length) * sizeof(float),
                                &sums->slice);
}

/* Adds the parts of one or two gradients up, as often as it takes. */
static mlxn_status record_finish(const mlxn_op_call *call, partial_sums *sums, size_t count) {
    for (;;) {
        finish_constants c = {.accumulate = call->mode == MLXN_ACCUMULATE};
        mlxn_slice slices[4];
        int64_t groups = 0;
        size_t jobs = 0;
        for (size_t i = 0; i < count; i++) {
            if (sums[i].parts == 1) {
                continue;
            }
            finish_job *job = &c.jobs[jobs];
            *job = plan_finish(sums[i].parts, sums[i].length);
            groups += call->batch * job->results * job->columns;
            c.first_groups = jobs == 0 ? groups : c.first_groups;
            slices[2 * jobs] = sums[i].slice;
            slices[2 * jobs].access = MLXN_READ;
            sums[i].parts = job->results;
            const mlxn_status status = choose_target(call, &sums[i]);
            if (status != MLXN_OK) {
                return status;
            }
            slices[2 * jobs + 1] = sums[i].slice;
            jobs++;
        }
        if (jobs == 0) {
            return MLXN_OK;
        }
        if (jobs == 1) { /* the kernel has arguments for two */
            slices[2] = slices[0];
            slices[3] = slices[1];
        }
        const mlxn_status status =
            mlxn_encoder_record(call->encoder, &(mlxn_recording){.kernel = finish_kernels[call->dtype],
                                                                 .slices = slices,
                                                                 .slice_count = 4,
                                                                 .constants = &c,
                                                                 .constant_bytes = sizeof c,
                                                                 .grid = {(uint64_t)groups, 1, 1},
                                                                 .group = {FINISH_THREADS, 1, 1},
                                                                 .cost = slices[0].bytes + slices[2].bytes});
        if (status != MLXN_OK) {
            return status;
        }
    }
}

/* A gradient's kernel, by the length of rows: "outer_product_backward_short_f32". */
static const char *kernel_of(const char *plain, int64_t m) {
    const char *suffix = m <= NARROW_ROW ? "_narrow" : m <= SHORT_ROW ? "_short" : "";
    const size_t stem = (size_t)(strrchr(plain, '_') - plain), length = strlen(suffix);
    for (size_t i = 0; i < mlxn_outer_product_gpu.count; i++) {
        const char *name = kernels[i].name;
        if (strncmp(name, plain, stem) == 0 && strncmp(name + stem, suffix, length) == 0 &&
            strcmp(name + stem + length, plain + stem) == 0) {
            return name;
        }
    }
    return NULL;
}

mlxn_status mlxn_outer_product_gpu_gradients(const mlxn_op *op, const mlxn_op_call *call, const mlxn_buffer *dlhs,
                                             const mlxn_buffer *drhs) {
    const bool is_narrow = call->m <= NARROW_ROW;
    const int64_t segments = divide_up(call->m, SEGMENT);
    const uint32_t accumulate = call->mode == MLXN_ACCUMULATE;
    backward_constants backward = {call->n, call->m, segments, segments * call->batch, .accumulate = accumulate};
    narrow_constants narrow = {call->n, call->m, call->batch, .accumulate = accumulate};
    mlxn_status status = is_narrow ? plan_narrow(op, call, drhs != NULL, &narrow) : plan_backward(op, call, &backward);
    const int64_t row_blocks = is_narrow ? narrow.row_blocks : backward.row_blocks;
    const int64_t groups = row_blocks * (is_narrow ? narrow.item_groups : backward.unit_groups);

    mlxn_slice slices[MLXN_MAX_ARGUMENTS];
    size_t count = 0, sums_count = 0;
    for (; count < op->info.input_count; count++) {
        slices[count] = mlxn_slice_of(call->arguments[count], MLXN_READ);
    }
    partial_sums sums[2];
    if (dlhs != NULL) {
        sums[sums_count++] = (partial_sums){.gradient = dlhs, .parts = segments, .length = call->n};
    }
    if (drhs != NULL) {
        sums[sums_count++] = (partial_sums){.gradient = drhs, .parts = row_blocks, .length = call->m};
    }
    for (size_t i = 0; i < sums_count && status == MLXN_OK; i++) {
        status = choose_target(call, &sums[i]);
        slices[count++] = sums[i].slice;
    }
    if (status == MLXN_OK) {
        status = mlxn_encoder_record(
            call->encoder,
            &(mlxn_recording){.kernel = kernel_of(op->kernels[call->dtype], call->m),
                              .slices = slices,
                              .slice_count = count,
                              .constants = is_narrow ? (const void *)&narrow : (const void *)&backward,
                              .constant_bytes = is_narrow ? sizeof narrow : sizeof backward,
                              .grid = {(uint64_t)groups, 1, 1},
                              .group = {32 * WARPS, 1, 1},
                              .local_bytes = WARPS * (is_narrow ? narrow.warp_bytes : backward.warp_bytes),
                              .cost = slices[0].bytes});
    }
    return status == MLXN_OK ? record_finish(call, sums, sums_count) : status;
}
