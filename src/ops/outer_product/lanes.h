/* What rows of less than 16 columns need, whatever their dtype. */
#ifndef MLXN_OPS_OUTER_PRODUCT_LANES_H
#define MLXN_OPS_OUTER_PRODUCT_LANES_H

#include "kernels/cpu/vec_rows.h"
#include "ops/outer_product/tree.h"

enum {
    NARROW_LEVEL = 3, /* leaves are added 2^3 at a time */
    NARROW_LEAVES = 1 << NARROW_LEVEL,
    NARROW_ROWS = NARROW_LEAVES * OUTER_LEAF,
    NARROW_AHEAD = 4096, /* bytes */
};

/* Adds the sum of 2^level leaves, a whole subtree, to a tree of at most 16 columns. */
VEC_INLINE void tree_push_subtree(sum_tree *tree, v16 sum, int64_t level) {
    int64_t to = level;
    for (int64_t bits = tree->count >> level; (bits & 1) != 0; bits >>= 1) {
        sum = v16_add(v16_load_f32(tree->levels[to++]), sum);
    }
    v16_store_f32(tree->levels[to], sum);
    tree->count += INT64_C(1) << level;
}

/* Which row the elements of a line of 16 belong to, if its first one stands in column j: for v16_expand_halves, each
 * half counted from its own first row; `second` is that of the second half. */
typedef struct expansion {
    int32_t index[16][16];
    int32_t second[16];
} expansion;

VEC_INLINE void expansion_begin(expansion *e, int32_t width) {
    for (int32_t j = 0; j < width; j++) {
        e->second[j] = (j + 8) / width;
        for (int32_t l = 0; l < 8; l++) {
            e->index[j][l] = (j + l) / width;
            e->index[j][l + 8] = (j + l + 8) / width - e->second[j] + 8;
        }
    }
}

#endif
