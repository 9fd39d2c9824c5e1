/* Pairwise sums in the canonical order: neighbours are added, an odd last one is carried up unchanged, level by
 * level. Taking the terms one at a time, that is a binary counter: the trees that wait have the sizes of the bits set
 * in the number of terms so far. */
#ifndef MLXN_OPS_OUTER_PRODUCT_TREE_H
#define MLXN_OPS_OUTER_PRODUCT_TREE_H

#include "kernels/cpu/vec.h"
#include "ops/outer_product/plan.h"

VEC_INLINE int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Whether rows of so many bytes are read side by side, with the next ones fetched ahead, or one after the other. Short
 * rows make one stream, which the processor fetches ahead best by itself, as long as nothing else misses the first-level
 * cache; long ones lie apart, and what they share outgrows that cache. For both gradients in one pass the loads and
 * stores of the shared parts count more. (docs/performance.md has the figures.) */
VEC_INLINE bool reads_abreast(int64_t row_bytes, bool both) {
    return row_bytes > 8192 || (both && row_bytes < 2048);
}

/* The sum of `count` terms, in place. */
VEC_INLINE v16 pairwise(v16 *terms, int64_t count) {
    while (count > 1) {
        for (int64_t i = 0; i < count / 2; i++) {
            terms[i] = v16_add(terms[2 * i], terms[2 * i + 1]);
        }
        if (count % 2 != 0) {
            terms[count / 2] = terms[count - 1];
        }
        count = (count + 1) / 2;
    }
    return terms[0];
}

/* The same for terms in memory, `stride` apart, of `lanes` lanes (at most 16). */
VEC_INLINE v16 pairwise_strided(const float *terms, int64_t count, int64_t stride, int64_t lanes) {
    v16 waiting[64];
    int depth = 0; /* trees that wait, the largest first */
    for (int64_t i = 0; i < count; i++) {
        const float *p = terms + i * stride;
        v16 sum = lanes == 16 ? v16_load_f32(p) : v16_load_part_f32(p, (size_t)lanes);
        for (int64_t bits = i; (bits & 1) != 0; bits >>= 1) {
            sum = v16_add(waiting[--depth], sum);
        }
        waiting[depth++] = sum;
    }
    v16 sum = waiting[--depth];
    while (depth > 0) {
        sum = v16_add(waiting[--depth], sum);
    }
    return sum;
}

/* The same for vectors of any width: the tree of column sums of a group. */
typedef struct sum_tree {
    float *leaf;                 /* the next term, filled by the caller before tree_push */
    float *levels[OUTER_LEVELS]; /* level l: what waits as a tree of 2^l terms */
    int64_t width;               /* of each, a multiple of 16 */
    int64_t count;               /* terms so far */
} sum_tree;

/* An empty tree in `memory` of OUTER_TREE floats; as many levels as there is room for. */
VEC_INLINE void tree_begin(sum_tree *tree, float *memory, int64_t width) {
    width = (width + 15) / 16 * 16;
    tree->leaf = memory;
    tree->width = width;
    tree->count = 0;
    for (int64_t level = 0; level < OUTER_LEVELS && (level + 2) * width <= OUTER_TREE; level++) {
        tree->levels[level] = memory + (level + 1) * width;
    }
}

/* to = a + b; to may be b. */
VEC_INLINE void add_vectors(float *to, const float *a, const float *b, int64_t width) {
    for (int64_t j = 0; j < width; j += 16) {
        v16_store_f32(to + j, v16_add(v16_load_f32(a + j), v16_load_f32(b + j)));
    }
}

/* Takes in the term in tree->leaf, which then points to where the next one goes. */
VEC_INLINE void tree_push(sum_tree *tree) {
    float **level = tree->levels;
    for (int64_t bits = tree->count; (bits & 1) != 0; bits >>= 1, level++) {
        add_vectors(tree->leaf, *level, tree->leaf, tree->width);
    }
    float *sum = tree->leaf;
    tree->leaf = *level;
    *level = sum;
    tree->count++;
}

/* The sum of all terms. */
VEC_INLINE const float *tree_root(sum_tree *tree) {
    const float *root = NULL;
    float **level = tree->levels;
    for (int64_t bits = tree->count; bits != 0; bits >>= 1, level++) {
        if ((bits & 1) != 0) {
            if (root != NULL) {
                add_vectors(*level, *level, root, tree->width);
            }
            root = *level;
        }
    }
    return root;
}

/* Stores `count` partial sums (at most 16). */
VEC_INLINE void write_partial(float *to, v16 sums, int64_t count) {
    count < 16 ? v16_store_part_f32(to, sums, (size_t)count) : v16_store_f32(to, sums);
}

#endif
