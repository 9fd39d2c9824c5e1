#include "ops/outer_product/gpu.h"

#include <stdio.h>

#include "kernels/text.h"

/* ---- the kernels --------------------------------------------------------------------------------- */

/* clang-format off */
#define TEXT_OF(number) TEXT_OF_TOKEN(number)
#define TEXT_OF_TOKEN(number) #number
#define OWN(name, dtype, defines) "#define NAME " #name "_" #dtype "\n#define DTYPE_" #dtype " 1\n" defines
#define TEXT(name, dtype, defines, ...) \
    static const char *const name##_##dtype[] = {OWN(name, dtype, defines), mlxn_text_dtypes, mlxn_text_sums, __VA_ARGS__, NULL};
#define TEXTS(name, ...) TEXT(name, f32, __VA_ARGS__) TEXT(name, f16, __VA_ARGS__) TEXT(name, bf16, __VA_ARGS__)

/* Of the gradients there is a kernel for each power of two up to the longest, of the rows up to which it serves. Longer ones
 * than 16 also have one in the 16-bit types for elements that do not lie in pairs, "odd", and the longest with column sums
 * one for matrices of a single leaf of rows, "leaf". */
#define BACKWARD_THREADS 128
#define WIDE_THREADS 64 /* for both sums of the longest */
#define BACKWARD_DEFINES(wanted, length, threads) \
    "#define THREADS " TEXT_OF(threads) "\n#define LONGEST " #length "\n" wanted
#define NARROW_TEXT(name, wanted, length) TEXTS(name##_##length, BACKWARD_DEFINES(wanted, length, BACKWARD_THREADS), \
    mlxn_text_outer_product_gradients, mlxn_text_outer_product_narrow)
#define VARIANT_TEXT(make, name, wanted, length, threads, leaf, pack) \
    make(name, BACKWARD_DEFINES(wanted, length, threads) "#define ONE_LEAF " #leaf "\n#define PACK " #pack "\n", \
         mlxn_text_outer_product_gradients, mlxn_text_outer_product_backward)
#define TEXTS_16(name, ...) TEXT(name, f16, __VA_ARGS__) TEXT(name, bf16, __VA_ARGS__)
#define VARIANT(name, kind, wanted, length, threads, leaf) \
    VARIANT_TEXT(TEXTS, name##_##kind##length, wanted, length, threads, leaf, WORD) \
    VARIANT_TEXT(TEXTS_16, name##_odd##kind##length, wanted, length, threads, leaf, 1)
#define WANTED(rows, columns) "#define WANT_ROWS " #rows "\n#define WANT_COLUMNS " #columns "\n"
#define LENGTHS(narrow, variant, name, wanted) \
    narrow(name, wanted, 2) narrow(name, wanted, 4) narrow(name, wanted, 8) narrow(name, wanted, 16) \
    variant(name, , wanted, 32, BACKWARD_THREADS, 0) variant(name, , wanted, 64, BACKWARD_THREADS, 0) \
    variant(name, , wanted, 128, BACKWARD_THREADS, 0) variant(name, , wanted, 256, BACKWARD_THREADS, 0) \
    variant(name, , wanted, 512, BACKWARD_THREADS, 0)
#define GRADIENTS(narrow, variant) \
    LENGTHS(narrow, variant, outer_product_backward_lhs, WANTED(1, 0)) \
    LENGTHS(narrow, variant, outer_product_backward_rhs, WANTED(0, 1)) \
    LENGTHS(narrow, variant, outer_product_backward, WANTED(1, 1)) \
    variant(outer_product_backward_lhs, , WANTED(1, 0), 1024, BACKWARD_THREADS, 0) \
    variant(outer_product_backward, , WANTED(1, 1), 1024, WIDE_THREADS, 0) \
    variant(outer_product_backward_rhs, leaf, WANTED(0, 1), 512, BACKWARD_THREADS, 1) \
    variant(outer_product_backward, leaf, WANTED(1, 1), 1024, BACKWARD_THREADS, 1)
GRADIENTS(NARROW_TEXT, VARIANT)

#define FORWARD_THREADS 256
#define FORWARD_ROWS 8 /* that a thread writes, at most */
#define FORWARD_LINES 8
#define FORWARD_TEXTS(name, ...) TEXTS(name, "#define THREADS " TEXT_OF(FORWARD_THREADS) "\n#define ROWS " \
    TEXT_OF(FORWARD_ROWS) "\n#define LINES " TEXT_OF(FORWARD_LINES) "\n", mlxn_text_outer_product, __VA_ARGS__)
FORWARD_TEXTS(outer_product_by_rows, mlxn_text_outer_product_by_rows)
FORWARD_TEXTS(outer_product_by_lines, mlxn_text_outer_product_lines, mlxn_text_outer_product_by_lines)
FORWARD_TEXTS(outer_product_by_items, mlxn_text_outer_product_lines, mlxn_text_outer_product_by_items)
FORWARD_TEXTS(outer_product_by_shifts, mlxn_text_outer_product_by_shifts)
#define FINISH_THREADS 256
TEXTS(outer_product_finish, "#define THREADS " TEXT_OF(FINISH_THREADS) "\n", mlxn_text_outer_product_finish)

#define KERNEL(name, dtype) {#name "_" #dtype, name##_##dtype},
#define KERNELS(name) KERNEL(name, f32) KERNEL(name, f16) KERNEL(name, bf16)
#define NARROW_KERNELS(name, wanted, length) KERNELS(name##_##length)
#define VARIANT_KERNELS(name, kind, wanted, length, threads, leaf) \
    KERNELS(name##_##kind##length) KERNEL(name##_odd##kind##length, f16) KERNEL(name##_odd##kind##length, bf16)
static const mlxn_gpu_kernel kernels[] = {
    KERNELS(outer_product_by_rows)
    KERNELS(outer_product_by_lines)
    KERNELS(outer_product_by_items)
    KERNELS(outer_product_by_shifts)
    KERNELS(outer_product_finish)
    GRADIENTS(NARROW_KERNELS, VARIANT_KERNELS)
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

typedef struct kernel_name {
    char text[64];
} kernel_name;

/* "outer_product_backward_256_f32", of which "256" is the way. */
static kernel_name name_of(const mlxn_op *op, const mlxn_op_call *call, const char *way) {
    kernel_name name;
    snprintf(name.text, sizeof name.text, "%s_%s_%s", op->info.name, way, mlxn_dtype_name(call->dtype));
    return name;
}

/* ---- the forward --------------------------------------------------------------------------------- */

typedef struct forward_constants {
    int64_t n, m, total, tiles, blocks;
    uint32_t across_log2, rows, turns_log2, straight;
    int64_t step_item, step_row, step_column;
    int64_t strip, across, down, strip_bytes;
    uint32_t ahead_log2, ahead_first, ahead_of_rhs;
    int64_t ahead_each, ahead_bytes;
} forward_constants;

/* Each group writes `written` bytes, and reads `each` of an argument's `bytes` that none before it has. These are read for many
 * groups at once, and shortly before: so that they are still there, and what is written between two bursts is as much as keeps
 * the memory busy. What fits a cache anyhow need not be read ahead. */
static void plan_ahead(forward_constants *c, bool of_rhs, int64_t bytes, int64_t each, int64_t written) {
    enum { LITTLE = 1 << 20, TOGETHER = 4 << 20, BETWEEN = 64 << 20, BEFORE = 4 << 20 }; /* as measured */
    if (bytes > LITTLE && each > 0) {
        while (each << (c->ahead_log2 + 1) <= TOGETHER && written << (c->ahead_log2 + 1) <= BETWEEN) {
            c->ahead_log2++;
        }
        const int64_t groups = (int64_t)1 << c->ahead_log2, last = divide_up(BEFORE, written);
        c->ahead_first = (uint32_t)(groups > last ? groups - last : 0);
        c->ahead_of_rhs = of_rhs;
        c->ahead_each = each;
        c->ahead_bytes = bytes;
    }
}

/* Whether a row of rhs is too long to stay in a cache while the next rows of y are written. */
static bool is_far(const mlxn_op_call *call) {
    enum { FAR = 4 << 20 };
    return call->m * (int64_t)mlxn_dtype_size(call->dtype) > FAR;
}

/* For at least `groups` groups, of which `across` write side by side, `each` bytes of a row. Returns how many they are. */
static int64_t plan_strips(forward_constants *c, int64_t groups, int64_t across, int64_t each) {
    enum { STRIP = 2 << 20 };
    c->strip = STRIP / each;
    c->strip_bytes = c->total == c->n * c->m ? STRIP : 0;
    c->across = across;
    c->down = divide_up(groups, across);
    return c->across * c->down;
}

/* How many rows a thread writes, as measured. */
static int64_t forward_rows(const mlxn_op_call *call, int64_t across) {
    if (is_far(call)) {
        return divide_up(call->n, divide_up(call->n, FORWARD_ROWS));
    }
    if (call->dtype == MLXN_F32) {
        return across <= 2 ? 2 : 4;
    }
    return across < FORWARD_THREADS ? 4 : FORWARD_ROWS;
}

/* How many groups a multiprocessor is to work on at a time, as measured on an H200; 0: as many as it has room for. What is read
 * waits behind what waits to be written: so where much is read beside, the groups are just as many as keep the memory busy. */
static int64_t few_by_rows(const mlxn_op_call *call, const forward_constants *c) {
    enum { LEAST = 3, FEW_BLOCKS = 3 };
    const bool f32 = call->dtype == MLXN_F32;
    int64_t lines = 0; /* that a thread writes, times the groups */
    if (c->tiles == 1) {
        lines = call->m < 8 ? 8 : call->m < 16 ? 12 : 16;
    } else if (is_far(call) && c->blocks == 1) {
        lines = f32 ? 12 : 20;
    } else if (is_far(call) && c->blocks <= FEW_BLOCKS && f32) {
        lines = 20;
    }
    return lines > 0 && lines / c->rows < LEAST ? LEAST : lines / c->rows;
}

static int64_t few_by_items(const mlxn_op_call *call, bool aligned) {
    const int64_t longest = FORWARD_THREADS - 4; /* row of f32 that the kernel has in local memory */
    if (aligned) {
        return 3;
    }
    return call->dtype == MLXN_F32 && call->m <= longest ? (call->m < 8 ? 3 : 4) : 0;
}

/* Plans a kernel by rows, of so many lines, of which a group takes `across` side by side, and returns its groups. */
static int64_t plan_rows(const mlxn_op_call *call, int64_t row_lines, int64_t across, forward_constants *c) {
    const int64_t size = (int64_t)mlxn_dtype_size(call->dtype), step = FORWARD_THREADS / across;
    while (1 << c->across_log2 < across) {
        c->across_log2++;
    }
    c->tiles = divide_up(row_lines, across);
    c->blocks = divide_up(c->n, (c->rows * step) << c->turns_log2) << c->turns_log2;
    c->straight = call->batch == 1 && c->tiles == 1;
    const bool of_rhs = c->tiles > 1;
    if (!of_rhs || c->blocks == 1) {
        const int64_t bytes = (of_rhs ? c->m : c->n) * call->batch * size;
        const int64_t each = of_rhs ? across * 16 : c->rows * step * size;
        plan_ahead(c, of_rhs, bytes, each, c->rows * (int64_t)FORWARD_THREADS * 16);
    }
    const int64_t groups = call->batch * c->blocks * c->tiles;
    return is_far(call) && c->blocks > 1 ? plan_strips(c, groups, c->tiles, across * 16) : groups;
}

static int64_t plan_by_rows(const mlxn_op_call *call, int64_t row_lines, forward_constants *c) {
    const int64_t across = minimum(row_lines, FORWARD_THREADS);
    c->rows = (uint32_t)forward_rows(call, across);
    return plan_rows(call, row_lines, across, c);
}

/* A thread's rows begin at the same place in a line: they are a line's number of elements apart, or as many as a group takes side
 * by side. How many of both, as measured: 16-bit elements take so much arithmetic that threads without a line cost time. */
static int64_t plan_by_shifts(const mlxn_op_call *call, int64_t line, forward_constants *c) {
    enum { LEAST_ACROSS = 32, FEWER_ROWS = 6, FEWER_FROM = 48 };
    const bool f32 = call->dtype == MLXN_F32;
    const int64_t lines = divide_up(call->m + line - 1, line); /* the first may begin in front of the row */
    int64_t across = FORWARD_THREADS;
    while (!f32 && across > LEAST_ACROSS && divide_up(lines, across) * across - lines > lines / 8) {
        across /= 2;
    }
    const int64_t beside = FORWARD_THREADS / across, rows = divide_up(call->n, beside > line ? beside : line);
    c->rows = (uint32_t)divide_up(rows, divide_up(rows, f32 && rows >= FEWER_FROM ? FEWER_ROWS : FORWARD_ROWS));
    while (beside << c->turns_log2 < line) {
        c->turns_log2++;
    }
    return plan_rows(call, lines, across, c);
}

/* Plans the other kernels. */
static int64_t plan_lines(const mlxn_op_call *call, bool by_items, forward_constants *c) {
    const int64_t size = (int64_t)mlxn_dtype_size(call->dtype), line = 16 / size, step = FORWARD_THREADS * line;
    const int64_t n = c->n, m = c->m, elements = step * FORWARD_LINES;
    c->step_item = step / m / n;
    c->step_row = step / m % n;
    c->step_column = step % m;
    plan_ahead(c, false, n * call->batch * size, elements / m * size, elements * size);
    /* One line more than the total has: the first may begin before it. */
    const int64_t groups = divide_up(divide_up(c->total, line) + 1, FORWARD_THREADS * FORWARD_LINES);
    return is_far(call) && by_items && n > 1 ? plan_strips(c, groups, divide_up(m, elements), elements * size) : groups;
}

mlxn_status mlxn_outer_product_gpu_forward(const mlxn_op *op, const mlxn_op_call *call) {
    /* Elements of a row, and rows for each that a line has, from which on shifts pay. */
    enum { LONG = 512, MANY = 16 };
    const mlxn_slice slices[] = {mlxn_slice_of(call->arguments[0], MLXN_READ),
                                 mlxn_slice_of(call->arguments[1], MLXN_READ),
                                 mlxn_slice_of(call->arguments[2], MLXN_WRITE)};
    const int64_t size = (int64_t)mlxn_dtype_size(call->dtype), line = 16 / size, row_lines = call->m / line;
    const int64_t n = call->n, m = call->m, group = FORWARD_THREADS * FORWARD_LINES * line;
    forward_constants c = {.n = n, .m = m, .total = call->batch * n * m};
    const bool aligned_y = mlxn_slice_begin(&slices[2]) % 16 == 0;
    const bool aligned = aligned_y && mlxn_slice_begin(&slices[1]) % 16 == 0 && m % line == 0;
    /* A group has lines of one item alone by rows, which tiny matrices would not fill. */
    const bool fills = call->batch == 1 || n * row_lines >= FORWARD_THREADS;
    const char *way = "by_lines";
    int64_t groups, few = 0;
    if (aligned && fills && (row_lines >= FORWARD_THREADS || power_from(row_lines) == row_lines)) {
        way = "by_rows";
        groups = plan_by_rows(call, row_lines, &c);
        few = few_by_rows(call, &c);
    } else if (!aligned && m >= LONG && n >= MANY * line) {
        way = "by_shifts";
        groups = plan_by_shifts(call, line, &c);
    } else if (aligned_y && call->batch == 1 && line % m == 0) { /* a line is whole rows */
        c.straight = 1;
        groups = plan_lines(call, false, &c);
    } else if (n * m >= 2 * group && m <= INT32_MAX) {
        way = "by_items";
        groups = plan_lines(call, true, &c);
        few = few_by_items(call, aligned);
    } else {
        groups = plan_lines(call, false, &c);
    }
    const kernel_name name = name_of(op, call, way);
    /* What caches hold is written faster than the memory would take it; up to twice that, some of it. */
    const uint64_t cache = mlxn_encoder_device(call->encoder)->info.cache_bytes;
    const bool outgrows = cache > 0 && slices[2].bytes / 2 > cache;
    return mlxn_encoder_record(call->encoder, &(mlxn_recording){.kernel = name.text,
                                                                .slices = slices,
                                                                .slice_count = 3,
                                                                .constants = &c,
                                                                .constant_bytes = sizeof c,
                                                                .grid = {(uint64_t)groups, 1, 1},
                                                                .group = {FORWARD_THREADS, 1, 1},
                                                                .resident_groups = outgrows ? (uint32_t)few : 0,
                                                                .cost = slices[2].bytes});
}

/* ---- the gradients ------------------------------------------------------------------------------- */

enum {
    SEGMENT = 1024, /* of a row's sum, in the canonical order, */
    LEAF = 32,      /* and rows of a leaf of a column's */
    LEVELS = 3,     /* of a group's tree of rounds */
    COLUMNS = 512,  /* the longest kernel where row sums are not wanted */
    NARROW = 16,    /* up to here kernels take several rows at a time */
    NARROWEST = 2,
};

/* The constants of outer_product_backward.h. */
typedef struct backward_constants {
    int64_t n, m, segments, units, unit_groups, row_blocks;
    uint32_t leaf_teams, rounds, accumulate, keeps;
} backward_constants;

/* Local memory of a group, at most: AREA floats for each team, and where it adds column sums up those that wait. */
static size_t backward_local_bytes(int64_t teams, int64_t length, bool adds) {
    const int64_t waiting = adds ? LEVELS * (length > BACKWARD_THREADS ? length : BACKWARD_THREADS) : 0;
    return (size_t)(teams * (LEAF * 34 + 16) + waiting) * sizeof(float);
}

/* Of an item's partial sums. */
static int64_t partial_bytes(int64_t row_parts, int64_t n, int64_t m, int64_t row_blocks) {
    return ((row_parts > 1 ? row_parts * n : 0) + (row_blocks > 1 ? row_blocks * m : 0)) * (int64_t)sizeof(float);
}

/* Where a group has room for `teams` teams, a large GPU is busy with `enough` groups, and rows' sums come in `row_parts`. */
static void plan_backward(const mlxn_op_call *call, int64_t teams, int64_t enough, int64_t row_parts,
                          backward_constants *c) {
    const int64_t n = call->n, m = call->m, size = (int64_t)mlxn_dtype_size(call->dtype);
    const int64_t leaves = divide_up(n, LEAF);
    c->leaf_teams = (uint32_t)minimum(teams, power_from(leaves));
    c->unit_groups = divide_up(c->units, teams / c->leaf_teams);

    /* As many rounds as the kernel has levels, unless that leaves too few groups; but no fewer than keep the partial sums
     * within a 64th of dy. */
    const int64_t most = minimum(1 << LEVELS, power_from(divide_up(leaves, teams)));
    int64_t rounds = most;
    while (rounds > 1 && c->unit_groups * divide_up(leaves, rounds * teams) < enough) {
        rounds /= 2;
    }
    while (rounds < most && partial_bytes(row_parts, n, m, divide_up(leaves, rounds * teams)) > n * m * size / 64) {
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
    enum { WARPS = BACKWARD_THREADS / 32, LONGEST_RUN = 4, ENOUGH_GROUPS = 2048 };
    const int64_t words = width * (int64_t)mlxn_dtype_size(call->dtype) / 4;
    const int64_t tiles = divide_up(call->n, 32 / words * LEAF);
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

enum { FINISH_CHUNK = 8, FINISH_LONGEST = 32 };

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
    while (across > 8 && (FINISH_THREADS / across * FINISH_CHUNK < parts || across / 2 >= length)) {
        across /= 2;
    }
    const int64_t together = FINISH_THREADS / across, wanted = power_from(divide_up(parts, together));
    const int64_t chunk = minimum(wanted, FINISH_LONGEST);
    return (finish_job){.parts = parts,
                        .length = length,
                        .results = divide_up(parts, together * chunk),
                        .columns = divide_up(length, across),
                        .across = (uint32_t)across,
                        .chunk = (uint32_t)chunk};
}

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
        uint64_t cost = 0;
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
            cost += slices[2 * jobs].bytes;
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
            mlxn_encoder_record(call->encoder, &(mlxn_recording){.kernel = mlxn_outer_product_finish[call->dtype],
                                                                 .slices = slices,
                                                                 .slice_count = 4,
                                                                 .constants = &c,
                                                                 .constant_bytes = sizeof c,
                                                                 .grid = {(uint64_t)groups, 1, 1},
                                                                 .group = {FINISH_THREADS, 1, 1},
                                                                 .cost = cost});
        if (status != MLXN_OK) {
            return status;
        }
    }
}

/* Which kernel serves for a gradient. */
typedef struct choice {
    int64_t length; /* of rows, up to which it serves */
    bool narrow, odd, leaf;
    bool adds; /* columns' sums of leaves below each other, in local memory */
} choice;

/* Whether the rows of m elements that begin there come as words of 4 bytes. */
static bool is_in_words(const mlxn_op_call *call, const mlxn_buffer *rows) {
    const mlxn_slice its = mlxn_slice_of(rows, MLXN_READ);
    return mlxn_slice_begin(&its) % 4 == 0 && call->m * (int64_t)mlxn_dtype_size(call->dtype) % 4 == 0;
}

static choice choose_kernel(const mlxn_op_call *call, const mlxn_buffer *rhs, const mlxn_buffer *drhs) {
    const int64_t m = call->m, longest = rhs != NULL ? SEGMENT : COLUMNS;
    choice its = {.narrow = m <= NARROW};
    its.length = minimum(power_from(m > NARROWEST ? m : NARROWEST), longest);
    /* In words, a row takes fewer lanes. */
    its.odd = !its.narrow && !(is_in_words(call, call->arguments[0]) && (rhs == NULL || is_in_words(call, rhs)) &&
                               (drhs == NULL || is_in_words(call, drhs)));
    its.leaf = drhs != NULL && call->n <= LEAF && its.length == longest;
    its.adds = drhs != NULL && !its.leaf;
    return its;
}

/* Whether gradients, if there are any, take little of the device's cache. */
static bool are_small(const mlxn_op_call *call, const mlxn_buffer *gradients) {
    enum { SHARE = 8 };
    const uint64_t cache = mlxn_encoder_device(call->encoder)->info.cache_bytes;
    return gradients == NULL || gradients->bytes <= cache / SHARE;
}

mlxn_status mlxn_outer_product_gpu_gradients(const mlxn_op *op, const mlxn_op_call *call, const mlxn_buffer *dlhs,
                                             const mlxn_buffer *drhs) {
    const mlxn_buffer *rhs = dlhs != NULL ? call->arguments[op->info.input_count - 1] : NULL;
    const choice its = choose_kernel(call, rhs, drhs);
    const uint32_t threads = its.adds && its.length == SEGMENT ? WIDE_THREADS : BACKWARD_THREADS;
    const int64_t teams = threads / (its.odd ? 32 : 8 * (int64_t)mlxn_dtype_size(call->dtype));
    const size_t local = its.narrow ? 32 << 10 : backward_local_bytes(teams, its.length, its.adds);
    if (call->local_bytes < local) {
        return mlxn_fail(MLXN_UNSUPPORTED, "%s: it takes %zu bytes of local memory, the device has %zu", op->info.name,
                         local, call->local_bytes);
    }
    const int64_t segments = divide_up(call->m, its.length);
    const uint32_t accumulate = call->mode == MLXN_ACCUMULATE;
    backward_constants backward = {call->n, call->m, segments, segments * call->batch, .accumulate = accumulate};
    backward.keeps = are_small(call, dlhs) && are_small(call, drhs);
    narrow_constants narrow = {call->n, call->m, call->batch, .accumulate = accumulate};
    if (its.narrow) {
        plan_narrow(call, its.length, &narrow);
    } else {
        /* As measured; sums of rows alone gain nothing from long rounds. */
        const int64_t enough = drhs == NULL ? 8192 : its.length == SEGMENT ? 512 : 1024;
        plan_backward(call, teams, enough, dlhs != NULL ? segments : 1, &backward);
    }
    const int64_t row_blocks = its.narrow ? narrow.row_blocks : backward.row_blocks;
    const int64_t groups = row_blocks * (its.narrow ? narrow.item_groups : backward.unit_groups);

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
        char way[24];
        snprintf(way, sizeof way, "%s%s%d", its.odd ? "odd" : "", its.leaf ? "leaf" : "", (int)its.length);
        const kernel_name name = name_of(op, call, way);
        status = mlxn_encoder_record(
            call->encoder, &(mlxn_recording){.kernel = name.text,
                                             .slices = slices,
                                             .slice_count = count,
                                             .constants = its.narrow ? (const void *)&narrow : (const void *)&backward,
                                             .constant_bytes = its.narrow ? sizeof narrow : sizeof backward,
                                             .grid = {(uint64_t)groups, 1, 1},
                                             .group = {threads, 1, 1},
                                             .cost = slices[0].bytes});
    }
    return status == MLXN_OK ? record_finish(call, sums, sums_count) : status;
}
