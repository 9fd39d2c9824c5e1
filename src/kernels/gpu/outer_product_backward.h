/* The gradients of the outer product: WANT_ROWS for dlhs, WANT_COLUMNS for drhs, in the canonical order of sums
 * (docs/numerics.md). Tiles of dy pass through a ring in local memory, a ring a warp, so that the next are on their way
 * while one is summed.
 *
 * A lane stands for a lane of the canonical order and for the columns of that lane: STEPS columns, 32 apart. Rows of less
 * than 32 columns take `width` lanes, and the warp 32 / width runs of leaves side by side: its lane groups. A warp sums a
 * run of leaves a lane group, over one segment of 1024 columns; `leaf_warps` warps of a group of threads take runs below
 * each other, and what they have is added in the end. */
#define WARPS 4
#define THREADS 128
#define SEGMENT 1024
#define LEAF 32
#define PITCH 33 /* of the rows' sums in local memory: lanes that read a column meet different banks */

typedef struct constants {
    i64 n, m;
    i64 segments; /* of a row */
    i64 units;    /* segments of all batch items */
    i64 unit_groups;
    i64 row_blocks; /* of an item: a group of threads takes one */
    u32 width;      /* lanes of a row */
    u32 leaf_run;   /* leaves of a run, a power of two */
    u32 leaf_warps;
    u32 slot_rows;  /* rows of a slot of the ring, a power of two up to 32 */
    u32 leaf_slots; /* slots of a leaf */
    u32 pieces;     /* of a slot: its lane groups' where rows follow each other in memory, else its rows */
    u32 piece_stride;
    u32 slots; /* of the ring */
    u32 warp_bytes;
    u32 accumulate;
} constants;

#define JOIN_LEVELS 7 /* 4 warps of 32 lane groups */

/* Rows that are read before they are summed, where a row is few reads. */
#if STEPS == 1
#define UNROLL_ROWS _Pragma("unroll 8")
#elif STEPS == 8
#define UNROLL_ROWS _Pragma("unroll 2")
#else
#define UNROLL_ROWS _Pragma("unroll 1")
#endif

/* The sum of a row's lanes, as a halving tree. */
FN float sum_lanes(LOCAL const float *lanes, u32 width) {
    float v[32];
    UNROLL
    for (i32 l = 0; l < 32; l++) {
        if ((u32)l < width) {
            v[l] = lanes[l];
        }
    }
    UNROLL
    for (i32 step = 0; step < 5; step++) {
        const i32 distance = 16 >> step;
        if ((u32)distance < width) {
            UNROLL
            for (i32 l = 0; l < 16; l++) {
                if (l < distance) {
                    v[l] = v[l] + v[l + distance];
                }
            }
        }
    }
    return v[0];
}

KERNEL(NAME, THREADS)
(BUFFER(const element, dy),
#if WANT_COLUMNS
 BUFFER(const element, lhs),
#endif
#if WANT_ROWS
 BUFFER(const element, rhs), BUFFER(element, dlhs),
#endif
#if WANT_COLUMNS
 BUFFER(element, drhs),
#endif
 CONSTANTS(constants, c) LOCAL_MEMORY(local_memory)) {
    OPEN(const element, dy);
#if WANT_COLUMNS
    OPEN(const element, lhs);
    OPEN(element, drhs);
#endif
#if WANT_ROWS
    OPEN(const element, rhs);
    OPEN(element, dlhs);
#endif
    OPEN_LOCAL(local_memory);
    const u32 lane = THREAD % 32, warp = THREAD / 32;
#if STEPS > 1
    const u32 width = 32;
#else
    const u32 width = c.width;
#endif
    const u32 lane_group = lane / width, column = lane % width, lane_groups = 32 / width;

    /* What this warp sums: a segment of an item, and a run of leaves a lane group. */
    const u32 unit_warps = WARPS / c.leaf_warps;
    const i64 first_unit = (i64)GROUP % c.unit_groups * unit_warps, block = (i64)GROUP / c.unit_groups;
    const i64 unit = first_unit + warp / c.leaf_warps;
    const bool here = unit < c.units;
    const i64 item = here ? unit / c.segments : 0, segment = here ? unit % c.segments : 0;
    const u32 columns = (u32)(c.m - segment * SEGMENT < SEGMENT ? c.m - segment * SEGMENT : SEGMENT);
    const i64 run_rows = (i64)c.leaf_run * LEAF;
    const i64 warp_row = (block * c.leaf_warps + warp % c.leaf_warps) * lane_groups * run_rows;
    const i64 lane_row = warp_row + lane_group * run_rows;

    /* Its local memory: the ring's barriers, rows' sums, the ring. */
    LOCAL u8 *own = local_memory + warp * c.warp_bytes;
    LOCAL u64 *barriers = (LOCAL u64 *)own;
#if WANT_ROWS
    LOCAL float *row_sums = (LOCAL float *)(own + TILE_BARRIERS);
    LOCAL u8 *ring = own + TILE_BARRIERS + LEAF * PITCH * 4;
#else
    LOCAL u8 *ring = own + TILE_BARRIERS;
#endif
    const u32 slot_bytes = c.pieces * c.piece_stride;

    /* Where its tiles come from. Rows beyond the item's last one are not copied. */
    const bool packed = c.segments == 1;
    const GLOBAL u8 *item_end = (const GLOBAL u8 *)(dy + (here ? (item + 1) * c.n * c.m : 0));
    const GLOBAL u8 *from = (const GLOBAL u8 *)(dy + ((item * c.n + warp_row) * c.m + segment * SEGMENT));
    const i64 piece_step = (packed ? run_rows : 1) * c.m * (i64)sizeof(element);
    const u32 piece_bytes = (packed ? c.slot_rows * (u32)c.m : columns) * (u32)sizeof(element);
    const i64 slot_step = c.slot_rows * c.m * (i64)sizeof(element);
    const u32 total = c.leaf_run * c.leaf_slots;
    tile_begin(barriers, c.slots, c.pieces, lane);
    for (u32 s = 0; s < c.slots && s < total; s++) {
        tile_fetch(ring + s * slot_bytes, from + s * slot_step, piece_step, item_end, c.pieces, piece_bytes,
                   c.piece_stride, barriers + s, lane);
    }

#if WANT_ROWS
    float b[STEPS];
    UNROLL
    for (i32 t = 0; t < STEPS; t++) {
        b[t] = here && column + 32 * t < columns ? widen(rhs[item * c.m + segment * SEGMENT + column + 32 * t]) : 0.0f;
    }
#endif
#if WANT_COLUMNS
    float sums[STEPS];
    float levels[LEVELS * STEPS];
#endif
    const bool full = columns == 32 * STEPS;
    u32 slot = 0, phase = 0, next = c.slots < total ? c.slots : total;
    const GLOBAL u8 *next_from = from + next * slot_step;
    const GLOBAL u8 *piece = from + (packed ? lane_group * piece_step : 0);
    for (u32 leaf = 0; leaf < c.leaf_run; leaf++) {
#if WANT_COLUMNS
        UNROLL
        for (i32 t = 0; t < STEPS; t++) {
            sums[t] = 0.0f;
        }
#endif
        for (u32 part = 0; part < c.leaf_slots; part++) {
            tile_wait(barriers + slot, phase);
            const i64 first_row = lane_row + leaf * LEAF + part * c.slot_rows;
            const i64 left = here ? c.n - first_row : 0;
            const i32 rows = left < c.slot_rows ? (left > 0 ? (i32)left : 0) : (i32)c.slot_rows;
            LOCAL const u8 *at = ring + slot * slot_bytes + (packed ? lane_group * c.piece_stride : 0);
            const i64 row_bytes = c.m * (i64)sizeof(element);
            UNROLL_ROWS
            for (i32 r = 0; r < rows; r++) {
                /* A piece keeps its place within 16 bytes. */
                LOCAL const element *tile =
                    packed
                        ? (LOCAL const element *)(at + ((u64)piece & 15)) + (u32)r * (u32)c.m
                        : (LOCAL const element *)(at + (u32)r * c.piece_stride + ((u64)(piece + r * row_bytes) & 15));
                tile += column;
#if WANT_COLUMNS
                const float l = widen(lhs[item * c.n + first_row + r]);
#endif
#if WANT_ROWS
                float sum = 0.0f;
#endif
                if (full) {
                    UNROLL
                    for (i32 t = 0; t < STEPS; t++) {
                        const float v = widen(tile[32 * t]);
#if WANT_ROWS
                        sum = fma32(v, b[t], sum);
#endif
#if WANT_COLUMNS
                        sums[t] = fma32(v, l, sums[t]);
#endif
                    }
                } else {
                    UNROLL
                    for (i32 t = 0; t < STEPS; t++) {
                        if (column + 32 * t < columns) {
                            const float v = widen(tile[32 * t]);
#if WANT_ROWS
                            sum = fma32(v, b[t], sum);
#endif
#if WANT_COLUMNS
                            sums[t] = fma32(v, l, sums[t]);
#endif
                        }
                    }
                }
#if WANT_ROWS
                row_sums[(part * c.slot_rows + (u32)r) * PITCH + lane] = sum;
#endif
            }
            WARP_BARRIER();
            if (next < total) {
                tile_fetch(ring + slot * slot_bytes, next_from, piece_step, item_end, c.pieces, piece_bytes,
                           c.piece_stride, barriers + slot, lane);
                next++;
                next_from += slot_step;
            }
            piece += slot_step;
            slot++;
            if (slot == c.slots) {
                slot = 0;
                phase ^= 1;
            }
        }
#if WANT_ROWS
        /* A lane adds the lanes of one row of each lane group. */
        for (u32 g = 0; g < lane_groups; g++) {
            const i64 row = warp_row + g * run_rows + leaf * LEAF + lane;
            if (here && lane < c.leaf_slots * c.slot_rows && row < c.n) {
                float sum = sum_lanes(row_sums + lane * PITCH + g * width, width);
                if (packed) {
                    GLOBAL element *to = dlhs + (item * c.n + row);
                    sum += 0.0f;
                    *to = narrow(c.accumulate ? widen(*to) + sum : sum);
                } else {
                    ((GLOBAL float *)dlhs)[(item * c.segments + segment) * c.n + row] = sum;
                }
            }
        }
        WARP_BARRIER();
#endif
#if WANT_COLUMNS
        push_term(sums, levels, leaf, STEPS, LEVELS);
#endif
    }

#if WANT_COLUMNS
    /* The sums of the warps and lane groups below each other. */
    LOCAL float *join = (LOCAL float *)ring;
    UNROLL
    for (i32 t = 0; t < STEPS; t++) {
        join[lane + 32 * t] = sums[t];
    }
    GROUP_BARRIER();
    const u32 tall = c.leaf_warps * lane_groups, wide = 32 * STEPS / lane_groups;
    for (u32 k = THREAD; k < unit_warps * wide; k += THREADS) {
        const i64 other = first_unit + k / wide;
        const i64 to_item = other / c.segments, to_column = other % c.segments * SEGMENT + k % wide;
        if (other < c.units && to_column < c.m) {
            float sum, waiting[JOIN_LEVELS];
            for (u32 e = 0; e < tall; e++) {
                LOCAL const float *of =
                    (LOCAL const float *)((LOCAL u8 *)join +
                                          ((i64)(k / wide * c.leaf_warps + e / lane_groups) - warp) * c.warp_bytes);
                sum = of[e % lane_groups * width + k % wide];
                push_term(&sum, waiting, e, 1, JOIN_LEVELS);
            }
            if (c.row_blocks == 1) {
                GLOBAL element *to = drhs + (to_item * c.m + to_column);
                sum += 0.0f;
                *to = narrow(c.accumulate ? widen(*to) + sum : sum);
            } else {
                ((GLOBAL float *)drhs)[(to_item * c.row_blocks + block) * c.m + to_column] = sum;
            }
        }
    }
#endif
}
