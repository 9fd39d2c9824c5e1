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
    TEXTS(name, mlxn_text_outer_product_backward, wanted "#define STEPS 32\n#define LEVELS 1\n") \
    TEXTS(name##_short, mlxn_text_outer_product_backward, wanted "#define STEPS 8\n#define LEVELS 3\n") \
    TEXTS(name##_narrow, mlxn_text_outer_product_backward, wanted "#define STEPS 1\n#define LEVELS 5\n")
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

enum { FORWARD_THREADS = 256, FORWARD_ROWS = 8, FORWARD_LINES = 8, LONG_ROW = 1024 };

typedef struct forward_constants {
    int64_t n, m, total, tiles, blocks;
    int64_t step[3];
} forward_constants;

mlxn_status mlxn_outer_product_gpu_forward(const mlxn_op *op, const mlxn_op_call *call) {
    const mlxn_slice slices[] = {mlxn_slice_of(call->arguments[0], MLXN_READ),
                                 mlxn_slice_of(call->arguments[1], MLXN_READ),
                                 mlxn_slice_of(call->arguments[2], MLXN_WRITE)};
    const int64_t line = 16 / (int64_t)mlxn_dtype_size(call->dtype), threads_line = FORWARD_THREADS * line;
    const int64_t n = call->n, m = call->m;
    forward_constants c = {.n = n, .m = m, .total = call->batch * n * m, .blocks = divide_up(n, FORWARD_ROWS)};
    const bool aligned = (mlxn_slice_begin(&slices[1]) | mlxn_slice_begin(&slices[2])) % 16 == 0 && m % line == 0;
    int64_t groups;
    if (aligned && m >= LONG_ROW) {
        c.tiles = divide_up(m, threads_line);
        groups = call->batch * c.blocks * c.tiles;
    } else {
        c.step[0] = threads_line / m / n;
        c.step[1] = threads_line / m % n;
        c.step[2] = threads_line % m;
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
    SEGMENT = 1024,     /* of a row sum, in the canonical order */
    LEAF = 32,          /* rows of a leaf of a column sum */
    SHORT_ROW = 256,    /* rows up to this have a kernel of their own, */
    NARROW_ROW = 32,    /* and so have rows up to this */
    BARRIER_BYTES = 64, /* of a warp's ring */
    ROW_SUMS = LEAF * 33 * 4,
    SLOT_BYTES = 4096,    /* about what a slot of the ring holds */
    RING_BYTES = 12800,   /* what a ring of several slots takes, about: three groups find room on a multiprocessor */
    MOST_SLOTS = 8,       /* BARRIER_BYTES hold that many */
    ENOUGH_GROUPS = 1024, /* keep a large GPU busy */
};

typedef struct backward_constants {
    int64_t n, m, segments, units, unit_groups, row_blocks;
    uint32_t width, leaf_run, leaf_warps, slot_rows, leaf_slots, pieces, piece_stride, slots, warp_bytes, accumulate;
} backward_constants;

static int64_t round_up(int64_t x, int64_t to) {
    return divide_up(x, to) * to;
}

/* Slots of the ring: their rows, and how their pieces lie in local memory. */
static void plan_slots(const mlxn_op_call *call, int64_t lane_groups, backward_constants *c) {
    const int64_t size = (int64_t)mlxn_dtype_size(call->dtype), columns = minimum(call->m, SEGMENT);
    const int64_t most = (int64_t)call->local_bytes / WARPS / 128 * 128 - BARRIER_BYTES - ROW_SUMS;
    /* Lane groups that read a column each shall not meet in a bank of 4 bytes out of 128. */
    const int64_t apart = round_up(c->width * size, 16);
    for (int64_t rows = LEAF;; rows /= 2) {
        const int64_t piece = (c->segments == 1 ? rows : 1) * columns * size + 16;
        c->slot_rows = (uint32_t)rows;
        c->leaf_slots = (uint32_t)divide_up(minimum(call->n, LEAF), rows);
        c->pieces = (uint32_t)(c->segments == 1 ? lane_groups : rows);
        c->piece_stride = (uint32_t)(lane_groups > 1 ? round_up(piece, 128) + apart : round_up(piece, 16));
        const bool fits = (int64_t)c->pieces * c->piece_stride <= most;
        if (rows == 1 || (fits && rows * columns * lane_groups * size <= SLOT_BYTES)) {
            return;
        }
    }
}

/* How many slots there is room for, and the local memory of a warp. */
static mlxn_status plan_ring(const mlxn_op *op, const mlxn_op_call *call, bool rows, int64_t steps,
                             backward_constants *c) {
    const int64_t slot = (int64_t)c->pieces * c->piece_stride, most = (int64_t)call->local_bytes / WARPS / 128 * 128;
    const int64_t fixed = BARRIER_BYTES + (rows ? ROW_SUMS : 0), join = 32 * steps * (int64_t)sizeof(float);
    int64_t slots = minimum(RING_BYTES / slot, MOST_SLOTS);
    slots = minimum(slots > 2 ? slots : 2, (most - fixed) / slot);
    const int64_t ring = slots * slot > join ? slots * slot : join;
    if (slots < 1 || fixed + ring > most) {
        return mlxn_fail(MLXN_UNSUPPORTED, "%s: it takes %d bytes of local memory, the device has %zu", op->info.name,
                         (int)(WARPS * round_up(fixed + (slot > join ? slot : join), 128)), call->local_bytes);
    }
    c->slots = (uint32_t)slots;
    c->warp_bytes = (uint32_t)round_up(fixed + ring, 128);
    return MLXN_OK;
}

/* Runs of leaves as long as the kernel's tree is deep, unless that leaves too few groups. */
static void plan_runs(const mlxn_op_call *call, int64_t lane_groups, int64_t most, backward_constants *c) {
    const int64_t leaves = divide_up(call->n, LEAF);
    /* Partial sums of 128 rows each would take a 64th of a 16-bit dy. */
    const bool large = call->batch * call->n * call->m > (1 << 24);
    int64_t run = minimum(most, power_from(divide_up(leaves, lane_groups)));
    for (;; run /= 2) {
        const int64_t warps = divide_up(leaves, run * lane_groups), leaf_warps = minimum(power_from(warps), WARPS);
        c->leaf_run = (uint32_t)run;
        c->leaf_warps = (uint32_t)leaf_warps;
        c->row_blocks = divide_up(warps, leaf_warps);
        c->unit_groups = divide_up(c->units, WARPS / leaf_warps);
        if (run == 1 || c->unit_groups * c->row_blocks >= ENOUGH_GROUPS || (run == 2 && large)) {
            return;
        }
    }
}

enum { FINISH_THREADS = 256, FINISH_SUMS = 8, FINISH_PARTS = 32, FINISH_CHUNK = 32 };

typedef struct finish_job {
    int64_t parts, length, results, columns, chunk;
} finish_job;

typedef struct finish_constants {
    finish_job jobs[2];
    int64_t first_groups, accumulate;
} finish_constants;

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
            job->parts = sums[i].parts;
            job->length = sums[i].length;
            job->chunk = minimum(power_from(divide_up(job->parts, FINISH_PARTS)), FINISH_CHUNK);
            job->results = divide_up(job->parts, FINISH_PARTS * job->chunk);
            job->columns = divide_up(job->length, FINISH_SUMS);
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

/* A gradient's kernels, by the length of rows: "outer_product_backward_short_f32". */
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
    const int64_t m = call->m, steps = m <= NARROW_ROW ? 1 : m <= SHORT_ROW ? SHORT_ROW / 32 : SEGMENT / 32;
    const int64_t width = minimum(power_from(m), 32), lane_groups = 32 / width;
    backward_constants c = {.n = call->n,
                            .m = m,
                            .segments = divide_up(m, SEGMENT),
                            .width = (uint32_t)width,
                            .accumulate = call->mode == MLXN_ACCUMULATE};
    c.units = c.segments * call->batch;
    plan_slots(call, lane_groups, &c);
    plan_runs(call, lane_groups, m <= NARROW_ROW ? 32 : m <= SHORT_ROW ? 8 : 2, &c);
    mlxn_status status = plan_ring(op, call, dlhs != NULL, steps, &c);
    if (status != MLXN_OK) {
        return status;
    }
    mlxn_slice slices[MLXN_MAX_ARGUMENTS];
    size_t count = 0, sums_count = 0;
    for (; count < op->info.input_count; count++) {
        slices[count] = mlxn_slice_of(call->arguments[count], MLXN_READ);
    }
    partial_sums sums[2];
    if (dlhs != NULL) {
        sums[sums_count++] = (partial_sums){.gradient = dlhs, .parts = c.segments, .length = call->n};
    }
    if (drhs != NULL) {
        sums[sums_count++] = (partial_sums){.gradient = drhs, .parts = c.row_blocks, .length = m};
    }
    for (size_t i = 0; i < sums_count && status == MLXN_OK; i++) {
        status = choose_target(call, &sums[i]);
        slices[count++] = sums[i].slice;
    }
    if (status == MLXN_OK) {
        status = mlxn_encoder_record(call->encoder,
                                     &(mlxn_recording){.kernel = kernel_of(op->kernels[call->dtype], m),
                                                       .slices = slices,
                                                       .slice_count = count,
                                                       .constants = &c,
                                                       .constant_bytes = sizeof c,
                                                       .grid = {(uint64_t)(c.unit_groups * c.row_blocks), 1, 1},
                                                       .group = {32 * WARPS, 1, 1},
                                                       .local_bytes = WARPS * c.warp_bytes,
                                                       .cost = slices[0].bytes});
    }
    return status == MLXN_OK ? record_finish(call, sums, sums_count) : status;
}
