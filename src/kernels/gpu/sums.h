/* The canonical sums (docs/numerics.md), in any language. */

/* Pairwise: `sum` holds term `index` of a row of terms, `steps` sums side by side, and is added to what waits in `levels`,
 * trees of 2^0, 2^1, and so on terms. After term 2^k - 1 it holds the whole sum of 2^k terms, k <= depth. */
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

/* Of `count` terms, a power of two known where this is compiled: neighbours first. It overwrites them. */
FN float sum_pairs(float *terms, i32 count) {
    UNROLL
    for (i32 step = 1; step < count; step *= 2) {
        UNROLL
        for (i32 i = 0; i + step < count; i += 2 * step) {
            terms[i] = terms[i] + terms[i + step];
        }
    }
    return terms[0];
}

/* Of a row's `width` lanes, a power of two up to 32: a halving tree. It overwrites them. */
FN float sum_lanes(float *lanes, i32 width) {
    UNROLL
    for (i32 step = 0; step < 5; step++) {
        UNROLL
        for (i32 l = 0; l < 16; l++) {
            if (l < 16 >> step && 16 >> step < width) {
                lanes[l] = lanes[l] + lanes[l + (16 >> step)];
            }
        }
    }
    return lanes[0];
}

/* What becomes of an element of which `sum` is the whole sum, or that the sum is added to. */
FN element whole_sum(const GLOBAL element *its, float sum, bool accumulate) {
    sum += 0.0f; /* a zero is +0 */
    return narrow(accumulate ? widen(*its) + sum : sum);
}

FN void write_sum(GLOBAL element *to, float sum, bool accumulate) { *to = whole_sum(to, sum, accumulate); }

/* Writes a partial sum. */
FN void write_part(GLOBAL float *to, float sum) { keep_word(to, bits_of(sum)); }
