/* The gradients of the outer product where rows have at most 16 columns: outer_product_backward.h's job done otherwise. For
 * a row's sum a lane takes the whole row. For the columns a row takes `width` lanes, and the warp 32 / width runs of leaves
 * side by side: its lane groups. A slot of the ring holds a leaf a lane group, of dy and, behind it, of lhs. */
#define WARPS 4
#define THREADS 128
#define LEAF 32
#define LEVELS 5
#define JOIN_LEVELS 7 /* of 4 warps of up to 32 lane groups */
#define WIDEST 16
#ifndef SURELY /* what always holds; opencl.h has it asked all the same */
#define SURELY(holds) true
#endif

typedef struct constants {
    i64 n, m;
    i64 items;
    i64 item_groups;
    i64 row_blocks; /* of an item: a group of threads takes one */
    u32 width;      /* lanes of a row: the power of two from m on */
    u32 leaf_run;   /* leaves of a run, a power of two up to 2^LEVELS */
    u32 run_warps;  /* warps on runs of one item; the others have other items */
    u32 piece_stride, lhs_stride;
    u32 slots; /* of the ring */
    u32 slot_bytes;
    u32 warp_bytes;
    u32 accumulate;
} constants;

/* The sums of rows, a lane a row, times b: of `rows` lane groups, whose leaves lie `stride` apart. m columns, `width` from m
 * on. The sums go to dlhs, run_rows apart; the lanes below `left`, which falls by run_rows each time, have a row. */
FN void sum_rows(LOCAL const u8 *leaf, u32 stride, u32 groups, GLOBAL element *dlhs, i64 left, i64 run_rows,
                 const float *b, u32 m, i32 width, u32 lane, bool accumulate) {
    const bool lines = width % LINE == 0 && m == (u32)width && ((u64)leaf & 15) == 0;
    LOCAL const element *row = (LOCAL const element *)leaf + lane * m;
    dlhs += lane;
    for (u32 g = 0; g < groups && left > 0; g++, left -= run_rows, dlhs += run_rows) {
        float lanes[WIDEST];
        if (lines) {
            UNROLL
            for (i32 l = 0; l < width; l += LINE) {
                u32 words[4];
                load_local_line(words, row + l);
                UNROLL
                for (i32 k = 0; k < LINE; k++) {
                    lanes[l + k] = widen_word(words[k / WORD], k % WORD) * b[l + k];
                }
            }
        } else {
            UNROLL
            for (i32 l = 0; l < width; l++) {
                lanes[l] = (u32)l < m ? widen(row[l]) * b[l] : 0.0f;
            }
        }
        const float sum = sum_lanes(lanes, width);
        if (lane < left) {
            write_sum(dlhs, sum, accumulate);
        }
        row = (LOCAL const element *)((LOCAL const u8 *)row + stride);
    }
}

/* Sends the next leaf of every lane group to a slot of the ring, while there are leaves. */
#if WANT_COLUMNS
#define FETCH_LHS(to)                                                                                             \
    tile_fetch_short(to + behind_dy, next_lhs, lhs_run, lhs_end, lane_groups, (u32)lhs_leaf, c.lhs_stride, lane); \
    next_lhs += lhs_leaf;
#else
#define FETCH_LHS(to)
#endif
#define FETCH(to)                                                                                       \
    if (to_send > 0) {                                                                                  \
        if (even && last_run + leaf_bytes <= item_end - next) {                                         \
            tile_fetch_even(to, next, run_bytes, leaf_size, c.piece_stride, 2 * sizeof(element), lane); \
        } else {                                                                                        \
            tile_fetch(to, next, run_bytes, item_end, lane_groups, leaf_size, c.piece_stride, lane);    \
        }                                                                                               \
        next += leaf_bytes;                                                                             \
        FETCH_LHS(to)                                                                                   \
        to_send--;                                                                                      \
    }                                                                                                   \
    tile_sent();

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
    const u32 lane = THREAD % 32, warp = THREAD / 32, m = (u32)c.m;
    const u32 lane_group = lane / c.width, column = lane % c.width, lane_groups = 32 / c.width;

    /* What this warp sums: an item, and a run of leaves a lane group. */
    const u32 item_warps = WARPS / c.run_warps;
    const i64 block = quotient((i64)GROUP, c.item_groups);
    const i64 first_item = ((i64)GROUP - block * c.item_groups) * item_warps;
    const i64 its_item = first_item + warp / c.run_warps;
    const bool here = its_item < c.items;
    const i64 item = here ? its_item : 0, run_rows = (i64)c.leaf_run * LEAF;
    const i64 warp_row = (block * c.run_warps + warp % c.run_warps) * lane_groups * run_rows;

    /* Where its tiles come from. Rows beyond the item's last one are not copied. */
    const i64 leaf_bytes = LEAF * c.m * (i64)sizeof(element), run_bytes = run_rows * c.m * (i64)sizeof(element);
    const GLOBAL u8 *item_end = (const GLOBAL u8 *)(dy + (here ? (item + 1) * c.n * c.m : 0));
    const GLOBAL u8 *piece = (const GLOBAL u8 *)(dy + (item * c.n + warp_row) * c.m), *next = piece;
#if WANT_COLUMNS
    const i64 lhs_leaf = LEAF * (i64)sizeof(element), lhs_run = run_rows * (i64)sizeof(element);
    const GLOBAL u8 *lhs_end = (const GLOBAL u8 *)(lhs + (here ? (item + 1) * c.n : 0));
    const GLOBAL u8 *lhs_piece = (const GLOBAL u8 *)(lhs + (item * c.n + warp_row)), *next_lhs = lhs_piece;
#endif
    LOCAL u8 *ring = local_memory + warp * c.warp_bytes;
    const u32 leaf_size = (u32)leaf_bytes, tile_lines = lane_groups * leaf_size / 512;
    /* All pieces are as well aligned as the first: leaves are multiples of 64 bytes. */
    const u32 shift = (u32)(u64)piece & 15;
    const bool even = shift == 0 && m == c.width && tile_lines == 2 * sizeof(element);
    const i64 last_run = (lane_groups - 1) * run_bytes;
#if WANT_COLUMNS
    const u32 lhs_shift = (u32)(u64)lhs_piece & 15, behind_dy = lane_groups * c.piece_stride;
#endif
    u32 to_send = c.leaf_run, slot = 0;
    for (u32 s = 0; s < c.slots; s++) {
        FETCH(ring + s * c.slot_bytes)
    }

#if WANT_ROWS
    float b[WIDEST];
    UNROLL
    for (i32 l = 0; l < WIDEST; l++) {
        b[l] = widen(rhs[item * c.m + ((u32)l < m ? l : 0)]);
    }
#endif
#if WANT_COLUMNS
    float sum = 0.0f, levels[LEVELS];
#endif
    for (u32 leaf = 0; leaf < c.leaf_run; leaf++) {
        tile_wait(c.slots);
        LOCAL const u8 *at = ring + slot * c.slot_bytes;
        const i64 leaf_row = warp_row + leaf * LEAF;
#if WANT_ROWS
        GLOBAL element *to = dlhs + (item * c.n + leaf_row);
        const i64 rows_left = here ? c.n - leaf_row : 0;
        if (c.width == 16) {
            sum_rows(at + shift, c.piece_stride, lane_groups, to, rows_left, run_rows, b, m, 16, lane,
                     c.accumulate != 0);
        } else if (c.width == 8) {
            sum_rows(at + shift, c.piece_stride, lane_groups, to, rows_left, run_rows, b, m, 8, lane,
                     c.accumulate != 0);
        } else if (c.width == 4) {
            sum_rows(at + shift, c.piece_stride, lane_groups, to, rows_left, run_rows, b, m, 4, lane,
                     c.accumulate != 0);
        } else if (SURELY(c.width == 2)) {
            sum_rows(at + shift, c.piece_stride, lane_groups, to, rows_left, run_rows, b, m, 2, lane,
                     c.accumulate != 0);
        }
#endif
#if WANT_COLUMNS
        const i64 left = here && column < m ? c.n - leaf_row - lane_group * run_rows : 0;
        LOCAL const element *tile = (LOCAL const element *)(at + lane_group * c.piece_stride + shift) + column;
        LOCAL const element *l = (LOCAL const element *)(at + behind_dy + lane_group * c.lhs_stride + lhs_shift);
        sum = 0.0f;
        if (left >= LEAF) {
            UNROLL_BY_8 for (u32 r = 0; r < LEAF; r++) { sum = fma32(widen(tile[r * m]), widen(l[r]), sum); }
        } else {
            for (i32 r = 0; r < left; r++) {
                sum = fma32(widen(tile[(u32)r * m]), widen(l[r]), sum);
            }
        }
        push_term(&sum, levels, leaf, 1, LEVELS);
#endif
        WARP_BARRIER();
        FETCH(ring + slot * c.slot_bytes)
        slot = slot + 1 < c.slots ? slot + 1 : 0;
    }

#if WANT_COLUMNS
    /* The runs of the lane groups and warps below each other. */
    LOCAL float *join = (LOCAL float *)ring;
    join[lane] = sum;
    GROUP_BARRIER();
    const u32 runs = c.run_warps * lane_groups;
    const u32 k = THREAD / c.width; /* the item */
    if (k < item_warps && column < m && first_item + k < c.items) {
        float waiting[JOIN_LEVELS];
        for (u32 e = 0; e < runs; e++) {
            const u32 of_warp = k * c.run_warps + e / lane_groups;
            LOCAL const float *of = (LOCAL const float *)(local_memory + of_warp * c.warp_bytes);
            sum = of[e % lane_groups * c.width + column];
            push_term(&sum, waiting, e, 1, JOIN_LEVELS);
        }
        const i64 to = first_item + k;
        if (c.row_blocks == 1) {
            write_sum(drhs + (to * c.m + column), sum, c.accumulate != 0);
        } else {
            ((GLOBAL float *)drhs)[(to * c.row_blocks + block) * c.m + column] = sum;
        }
    }
#endif
}
