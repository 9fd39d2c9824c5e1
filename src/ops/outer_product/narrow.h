/* Gradients of rows of less than 16 columns: a vector holds 16 / `lanes` rows side by side, `lanes` being 4, 8 or 16.
 * A block of 8 leaves is read twice, but the second time from the first-level cache. Lanes beyond the columns hold what
 * follows in memory; row sums mask them, and of column sums they are never used. */

/* The sums of `rows` rows from dy on, `stride` apart. Reads whole groups of 16 rows. */
VEC_INLINE void T_NAME(narrow_rows)(const T_NAME(tile) * tile, const T *dy, int64_t stride, int64_t row, int64_t rows,
                                    const int lanes, const bool packed, const bool ahead) {
    const v16 rhs = v16_load_rows_f32(tile->row, 0, lanes);
    const v16 mask = v16_load_rows_f32((const float *)(const void *)(vec_mask_table + 16 - tile->columns), 0, lanes);
    for (int64_t r = 0; r < rows; r += 16) {
        v16 products[16]; /* one a lane: fused with a sum of 0 they would have the same bits, but for a zero's sign */
        for (int k = 0; k < lanes; k++) {
            const T *p = dy + (r + 16 / lanes * k) * stride;
            if (ahead) {
                __builtin_prefetch((const char *)p + NARROW_AHEAD);
            }
            products[k] =
                packed ? v16_mul(T_LOAD(p), rhs) : v16_and(v16_mul(T_NAME(v16_load_rows)(p, stride, lanes), rhs), mask);
        }
        T_NAME(write_rows)(tile, row + r, v16_group_sums(products, lanes), minimum(16, rows - r));
    }
}

/* The column sums of 8 leaves from dy on. Each group of lanes takes a leaf of its own, two vectors at a time. */
VEC_INLINE v16 T_NAME(narrow_columns)(const T *dy, int64_t stride, const float *lhs, const int lanes,
                                      const bool ahead) {
    const int64_t vectors = NARROW_LEAVES * lanes / 16, apart = OUTER_LEAF * 16 / lanes;
    v16 sums[NARROW_LEAVES];
    for (int64_t v = 0; v < vectors; v += 2) {
        v16 a = v16_zero(), b = v16_zero();
        const T *next = dy + (NARROW_ROWS + v * apart) * stride;
        for (int64_t r = 0; r < OUTER_LEAF; r += 4) {
            v16 lhs_a[4], lhs_b[4];
            v16_spread(lhs_a, lhs + v * apart + r, OUTER_LEAF, lanes);
            v16_spread(lhs_b, lhs + (v + 1) * apart + r, OUTER_LEAF, lanes);
            const T *p = dy + (v * apart + r) * stride;
            for (int k = 0; k < 4; k++, p += stride) {
                if (ahead) {
                    __builtin_prefetch(next);
                    __builtin_prefetch(next + 16 / lanes * stride);
                    next += 32 / lanes * stride;
                }
                a = v16_fma(T_NAME(v16_load_rows)(p, OUTER_LEAF * stride, lanes), lhs_a[k], a);
                b = v16_fma(T_NAME(v16_load_rows)(p + apart * stride, OUTER_LEAF * stride, lanes), lhs_b[k], b);
            }
        }
        sums[v] = v16_group_total(a, lanes);
        sums[v + 1] = v16_group_total(b, lanes);
    }
    return pairwise(sums, vectors);
}

/* One leaf, or the last rows of one. */
VEC_INLINE void T_NAME(narrow_leaf)(const T_NAME(tile) * tile, int64_t row, int64_t rows, const int lanes,
                                    const bool want_rows, const bool want_columns) {
    const T *dy = tile->dy + row * tile->m;
    int64_t stride = tile->m;
    T copy[OUTER_LEAF * 16];
    if (tile->end - dy < OUTER_LEAF * stride + 16) { /* whole vectors would reach beyond the end */
        memset(copy, 0, sizeof copy);
        for (int64_t r = 0; r < rows; r++) {
            memcpy(copy + 16 * r, dy + r * stride, (size_t)tile->columns * sizeof *dy);
        }
        dy = copy;
        stride = 16;
    }
    if (want_rows) {
        T_NAME(narrow_rows)(tile, dy, stride, row, rows, lanes, false, false);
    }
    if (want_columns) {
        float lhs[OUTER_LEAF];
        T_NAME(widen)(lhs, tile->lhs + row, rows);
        v16 sum = v16_zero();
        for (int64_t r = 0; r < rows; r++) {
            sum = v16_fma(T_LOAD(dy + r * stride), v16_splat(lhs[r]), sum);
        }
        tree_push_subtree(tile->tree, sum, 0);
    }
}

VEC_INLINE void T_NAME(sum_lanes)(const T_NAME(tile) * tile, const int lanes, const int64_t stride, const bool packed,
                                  const bool want_rows, const bool want_columns) {
    int64_t row = 0;
    for (; row + NARROW_ROWS <= tile->rows; row += NARROW_ROWS) {
        const T *dy = tile->dy + row * stride;
        if (tile->end - dy < (NARROW_ROWS - 1) * stride + lanes) {
            break;
        }
        if (want_rows) {
            T_NAME(narrow_rows)(tile, dy, stride, row, NARROW_ROWS, lanes, packed, !want_columns);
        }
        const bool touch = want_columns && !want_rows && lanes < 16 && tile->m <= lanes;
        for (int64_t at = 0; touch && at < NARROW_ROWS * stride; at += 64 / (int64_t)sizeof *dy) {
            (void)*(const volatile T *)(dy + at); /* a line after the other, as memory likes it; leaves lie apart */
        }
        if (want_columns) {
            float lhs[NARROW_ROWS];
            T_NAME(widen)(lhs, tile->lhs + row, NARROW_ROWS);
            tree_push_subtree(tile->tree, T_NAME(narrow_columns)(dy, stride, lhs, lanes, !want_rows && lanes == 16),
                              NARROW_LEVEL);
        }
    }
    for (; row < tile->rows; row += OUTER_LEAF) {
        T_NAME(narrow_leaf)(tile, row, minimum(OUTER_LEAF, tile->rows - row), lanes, want_rows, want_columns);
    }
}

VEC_INLINE void T_NAME(sum_narrow)(const T_NAME(tile) * tile, const bool want_rows, const bool want_columns) {
    if (tile->m == 4) {
        T_NAME(sum_lanes)(tile, 4, 4, true, want_rows, want_columns);
    } else if (tile->m == 8) {
        T_NAME(sum_lanes)(tile, 8, 8, true, want_rows, want_columns);
    } else if (tile->columns <= 4) {
        T_NAME(sum_lanes)(tile, 4, tile->m, false, want_rows, want_columns);
    } else if (tile->columns <= 8) {
        T_NAME(sum_lanes)(tile, 8, tile->m, false, want_rows, want_columns);
    } else {
        T_NAME(sum_lanes)(tile, 16, tile->m, false, want_rows, want_columns);
    }
}
