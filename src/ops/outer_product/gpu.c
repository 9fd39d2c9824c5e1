#include "ops/outer_product/gpu.h"

#include <stdio.h>
#include <string.h>

#include "kernels/text.h"

/* ---- the kernels --------------------------------------------------------------------------------- */

/* clang-format off */
#define TEXT_OF(number) TEXT_OF_TOKEN(number)
#define TEXT_OF_TOKEN(number) #number
#define OWN(name, dtype, defines) "#define NAME " #name "_" #dtype "\n#define DTYPE_" #dtype " 1\n" defines
#define TEXT(name, dtype, body, defines) \
    static const char *const name##_##dtype[] = {OWN(name, dtype, defines), mlxn_text_dtypes, mlxn_text_sums, body, NULL};
#define TEXTS(name, body, defines) TEXT(name, f32, body, defines) TEXT(name, f16, body, defines) TEXT(name, bf16, body, defines)

/* Of the gradients there is a kernel for each of these lengths of rows, up to which it serves; the last serves all. Of
 * the longer ones there is one more in the 16-bit types, for elements that do not lie in pairs. */
#define NARROW_LENGTHS(X, ...) X(__VA_ARGS__, 2) X(__VA_ARGS__, 4) X(__VA_ARGS__, 8) X(__VA_ARGS__, 16)
#define LENGTHS(X, ...) X(__VA_ARGS__, 64) X(__VA_ARGS__, 256) X(__VA_ARGS__, 1024)
enum { NARROWEST = 2, NARROW = 16, SHORTEST = 64, SHORT = 256, SEGMENT = 1024 };
#define BACKWARD_THREADS 128
#define BACKWARD_DEFINES(wanted, length) \
    "#define THREADS " TEXT_OF(BACKWARD_THREADS) "\n#define LONGEST " #length "\n" wanted
#define NARROW_TEXTS(name, wanted, length) \
    TEXTS(name##_##length, mlxn_text_outer_product_narrow, BACKWARD_DEFINES(wanted, length))
#define BACKWARD_TEXTS(name, wanted, length) \
    TEXTS(name##_##length, mlxn_text_outer_product_backward, BACKWARD_DEFINES(wanted, length) "#define PACK WORD\n") \
    TEXT(name##_odd##length, f16, mlxn_text_outer_product_backward, BACKWARD_DEFINES(wanted, length) "#define PACK 1\n") \
    TEXT(name##_odd##length, bf16, mlxn_text_outer_product_backward, BACKWARD_DEFINES(wanted, length) "#define PACK 1\n")
#define BACKWARD(name, wanted) NARROW_LENGTHS(NARROW_TEXTS, name, wanted) LENGTHS(BACKWARD_TEXTS, name, wanted)
#define ROWS "#define WANT_ROWS 1\n"
#define COLUMNS "#define WANT_COLUMNS 1\n"

#define FORWARD_THREADS 256
#define FORWARD_ROWS 8  /* that a thread writes, at most */
#define FORWARD_LINES 8
TEXTS(outer_product, mlxn_text_outer_product, "#define THREADS " TEXT_OF(FORWARD_THREADS) "\n#define ROWS "
      TEXT_OF(FORWARD_ROWS) "\n#define LINES " TEXT_OF(FORWARD_LINES) "\n")
#define FINISH_THREADS 256
TEXTS(outer_product_finish, mlxn_text_outer_product_finish, "#define THREADS " TEXT_OF(FINISH_THREADS) "\n")
BACKWARD(outer_product_backward_lhs, ROWS)
BACKWARD(outer_product_backward_rhs, COLUMNS)
BACKWARD(outer_product_backward, ROWS COLUMNS)

#define KERNEL(name, dtype) {#name "_" #dtype, name##_##dtype},
#define KERNELS(name) KERNEL(name, f32) KERNEL(name, f16) KERNEL(name, bf16)
#define NARROW_KERNELS(name, length) KERNELS(name##_##length)
#define BACKWARD_KERNELS(name, length) \
    KERNELS(name##_##length) KERNEL(name##_odd##length, f16) KERNEL(name##_odd##length, bf16)
#define KERNELS_OF(name) NARROW_LENGTHS(NARROW_KERNELS, name) LENGTHS(BACKWARD_KERNELS, name)
static const mlxn_gpu_kernel kernels[] = {
    KERNELS(outer_product)
    KERNELS(outer_product_finish)
    KERNELS_OF(outer_product_backward_lhs)
    KERNELS_OF(outer_product_backward_rhs)
    KERNELS_OF(outer_product_backward)
};
/* clang-format on */
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

enum { FORWARD_SHORT = 16, FORWARD_FEWER_ROWS = 4 };

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
        c.rows = more ? FORWARD_ROWS : FORWARD_FEWER_ROWS;
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
    LEAF = 32,            /* rows of a leaf of a column sum, in the canonical order */
    ENOUGH_GROUPS = 2048, /* keep a large GPU busy, and end at about the same time */
};

/* The constants of outer_product_backward.h. */
typedef struct backward_constants {
    int64_t n, m, segments, units, unit_groups, row_blocks;
    uint32_t leaf_teams, rounds, accumulate;
} backward_constants;

/* Of an item: the partial sums of rows in segments, and of columns in blocks of rows. */
static int64_t partial_bytes(int64_t segments, int64_t n, int64_t m, int64_t row_blocks) {
    return ((segments > 1 ? segments * n : 0) + (row_blocks > 1 ? row_blocks * m : 0)) * (int64_t)sizeof(float);
}

static void plan_backward(const mlxn_op_call *call, int64_t teams, backward_constants *c) {
    const int64_t n = call->n, m = call->m, size = (int64_t)mlxn_dtype_size(call->dtype);
    const int64_t leaves = divide_up(n, LEAF);
    c->leaf_teams = (uint32_t)minimum(teams, power_from(leaves));
    c->unit_groups = divide_up(c->units, teams / c->leaf_teams);

    /* As many rounds as the kernel has levels, unless that leaves too few groups; but no fewer than keep the partial sums
     * within a 64th of dy. */
    const int64_t most = minimum(m <= SHORT ? 8 : 4, power_from(divide_up(leaves, teams)));
    int64_t rounds = most;
    while (rounds > 1 && c->unit_groups * divide_up(leaves, rounds * teams) < ENOUGH_GROUPS) {
        rounds /= 2;
    }
    while (rounds < most && partial_bytes(c->segments, n, m, divide_up(leaves, rounds * teams)) > n * m * size / 64) {
        rounds *= 2;
    }
    c->rounds = (uint32_t)rounds;
    c->row_blocks = divide_up(leaves, rounds * c->leaf_teams);
}

/* The constants of outer_product_narrow.h. */
typedef struct narrow_constants {
    int64_t n, m, items, item_groups, row_blocks;
    uint32_t run, run_warps, accumulate;
} narrow_constants;

static void plan_narrow(const mlxn_op_call *call, int64_t width, narrow_constants *c) {
    enum { WARPS = BACKWARD_THREADS / 32, LONGEST_RUN = 32 };
    const int64_t tiles = divide_up(call->n, 32 / width * LEAF);
    int64_t run = minimum(LONGEST_RUN, power_from(divide_up(tiles, WARPS)));
    for (;; run /= 2) {
        const int64_t warps = divide_up(tiles, run);
        c->run = (uint32_t)run;
        c->run_warps = (uint32_t)minimum(power_from(warps), WARPS);
        c->row_blocks = divide_up(warps, c->run_warps);
        c->item_groups = divide_up(c->items, WARPS / c->run_warps);
        if (run == 1 || c->item_groups * c->row_blocks >= ENOUGH_GROUPS) {
            return;
        }
    }
}

enum { FINISH_BATCH = 8, FINISH_CHUNK = 32 };

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

/* The length of rows up to which the kernel for m columns serves. */
static int64_t length_of(int64_t m) {
    return m > SHORT      ? SEGMENT
           : m > SHORTEST ? SHORT
           : m > NARROW   ? SHORTEST
                          : power_from(m > NARROWEST ? m : NARROWEST);
}

/* A gradient's kernel: "outer_product_backward_256_f32" of "outer_product_backward_f32". */
static const char *kernel_of(const char *plain, bool odd, int64_t length) {
    char wanted[64];
    const char *dtype = strrchr(plain, '_');
    snprintf(wanted, sizeof wanted, "%.*s_%s%d%s", (int)(dtype - plain), plain, odd ? "odd" : "", (int)length, dtype);
    for (size_t i = 0; i < mlxn_outer_product_gpu.count; i++) {
        if (strcmp(kernels[i].name, wanted) == 0) {
            return kernels[i].name;
        }
    }
    return NULL;
}

mlxn_status mlxn_outer_product_gpu_gradients(const mlxn_op *op, const mlxn_op_call *call, const mlxn_buffer *dlhs,
                                             const mlxn_buffer *drhs) {
    const int64_t length = length_of(call->m);
    const bool is_narrow = length <= NARROW;
    /* Rows come as words of 4 bytes, if elements lie so: then a row takes fewer lanes. */
    const int64_t size = (int64_t)mlxn_dtype_size(call->dtype);
    const mlxn_slice dy = mlxn_slice_of(call->arguments[0], MLXN_READ);
    const bool odd = !is_narrow && (mlxn_slice_begin(&dy) % 4 != 0 || call->m * size % 4 != 0);
    const int64_t teams = BACKWARD_THREADS / (odd ? 32 : 8 * size);
    const size_t local = is_narrow ? 27 << 10 : (size_t)teams * (LEAF * 34 + 16) * sizeof(float); /* at most */
    if (call->local_bytes < local) {
        return mlxn_fail(MLXN_UNSUPPORTED, "%s: it takes %zu bytes of local memory, the device has %zu", op->info.name,
                         local, call->local_bytes);
    }
    const int64_t segments = divide_up(call->m, SEGMENT);
    const uint32_t accumulate = call->mode == MLXN_ACCUMULATE;
    backward_constants backward = {call->n, call->m, segments, segments * call->batch, .accumulate = accumulate};
    narrow_constants narrow = {call->n, call->m, call->batch, .accumulate = accumulate};
    if (is_narrow) {
        plan_narrow(call, length, &narrow);
    } else {
        plan_backward(call, teams, &backward);
    }
    const int64_t row_blocks = is_narrow ? narrow.row_blocks : backward.row_blocks;
    const int64_t groups = row_blocks * (is_narrow ? narrow.item_groups : backward.unit_groups);

    mlxn_slice slices[MLXN_MAX_ARGUMENTS];
    size_t count = 0, sums_count = 0;
    for (; count < op->info.input_count; count++) {
        slices[count] = mlxn_slice_of(call->arguments[count], MLXN_READ);
    }
    partial_sums sums[2];
    mlxn_status status = MLXN_OK;
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
            &(mlxn_recording){.kernel = kernel_of(op->kernels[call->dtype], odd, length),
                              .slices = slices,
                              .slice_count = count,
                              .constants = is_narrow ? (const void *)&narrow : (const void *)&backward,
                              .constant_bytes = is_narrow ? sizeof narrow : sizeof backward,
                              .grid = {(uint64_t)groups, 1, 1},
                              .group = {BACKWARD_THREADS, 1, 1},
                              .cost = slices[0].bytes});
    }
    return status == MLXN_OK ? record_finish(call, sums, sums_count) : status;
}
