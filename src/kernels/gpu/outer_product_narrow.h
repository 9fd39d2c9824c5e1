/* The gradients of the outer product where rows have at most WIDTH columns, 2, 4, 8 or 16: outer_product_backward.h's job
 * done otherwise. A lane stands for the WORD columns of a word of 4 bytes. A warp takes tiles, of as many leaves of 32 rows as
 * it has lane groups for a row's words, below each other: they come as lines of 16 bytes, held in registers until the tile
 * before them is done, and then lie in local memory. For a row's sum a lane takes the whole row, for the columns' a lane
 * group a leaf. */
#define WIDTH LONGEST
#define WARPS (THREADS / 32)
#define LEAF 32
#define LANES (WIDTH / WORD)
#define LANE_GROUPS (32 / LANES)
#define TILE_ROWS (LANE_GROUPS * LEAF)
#define HELD 8 /* lines of a tile that a lane holds, at most */
#define SIZE ((i32)sizeof(element))
/* Leaves lie so that lane groups meet different banks, of 4 bytes out of 128. */
#define LEAF_BYTES (LEAF * WIDTH * SIZE + (LANES < 4 ? 16 : 4 * LANES))
#define TILE_BYTES (LANE_GROUPS * LEAF_BYTES)
#define LHS_BYTES (LEAF * SIZE + 16) /* of a leaf */
#define JOIN_BYTES (32 * WORD * 4)
#define WARP_BYTES (TILE_BYTES + LANE_GROUPS * LHS_BYTES + JOIN_BYTES)
/* As many as leave enough registers, as measured. */
#if WORD > 1 && WANT_COLUMNS && (WIDTH == 2 || (WIDTH == 4 && WANT_ROWS && defined(DTYPE_f16)))
#define GROUPS 3
#else
#define GROUPS 4
#endif
#define LEVELS 3
#define WARP_LEVELS 3

typedef struct constants {
    i64 n, m;
    i64 items;
    i64 item_groups;
    i64 row_blocks; /* of an item: a group of threads takes one */
    u32 run;        /* tiles of a warp, below each other; a power of two up to 2^(LEVELS - 1) */
    u32 run_warps;  /* warps on runs of one item, a power of two; the others have other items */
    u32 accumulate;
} constants;

/* What a warp reads: tiles of one item, from its first row on. */
typedef struct source {
    const GLOBAL element *dy;
    i64 left;  /* rows from the tile on that is read next */
    u32 lines; /* of a tile */
    bool aligned;
} source;

FN bool is_even(const source *its) { return its->aligned && its->left >= TILE_ROWS; }

FN void hold(u32 *held, const source *its, u32 lane) {
    UNROLL
    for (i32 k = 0; k < HELD; k++) {
        if (k * 32 + lane < its->lines) {
            load_line(held + 4 * k, (const GLOBAL u8 *)its->dy + (k * 32 + lane) * 16);
        }
    }
}

#if WANT_COLUMNS
FN void hold_lhs(element *held, const GLOBAL element *lhs, i64 left, u32 lane) {
    UNROLL
    for (i32 k = 0; k < LANE_GROUPS; k++) {
        held[k] = k * 32 + lane < left ? lhs[k * 32 + lane] : (element)0;
    }
}
#endif

#if WANT_ROWS
/* A row of m elements times b. */
FN float sum_row(LOCAL const element *row, const float *b, u32 m) {
    float lanes[WIDTH];
    if (m == WIDTH) {
        u32 words[LANES < 4 ? 4 : LANES];
        UNROLL
        for (i32 i = 0; i < LANES; i += 4) {
            if (LANES >= 4) {
                load_local_line(words + i, row + i * WORD);
            } else {
                words[0] = ((LOCAL const u32 *)row)[0];
                words[1] = LANES > 1 ? ((LOCAL const u32 *)row)[1] : 0;
            }
        }
        UNROLL
        for (i32 l = 0; l < WIDTH; l++) {
            lanes[l] = widen_word(words[l / WORD], l % WORD) * b[l];
        }
    } else {
        UNROLL
        for (i32 l = 0; l < WIDTH; l++) {
            lanes[l] = l < m ? widen(row[l]) * b[l] : 0.0f;
        }
    }
    return sum_lanes(lanes, WIDTH);
}
#endif

KERNEL(NAME, THREADS, GROUPS)
(INPUTS, OUTPUTS, CONSTANTS(constants, c)) {
    OPEN(const element, dy);
    OPEN_ROWS()
    OPEN_COLUMNS()
    LOCAL_LINES(tiles, WARPS * WARP_BYTES);
    AWAIT();
    const u32 lane = THREAD % 32, warp = THREAD / 32, m = (u32)c.m;
    const u32 lane_group = lane / LANES, column = lane % LANES * WORD; /* the first */

    /* What this warp sums. */
    const u32 item_warps = WARPS / c.run_warps;
    const i64 block = quotient((i64)GROUP, c.item_groups);
    const i64 first_item = ((i64)GROUP - block * c.item_groups) * item_warps;
    const i64 its_item = first_item + warp / c.run_warps;
    const bool here = its_item < c.items;
    const i64 item = here ? its_item : 0;
    i64 row = (block * c.run_warps + warp % c.run_warps) * c.run * TILE_ROWS; /* the tile's first */

    LOCAL u8 *tile = tiles + warp * WARP_BYTES;
    LOCAL u8 *tile_lhs = tile + TILE_BYTES;
    LOCAL float *join = (LOCAL float *)(tile_lhs + LANE_GROUPS * LHS_BYTES);
    const u32 leaf_lines = LEAF * m * SIZE / 16;
    source its;
    its.dy = dy + (item * c.n + row) * c.m;
    its.left = here ? c.n - row : 0;
    its.lines = LANE_GROUPS * leaf_lines;
    its.aligned = ((u64)its.dy & 15) == 0;
    u32 held[4 * HELD], place[HELD];
    UNROLL
    for (i32 k = 0; k < HELD; k++) {
        const u32 line = k * 32 + lane, leaf = line / leaf_lines;
        place[k] = leaf * LEAF_BYTES + (line - leaf * leaf_lines) * 16;
    }
    if (is_even(&its)) {
        hold(held, &its, lane);
    }
#if WANT_COLUMNS
    element held_lhs[LANE_GROUPS];
    float sums[WORD] = {0.0f}, levels[LEVELS * WORD];
    hold_lhs(held_lhs, lhs + (item * c.n + row), its.left, lane);
#endif
#if WANT_ROWS
    float b[WIDTH];
    UNROLL
    for (i32 l = 0; l < WIDTH; l++) {
        b[l] = l < m ? widen(rhs[item * c.m + l]) : 0.0f;
    }
#endif
    for (u32 t = 0; t < c.run; t++) {
        const i64 left = its.left;
        if (is_even(&its)) {
            UNROLL
            for (i32 k = 0; k < HELD; k++) {
                if (k * 32 + lane < its.lines) {
                    store_local_line(tile + place[k], held + 4 * k);
                }
            }
        } else { /* what is not there is 0 */
            const u32 there = left > 0 ? (left < TILE_ROWS ? (u32)left : TILE_ROWS) * m : 0;
            for (u32 leaf = 0; leaf < LANE_GROUPS; leaf++) {
                for (u32 e = lane; e < LEAF * m; e += 32) {
                    const u32 of = leaf * LEAF * m + e;
                    ((LOCAL element *)(tile + leaf * LEAF_BYTES))[e] = of < there ? its.dy[of] : (element)0;
                }
            }
        }
#if WANT_COLUMNS
        UNROLL
        for (i32 k = 0; k < LANE_GROUPS; k++) {
            ((LOCAL element *)(tile_lhs + k * LHS_BYTES))[lane] = held_lhs[k];
        }
#endif
        WARP_BARRIER();
        its.dy += TILE_ROWS * c.m;
        its.left = t + 1 < c.run ? left - TILE_ROWS : 0;
        if (is_even(&its)) {
            hold(held, &its, lane);
        }
#if WANT_COLUMNS
        hold_lhs(held_lhs, lhs + (item * c.n + row + TILE_ROWS), its.left, lane);
#endif
#if WANT_ROWS
        UNROLL
        for (i32 k = 0; k < LANE_GROUPS; k++) {
            LOCAL const element *its_row = (LOCAL const element *)(tile + k * LEAF_BYTES) + lane * m;
            const float row_sum = sum_row(its_row, b, m);
            if (k * LEAF + lane < left) {
                write_sum(dlhs + (item * c.n + row + k * LEAF + lane), row_sum, c.accumulate != 0);
            }
        }
#endif
#if WANT_COLUMNS
        LOCAL const element *of = (LOCAL const element *)(tile + lane_group * LEAF_BYTES) + column;
        UNROLL
        for (i32 k = 0; k < WORD; k++) {
            sums[k] = 0.0f;
        }
        UNROLL_BY_4
        for (i32 r = 0; r < LEAF; r += LINE) {
            u32 line[4];
            load_local_line(line, tile_lhs + lane_group * LHS_BYTES + r * SIZE);
            UNROLL
            for (i32 i = 0; i < LINE; i++) {
                const float l = widen_word(line[i / WORD], i % WORD);
                LOCAL const element *its_row = of + (u32)(r + i) * m;
                if (m % WORD == 0) {
                    const u32 word = *(LOCAL const u32 *)its_row;
                    UNROLL
                    for (i32 k = 0; k < WORD; k++) {
                        sums[k] = fma32(widen_word(word, k), l, sums[k]);
                    }
                } else {
                    UNROLL
                    for (i32 k = 0; k < WORD; k++) {
                        sums[k] = fma32(widen(its_row[k]), l, sums[k]);
                    }
                }
            }
        }
        UNROLL
        for (i32 k = 0; k < WORD; k++) {
            join[lane * WORD + k] = sums[k];
        }
        WARP_BARRIER();
        UNROLL
        for (i32 k = 0; k < WORD; k++) {
            float leaves[LANE_GROUPS];
            UNROLL
            for (i32 g = 0; g < LANE_GROUPS; g++) {
                leaves[g] = join[g * WIDTH + column + k];
            }
            sums[k] = sum_pairs(leaves, LANE_GROUPS);
        }
        push_term(sums, levels, t, WORD, LEVELS);
#endif
        WARP_BARRIER();
        row += TILE_ROWS;
    }

#if WANT_COLUMNS
    /* The runs of warps below each other. */
    if (lane_group == 0) {
        UNROLL
        for (i32 k = 0; k < WORD; k++) {
            join[column + k] = sums[k];
        }
    }
    GROUP_BARRIER();
    const u32 k = THREAD / WIDTH, of = THREAD % WIDTH; /* the item, and the column */
    if (k < item_warps && of < m && first_item + k < c.items) {
        float sum = 0.0f, waiting[WARP_LEVELS];
        for (u32 w = 0; w < c.run_warps; w++) {
            sum = ((LOCAL const float *)(tiles + (k * c.run_warps + w + 1) * WARP_BYTES - JOIN_BYTES))[of];
            push_term(&sum, waiting, w, 1, WARP_LEVELS);
        }
        const i64 to = first_item + k;
        if (c.row_blocks == 1) {
            write_sum(drhs + (to * c.m + of), sum, c.accumulate != 0);
        } else {
            write_part((GLOBAL float *)drhs + ((to * c.row_blocks + block) * c.m + of), sum);
        }
    }
#endif
}
