/* The kernels of the outer product's gradients for one dtype T, included once for each by cpu.c. The order of every
 * sum is the canonical one (docs/numerics.md), whatever is computed together with it. */

/* Up to 16 elements at p, the other lanes +0. What lies behind them may be read up to `end`. */
VEC_INLINE v16 T_NAME(load_tail)(const T *p, int64_t count, const T *end) {
    if (count >= 16) {
        return T_LOAD(p);
    }
    return end - p >= 16 ? v16_and(T_LOAD(p), v16_mask((size_t)count)) : T_LOAD_PART(p, (size_t)count);
}

/* Finishes `count` sums (at most 16): +0 is added, then they are written, or added to what is there, rounded once. */
VEC_INLINE void T_NAME(write_sums)(T *to, v16 sums, int64_t count, bool accumulate, bool stream) {
    sums = v16_add(sums, v16_zero());
    if (accumulate) {
        sums = v16_add(count < 16 ? T_LOAD_PART(to, (size_t)count) : T_LOAD(to), sums);
    }
    if (count < 16) {
        T_STORE_PART(to, sums, (size_t)count);
    } else if (stream && (uintptr_t)to % (16 * sizeof *to) == 0) {
        T_STREAM(to, sums);
    } else {
        T_STORE(to, sums);
    }
}

/* One group: rows [first_row, first_row + rows) and columns [first_column, first_column + columns) of one item. */
typedef struct T_NAME(tile) {
    const T *dy;   /* its first element */
    const T *next; /* the next group's first element */
    const T *end;  /* of all of dy */
    int64_t m;
    int64_t rows, columns;
    const T *lhs;     /* of its first row */
    const float *row; /* rhs, followed by zeros */
    sum_tree *tree;
    void *row_sums;    /* where its row sums go: T if whole, else float */
    void *column_sums; /* likewise */
    bool row_whole, column_whole, accumulate, stream;
} T_NAME(tile);

VEC_INLINE void T_NAME(write_rows)(const T_NAME(tile) * tile, int64_t row, v16 sums, int64_t count) {
    if (tile->row_whole) {
        T_NAME(write_sums)((T *)tile->row_sums + row, sums, count, tile->accumulate, tile->stream);
    } else {
        write_partial((float *)tile->row_sums + row, sums, count);
    }
}

/* What to fetch while row `row` is worked on: the place far enough ahead, in the next group's rows if need be. */
VEC_INLINE const T *T_NAME(ahead_of)(const T_NAME(tile) * tile, int64_t row) {
    const int64_t distance = OUTER_AHEAD / tile->m;
    row += distance > OUTER_ABREAST ? distance : OUTER_ABREAST;
    return row < tile->rows ? tile->dy + row * tile->m : tile->next + (row - tile->rows) * tile->m;
}

/* `count` rows from `row` on, all of one leaf: one, or OUTER_ABREAST side by side, where what they share is loaded once
 * for all of them and what follows is fetched ahead. The leaf's column sums start here if `fresh`. Leaves the row sums
 * of segment s in segments[16 * s + 0 … count - 1]. */
VEC_INLINE void T_NAME(rows_abreast)(const T_NAME(tile) * tile, int64_t row, const float *lhs, const int count,
                                     const bool fresh, v16 *segments, const bool want_rows, const bool want_columns) {
    const T *dy = tile->dy + row * tile->m, *ahead = T_NAME(ahead_of)(tile, row);
    float *leaf = tile->tree->leaf;
    for (int64_t s = 0; s * OUTER_SEGMENT < tile->columns; s++) {
        const int64_t stop = minimum((s + 1) * OUTER_SEGMENT, tile->columns);
        v16 low[OUTER_ABREAST], high[OUTER_ABREAST]; /* canonical lanes 0 to 15 and 16 to 31 */
        for (int r = 0; r < count; r++) {
            low[r] = high[r] = v16_zero();
        }
        int64_t j = s * OUTER_SEGMENT;
        for (; j + 32 <= stop; j += 32) {
            const v16 rhs_low = want_rows ? v16_load_f32(tile->row + j) : v16_zero();
            const v16 rhs_high = want_rows ? v16_load_f32(tile->row + j + 16) : v16_zero();
            v16 leaf_low = want_columns && !fresh ? v16_load_f32(leaf + j) : v16_zero();
            v16 leaf_high = want_columns && !fresh ? v16_load_f32(leaf + j + 16) : v16_zero();
            for (int r = 0; r < count; r++) {
                if (count == OUTER_ABREAST) {
                    for (int64_t line = 0; line < 32; line += 64 / (int64_t)sizeof *dy) {
                        __builtin_prefetch(ahead + r * tile->m + j + line, 0, 2);
                    }
                }
                const v16 a = T_LOAD(dy + r * tile->m + j), b = T_LOAD(dy + r * tile->m + j + 16);
                if (want_rows) {
                    low[r] = v16_fma(a, rhs_low, low[r]);
                    high[r] = v16_fma(b, rhs_high, high[r]);
                }
                if (want_columns) {
                    leaf_low = v16_fma(a, v16_splat(lhs[r]), leaf_low);
                    leaf_high = v16_fma(b, v16_splat(lhs[r]), leaf_high);
                }
            }
            if (want_columns) {
                v16_store_f32(leaf + j, leaf_low);
                v16_store_f32(leaf + j + 16, leaf_high);
            }
        }
        for (; j < stop; j += 16) {
            v16 sums = want_columns && !fresh ? v16_load_f32(leaf + j) : v16_zero();
            for (int r = 0; r < count; r++) {
                const v16 a = T_NAME(load_tail)(dy + r * tile->m + j, stop - j, tile->end);
                if (want_rows && j % 32 == 0) {
                    low[r] = v16_fma(a, v16_load_f32(tile->row + j), low[r]);
                } else if (want_rows) {
                    high[r] = v16_fma(a, v16_load_f32(tile->row + j), high[r]);
                }
                if (want_columns) {
                    sums = v16_fma(a, v16_splat(lhs[r]), sums);
                }
            }
            if (want_columns) {
                v16_store_f32(leaf + j, sums);
            }
        }
        for (int r = 0; want_rows && r < count; r++) {
            segments[16 * s + r] = v16_add(low[r], high[r]);
        }
    }
}

/* `count` rows (at most 16) from `row` on, all of one leaf, of at least 16 columns. */
VEC_INLINE void T_NAME(rows_wide)(const T_NAME(tile) * tile, int64_t row, int64_t count, const bool want_rows,
                                  const bool want_columns) {
    v16 segments[OUTER_TILE / OUTER_SEGMENT][16];
    float lhs[16];
    if (want_columns) {
        T_NAME(widen)(lhs, tile->lhs + row, count);
    }
    const bool abreast = reads_abreast(tile->m * (int64_t)sizeof(T), want_rows && want_columns);
    for (int64_t r = 0; r < count;) {
        const bool fresh = row % OUTER_LEAF == 0 && r == 0;
        v16 *sums = &segments[0][r];
        if (!abreast || r + OUTER_ABREAST > count) {
            T_NAME(rows_abreast)(tile, row + r, lhs + r, 1, fresh, sums, want_rows, want_columns);
            r++;
        } else if (fresh) {
            T_NAME(rows_abreast)(tile, row, lhs, OUTER_ABREAST, true, sums, want_rows, want_columns);
            r += OUTER_ABREAST;
        } else {
            T_NAME(rows_abreast)(tile, row + r, lhs + r, OUTER_ABREAST, false, sums, want_rows, want_columns);
            r += OUTER_ABREAST;
        }
    }
    if (want_rows) {
        v16 sums[OUTER_TILE / OUTER_SEGMENT];
        int64_t segment_count = 0;
        for (; segment_count * OUTER_SEGMENT < tile->columns; segment_count++) {
            for (int64_t r = count; r < 16; r++) {
                segments[segment_count][r] = v16_zero();
            }
            sums[segment_count] = v16_rowsum(segments[segment_count]);
        }
        T_NAME(write_rows)(tile, row, pairwise(sums, segment_count), count);
    }
}

#include "ops/outer_product/narrow.h"

VEC_INLINE void T_NAME(sum_tile)(const T_NAME(tile) * tile, const bool want_rows, const bool want_columns) {
    int64_t row = 0;
    if (tile->columns < 16) {
        T_NAME(sum_narrow)(tile, want_rows, want_columns);
        row = tile->rows;
    }
    for (; row < tile->rows; row += 16) {
        T_NAME(rows_wide)(tile, row, minimum(16, tile->rows - row), want_rows, want_columns);
        if (want_columns && (row % OUTER_LEAF == 16 || row + 16 >= tile->rows)) {
            tree_push(tile->tree);
        }
    }
    if (want_columns) {
        const float *sums = tree_root(tile->tree);
        for (int64_t j = 0; j < tile->columns; j += 16) {
            const int64_t count = minimum(16, tile->columns - j);
            if (tile->column_whole) {
                T_NAME(write_sums)
                ((T *)tile->column_sums + j, v16_load_f32(sums + j), count, tile->accumulate, tile->stream);
            } else {
                write_partial((float *)tile->column_sums + j, v16_load_f32(sums + j), count);
            }
        }
    }
}

/* The kernel for whichever of the two gradients is wanted. What is not wanted is NULL. */
VEC_INLINE void T_NAME(backward)(const mlxn_call *call, uint64_t begin, uint64_t end, const T *lhs, const T *rhs,
                                 void *row_sums, void *column_sums, const bool want_rows, const bool want_columns) {
    const outer_plan *plan = call->constants;
    const int64_t n = plan->n, m = plan->m;
    const T *dy = call->buffers[0];
    const int64_t items = (int64_t)call->grid[0] / (plan->column_tiles * plan->row_blocks);
    float row[OUTER_TILE + 32];
    float tree_memory[OUTER_TREE];
    sum_tree tree;
    T_NAME(tile)
    tile = {.end = dy + items * n * m,
            .m = m,
            .row = row,
            .tree = &tree,
            .row_whole = plan->column_tiles == 1,
            .column_whole = plan->row_blocks == 1,
            .accumulate = plan->accumulate,
            .stream = call->streaming};
    int64_t loaded = -1;
    for (uint64_t group = begin; group < end; group++) {
        const int64_t all_tiles = (int64_t)group / plan->row_blocks; /* of all tiles of all items */
        const int64_t item = all_tiles / plan->column_tiles;
        const int64_t column_tile = all_tiles % plan->column_tiles;
        const int64_t block = (int64_t)group % plan->row_blocks;
        const int64_t first_row = block * plan->block_rows;
        const int64_t first_column = column_tile * plan->tile_columns;
        tile.dy = dy + (item * n + first_row) * m + first_column;
        tile.next = dy + item * n * m;
        tile.next += block + 1 < plan->row_blocks ? (first_row + plan->block_rows) * m + first_column
                                                  : first_column + plan->tile_columns;
        tile.rows = minimum(plan->block_rows, n - first_row);
        tile.columns = minimum(plan->tile_columns, m - first_column);
        if (want_rows) {
            if (all_tiles != loaded) {
                T_NAME(widen)(row, rhs + item * m + first_column, tile.columns);
                memset(row + tile.columns, 0, 32 * sizeof *row);
                loaded = all_tiles;
            }
            tile.row_sums = tile.row_whole ? (void *)((T *)row_sums + item * n + first_row)
                                           : (void *)((float *)row_sums + all_tiles * n + first_row);
        }
        if (want_columns) {
            tile.lhs = lhs + item * n + first_row;
            tile.column_sums =
                tile.column_whole
                    ? (void *)((T *)column_sums + item * m + first_column)
                    : (void *)((float *)column_sums + (item * plan->row_blocks + block) * m + first_column);
            tree_begin(&tree, tree_memory, tile.columns);
        }
        T_NAME(sum_tile)(&tile, want_rows, want_columns);
    }
}

static void T_NAME(outer_product_backward_lhs)(const mlxn_call *call, uint64_t begin, uint64_t end) {
    T_NAME(backward)(call, begin, end, NULL, call->buffers[1], call->buffers[2], NULL, true, false);
}

static void T_NAME(outer_product_backward_rhs)(const mlxn_call *call, uint64_t begin, uint64_t end) {
    T_NAME(backward)(call, begin, end, call->buffers[1], NULL, NULL, call->buffers[2], false, true);
}

static void T_NAME(outer_product_backward)(const mlxn_call *call, uint64_t begin, uint64_t end) {
    T_NAME(backward)
    (call, begin, end, call->buffers[1], call->buffers[2], call->buffers[3], call->buffers[4], true, true);
}

/* Adds partial sums pairwise and writes the gradient. */
static void T_NAME(outer_product_finish)(const mlxn_call *call, uint64_t begin, uint64_t end) {
    const outer_finish_plan *plan = call->constants;
    for (uint64_t group = begin; group < end; group++) {
        const int64_t item = (int64_t)group / plan->chunks;
        const int64_t from = (int64_t)group % plan->chunks * OUTER_CHUNK;
        const int64_t to = minimum(from + OUTER_CHUNK, plan->length);
        const float *parts = (const float *)call->buffers[0] + item * plan->parts * plan->length;
        T *sums = (T *)call->buffers[1] + item * plan->length;
        for (int64_t at = from; at < to; at += 16) {
            const int64_t count = minimum(16, to - at);
            T_NAME(write_sums)
            (sums + at, pairwise_strided(parts + at, plan->parts, plan->length, count), count, plan->accumulate, false);
        }
    }
}
