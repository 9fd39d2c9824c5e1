/* Pairwise sums, in any language: `sum` holds term `index` of a row of terms, `steps` sums side by side, and is added to what
 * waits in `levels`, trees of 2^0, 2^1, … terms. After term 2^k - 1 it holds the whole sum of 2^k terms, k <= depth. */
FN void push_term(float *sum, float *levels, u32 index, i32 steps, i32 depth) {
    bool placed = false;
    UNROLL
    for (i32 level = 0; level < depth; level++) {
        if (!placed) {
            placed = (index >> level & 1) == 0;
            UNROLL
            for (i32 t = 0; t < steps; t++) {
                if (placed) {
                    levels[level * steps + t] = sum[t];
                } else {
                    sum[t] = levels[level * steps + t] + sum[t];
                }
            }
        }
    }
}
