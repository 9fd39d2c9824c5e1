/* The gradients of the outer product: WANT_ROWS for dlhs, WANT_COLUMNS for drhs, both in one pass over dy. Tiles of dy pass
 * through a ring in local memory, a ring a warp, so that the next are on their way while one is summed.
 *
 * A lane stands for a lane of the canonical order and for the columns of that lane: STEPS of them, 32 apart. A warp sums
 * leaves of 32 rows of one segment of 1024 columns; `leaf_warps` warps of a group of threads do leaves below each other, at
 * the same time, and the others the same of the next segments. After each of `rounds` rounds the leaves' column sums are
 * added up. A group leaves partial sums, unless it has seen all of a sum. */
#define WARPS 4
#define THREADS 128
#define SEGMENT 1024
#define LEAF 32
#define PITCH 33 /* of the lanes' sums of a row, which lie in local memory: a column of them meets all banks */
#if STEPS == 32
#define LEVELS 2
#else
#define LEVELS 3
#endif
#define TURN (STEPS / WARPS) /* columns of a thread when column sums are added up */

typedef struct constants {
    i64 n, m;
    i64 segments; /* of a row */
    i64 units;    /* segments of all batch items */
    i64 unit_groups;
    i64 row_blocks; /* of an item: a group of threads takes one */
    u32 leaf_warps;
    u32 rounds;     /* a power of two up to 2^LEVELS; 1 where leaf_warps is less than WARPS */
    u32 slot_rows;  /* rows of a slot of the ring, a power of two up to LEAF */
    u32 leaf_slots; /* slots of a leaf */
    u32 pieces;     /* of a slot: one where rows follow each other in memory, else one a row */
    u32 piece_stride;
    u32 slots; /* of the ring */
    u32 slot_bytes;
    u32 warp_bytes;
    u32 accumulate;
} constants;

#if STEPS == 8
#define UNROLL_ROWS UNROLL_BY_4
#else
#define UNROLL_ROWS
#endif

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

    /* What this warp sums. */
    const u32 unit_warps = WARPS / c.leaf_warps;
    const i64 block = quotient((i64)GROUP, c.unit_groups);
    const i64 first_unit = ((i64)GROUP - block * c.unit_groups) * unit_warps;
    const i64 unit = first_unit + warp / c.leaf_warps;
    const bool here = unit < c.units;
    const i64 item = here ? quotient(unit, c.segments) : 0, segment = here ? unit - item * c.segments : 0;
    const u32 columns = (u32)(c.m - segment * SEGMENT < SEGMENT ? c.m - segment * SEGMENT : SEGMENT);
    i64 row = (block * c.rounds * c.leaf_warps + warp % c.leaf_warps) * LEAF; /* the leaf's first */

    /* Where its tiles come from, and their way: rows beyond the item's last one are not copied. */
    const bool packed = c.segments == 1;
    const i64 row_bytes = c.m * (i64)sizeof(element), slot_step = c.slot_rows * row_bytes;
    const i64 next_leaf = (i64)(c.leaf_warps - 1) * LEAF * row_bytes;
    const GLOBAL u8 *item_end = (const GLOBAL u8 *)(dy + (here ? (item + 1) * c.n * c.m : 0));
    const GLOBAL u8 *piece = (const GLOBAL u8 *)(dy + ((item * c.n + row) * c.m + segment * SEGMENT)), *next = piece;
    const u32 piece_bytes = (packed ? c.slot_rows * (u32)c.m : columns) * (u32)sizeof(element);
    LOCAL u8 *ring = local_memory + warp * c.warp_bytes;
    LOCAL float *lanes_sums = (LOCAL float *)(ring + c.slots * c.slot_bytes);
#if WANT_COLUMNS
    LOCAL float *leaf_lhs = lanes_sums + LEAF * PITCH; /* which are read a leaf ahead */
    const i64 last = item * c.n + c.n - 1;
    float lane_lhs = widen(lhs[item * c.n + row + lane < last ? item * c.n + row + lane : last]);
#endif
    u32 to_send = c.rounds * c.leaf_slots, slot = 0, next_part = 0;
    for (u32 s = 0; s < c.slots; s++) {
        if (to_send > 0) {
            tile_fetch(ring + s * c.slot_bytes, next, row_bytes, item_end, c.pieces, piece_bytes, c.piece_stride, lane);
            next += slot_step;
            if (++next_part == c.leaf_slots) {
                next_part = 0;
                next += next_leaf;
            }
            to_send--;
        }
        tile_sent();
    }

#if WANT_ROWS
    float b[STEPS];
    UNROLL
    for (i32 t = 0; t < STEPS; t++) {
        const u32 column = lane + 32 * t < columns ? lane + 32 * t : columns - 1;
        b[t] = widen(rhs[item * c.m + segment * SEGMENT + column]);
    }
#endif
#if WANT_COLUMNS
    float sums[STEPS], added[TURN], levels[LEVELS * TURN];
#endif
    const bool full = columns == 32 * STEPS;
    for (u32 round = 0; round < c.rounds; round++) {
#if WANT_COLUMNS
        UNROLL
        for (i32 t = 0; t < STEPS; t++) {
            sums[t] = 0.0f;
        }
#endif
#if WANT_COLUMNS
        leaf_lhs[lane] = lane_lhs;
        const i64 next_row = item * c.n + row + c.leaf_warps * LEAF + lane;
        lane_lhs = widen(lhs[next_row < last ? next_row : last]);
#endif
        for (u32 part = 0; part < c.leaf_slots; part++) {
            tile_wait(c.slots);
            const i64 first_row = row + part * c.slot_rows, left = here ? c.n - first_row : 0;
            const i32 rows = left < c.slot_rows ? (left > 0 ? (i32)left : 0) : (i32)c.slot_rows;
            LOCAL const u8 *at = ring + slot * c.slot_bytes;
            UNROLL_ROWS
            for (i32 r = 0; r < rows; r++) {
                /* A piece keeps its place within 16 bytes. */
                LOCAL const element *tile =
                    (LOCAL const element *)(packed
                                                ? at + ((u64)piece & 15) + (u32)r * (u32)row_bytes
                                                : at + ((u64)(piece + r * row_bytes) & 15) + (u32)r * c.piece_stride);
                tile += lane;
#if WANT_COLUMNS
                const float l = leaf_lhs[part * c.slot_rows + (u32)r];
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
                } else { /* what lies beyond the row may be anything, and is in nobody's sum */
                    UNROLL
                    for (i32 t = 0; t < STEPS; t++) {
                        const float v = widen(tile[32 * t]);
#if WANT_ROWS
                        sum = lane + 32 * t < columns ? fma32(v, b[t], sum) : sum;
#endif
#if WANT_COLUMNS
                        sums[t] = fma32(v, l, sums[t]);
#endif
                    }
                }
#if WANT_ROWS
                lanes_sums[(part * c.slot_rows + (u32)r) * PITCH + lane] = sum;
#endif
            }
            WARP_BARRIER();
            if (to_send > 0) {
                tile_fetch(ring + slot * c.slot_bytes, next, row_bytes, item_end, c.pieces, piece_bytes, c.piece_stride,
                           lane);
                next += slot_step;
                if (++next_part == c.leaf_slots) {
                    next_part = 0;
                    next += next_leaf;
                }
                to_send--;
            }
            tile_sent();
            piece += slot_step;
            slot = slot + 1 < c.slots ? slot + 1 : 0;
        }
        piece += next_leaf;
#if WANT_ROWS
        /* A lane adds the lanes of one row. */
        if (here && row + lane < c.n) {
            float lanes[32];
            UNROLL
            for (i32 l = 0; l < 32; l++) {
                lanes[l] = lanes_sums[lane * PITCH + l];
            }
            const float sum = sum_lanes(lanes, 32);
            if (packed) {
                write_sum(dlhs + (item * c.n + row + lane), sum, c.accumulate != 0);
            } else {
                ((GLOBAL float *)dlhs)[(item * c.segments + segment) * c.n + row + lane] = sum;
            }
        }
        WARP_BARRIER();
#endif
#if WANT_COLUMNS
        UNROLL
        for (i32 t = 0; t < STEPS; t++) {
            lanes_sums[lane + 32 * t] = sums[t];
        }
        GROUP_BARRIER();
        if (c.leaf_warps == WARPS) {
            UNROLL
            for (i32 k = 0; k < TURN; k++) {
                LOCAL const u8 *of =
                    local_memory + c.slots * c.slot_bytes + (THREAD + k * THREADS) * (u32)sizeof(float);
                const float s0 = *(LOCAL const float *)of, s1 = *(LOCAL const float *)(of + c.warp_bytes);
                const float s2 = *(LOCAL const float *)(of + 2 * c.warp_bytes);
                const float s3 = *(LOCAL const float *)(of + 3 * c.warp_bytes);
                added[k] = (s0 + s1) + (s2 + s3);
            }
            push_term(added, levels, round, TURN, LEVELS);
        }
        GROUP_BARRIER();
#endif
        row += c.leaf_warps * LEAF;
    }

#if WANT_COLUMNS
    if (c.leaf_warps == WARPS) {
        /* By way of local memory, which may be indexed. */
        LOCAL float *own = (LOCAL float *)local_memory + THREAD;
        UNROLL
        for (i32 k = 0; k < TURN; k++) {
            own[k * THREADS] = added[k];
        }
        GLOBAL element *to = drhs + (item * c.m + segment * SEGMENT);
        GLOBAL float *part = (GLOBAL float *)drhs + ((item * c.row_blocks + block) * c.m + segment * SEGMENT);
        for (u32 column = THREAD; column < columns && here; column += THREADS) {
            const float sum = *own;
            own += THREADS;
            if (c.row_blocks == 1) {
                write_sum(to + column, sum, c.accumulate != 0);
            } else {
                part[column] = sum;
            }
        }
    } else if (here && warp % c.leaf_warps == 0) { /* of all rows: there are two leaves at most */
        LOCAL const float *below = (LOCAL const float *)((LOCAL const u8 *)lanes_sums + c.warp_bytes);
        for (u32 column = lane; column < columns; column += 32) {
            const float sum = lanes_sums[column] + (c.leaf_warps == 2 ? below[column] : 0.0f);
            write_sum(drhs + (item * c.m + segment * SEGMENT + column), sum, c.accumulate != 0);
        }
    }
#endif
}
