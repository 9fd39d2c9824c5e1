/* The outer product's kernel for one dtype T, included once for each by cpu.c. */

#include "ops/outer_product/lanes.h"

/* Writes `count` products, the elements of row after row from the first on: rows of `width` columns, with column
 * values in `row` and, cyclically, 16 more behind them; row values in `column`, with 16 readable behind them.
 * Whole lines of y go out at once, also where a line holds the end of one row and the start of the next. */
VEC_INLINE void T_NAME(products)(T *y, int64_t count, const float *column, const float *row, int64_t width,
                                 const expansion *lines, const bool stream) {
    int64_t j = 0; /* the place of the next element in its row */
    const int64_t misaligned = (int64_t)((uintptr_t)y / sizeof *y % 16);
    int64_t head = stream && misaligned > 0 ? 16 - misaligned : 0;
    head = head < count ? head : count;
    if (head > 0) {
        for (int64_t k = 0; k < head; k++) {
            T_STORE_PART(y + k, v16_mul(v16_splat(*column), v16_splat(row[j])), 1);
            if (++j == width) {
                j = 0;
                column++;
            }
        }
        y += head;
        count -= head;
    }
    if (width < 16) {
        const int64_t whole_rows = 16 / width, rest = 16 % width;
        for (; count > 0; count -= 16, y += 16) {
            const v16 values = v16_expand_halves(column, column + lines->second[j], lines->index[j]);
            const v16 line = v16_mul(values, v16_load_f32(row + j));
            if (count < 16) {
                T_STORE_PART(y, line, (size_t)count);
                return;
            }
            stream ? T_STREAM(y, line) : T_STORE(y, line);
            column += whole_rows;
            j += rest;
            if (j >= width) {
                j -= width;
                column++;
            }
        }
        return;
    }
    while (count >= 16) {
        const v16 value = v16_splat(*column);
        for (; j + 16 <= width && count >= 16; j += 16, y += 16, count -= 16) {
            const v16 line = v16_mul(value, v16_load_f32(row + j));
            stream ? T_STREAM(y, line) : T_STORE(y, line);
        }
        if (j + 16 > width && count >= 16) { /* the next line reaches into the next row */
            if (j < width) {
                const v16 values = v16_blend(v16_mask((size_t)(width - j)), v16_splat(column[1]), value);
                const v16 line = v16_mul(values, v16_load_f32(row + j));
                stream ? T_STREAM(y, line) : T_STORE(y, line);
                j += 16;
                y += 16;
                count -= 16;
            }
            j -= width;
            column++;
        }
    }
    if (count > 0) {
        const v16 values = j + 16 <= width
                               ? v16_splat(*column)
                               : v16_blend(v16_mask((size_t)(width - j)), v16_splat(column[1]), v16_splat(*column));
        T_STORE_PART(y, v16_mul(values, v16_load_f32(row + j)), (size_t)count);
    }
}

static void T_NAME(outer_product)(const mlxn_call *call, uint64_t begin, uint64_t end) {
    const outer_plan *plan = call->constants;
    const T *lhs = call->buffers[0], *rhs = call->buffers[1];
    T *y = call->buffers[2];
    float row[OUTER_TILE + 32], column[OUTER_ROWS + 32];
    expansion lines;
    const int64_t n = plan->n, m = plan->m;
    const int64_t last_columns = m - (plan->column_tiles - 1) * plan->tile_columns; /* only a last tile is narrow */
    if (last_columns < 16) {
        expansion_begin(&lines, (int32_t)last_columns);
    }
    int64_t loaded = -1;
    for (uint64_t group = begin; group < end; group++) {
        const int64_t tile = (int64_t)group / plan->row_blocks; /* of all tiles of all batch items */
        const int64_t item = tile / plan->column_tiles;
        const int64_t first_row = (int64_t)group % plan->row_blocks * plan->block_rows;
        const int64_t rows = minimum(plan->block_rows, n - first_row);
        const int64_t first_column = tile % plan->column_tiles * plan->tile_columns;
        const int64_t columns = minimum(plan->tile_columns, m - first_column);
        if (tile != loaded) {
            T_NAME(widen)(row, rhs + item * m + first_column, columns);
            for (int64_t k = 0; k < 16; k++) {
                row[columns + k] = row[k];
            }
            loaded = tile;
        }
        T_NAME(widen)(column, lhs + item * n + first_row, rows);
        /* Whole rows follow each other in memory; of a tile, each row is a piece of its own. */
        const int64_t pieces = plan->column_tiles == 1 ? 1 : rows;
        const int64_t count = plan->column_tiles == 1 ? rows * columns : columns;
        for (int64_t piece = 0; piece < pieces; piece++) {
            T *to = y + (item * n + first_row + piece) * m + first_column;
            if (call->streaming) {
                T_NAME(products)(to, count, column + piece, row, columns, &lines, true);
            } else {
                T_NAME(products)(to, count, column + piece, row, columns, &lines, false);
            }
        }
    }
}
