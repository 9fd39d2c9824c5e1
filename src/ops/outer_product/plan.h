/* How the outer product's work is cut into groups: the constants that the ops give their kernels. */
#ifndef MLXN_OPS_OUTER_PRODUCT_PLAN_H
#define MLXN_OPS_OUTER_PRODUCT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OUTER_TILE = 4096,    /* columns that are worked on together: they stay in the first-level cache */
    OUTER_ROWS = 4096,    /* rows of a group of the forward, at most */
    OUTER_SEGMENT = 1024, /* of a row sum (docs/numerics.md) */
    OUTER_LEAF = 32,      /* rows of a leaf of a column sum */
    OUTER_LEVELS = 16,    /* of the tree of leaves inside a group, at most */
    OUTER_ABREAST = 4,    /* rows that are read side by side */
    OUTER_AHEAD = 4096,   /* elements of dy between the one in work and the one that is fetched, at least */
    OUTER_TREE = 32768,   /* floats of that tree, at most: levels times columns */
    OUTER_CHUNK = 1024,   /* sums of a group of the finishing kernel */
};

/* Groups are (batch item, column tile, row block), the row block running fastest. */
typedef struct outer_plan {
    int64_t n, m;
    int64_t tile_columns, column_tiles;
    int64_t block_rows, row_blocks;
    bool accumulate; /* where a tile or block is all there is, the kernel writes the gradient itself; */
                     /* else it writes partial sums, in f32, [batch, tiles or blocks, sums] */
} outer_plan;

/* The pairwise sum of `parts` rows of `length` partial sums, a group per chunk of a batch item's sums. */
typedef struct outer_finish_plan {
    int64_t parts, length, chunks;
    bool accumulate;
} outer_finish_plan;

#endif
