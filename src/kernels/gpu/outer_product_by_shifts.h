/* The outer product of long rows that begin anywhere: a thread keeps the columns of one line of y and walks down `rows` rows, up
 * to ROWS. These are a multiple of LINE apart, so that all of them begin at the same place in a line. */

/* What of a line that begins in `column` belongs to a row of m elements, which begins at *to. */
FN void store_part(GLOBAL element *to, i64 column, i64 m, const u32 *words) {
    UNROLL
    for (u32 k = 0; k < LINE; k++) {
        if (column + k >= 0 && column + k < m) {
            to[column + k] = element_of(words[k / WORD], k % WORD);
        }
    }
}

KERNEL(NAME, THREADS, 5)
(BUFFER(const element, lhs), BUFFER(const element, rhs), BUFFER(element, y), CONSTANTS(constants, c)) {
    OPEN(const element, lhs);
    OPEN(const element, rhs);
    OPEN(element, y);
    AWAIT();
    read_ahead(lhs, rhs, &c);
    const u32 beside = THREADS >> c.across_log2, step = beside < LINE ? LINE : beside;
    const i64 group = place_in_strips(rhs, &c);
    const i64 block = quotient(group, c.tiles), item = quotient(block, c.blocks);
    const i64 down = block - item * c.blocks, turn = down >> c.turns_log2;
    const i64 row = turn * (c.rows * step) + (down - (turn << c.turns_log2)) * beside + (THREAD >> c.across_log2);
    const i64 line = ((group - block * c.tiles) << c.across_log2) + (THREAD & ((1u << c.across_log2) - 1));
    GLOBAL element *to = y + (item * c.n + row) * c.m;
    const i64 column = line * LINE - elements_before(to);
    if (column >= c.m) {
        return;
    }
    const GLOBAL element *of = rhs + item * c.m;
    float r[LINE];
    UNROLL
    for (u32 k = 0; k < LINE; k++) {
        r[k] = column + k >= 0 && column + k < c.m ? widen(of[column + k]) : 0.0f;
    }
    const GLOBAL element *from = lhs + (item * c.n + row);
    float l[ROWS];
    UNROLL
    for (u32 k = 0; k < ROWS; k++) {
        l[k] = k < c.rows && row + k * step < c.n ? widen(from[k * step]) : 0.0f;
    }
    u32 words[4];
    if (column >= 0 && column + LINE <= c.m) {
        UNROLL
        for (u32 k = 0; k < ROWS; k++) {
            if (k < c.rows && row + k * step < c.n) {
                multiply_line(words, l[k], r);
                store_line(to + column, words);
                to += step * c.m;
            }
        }
    } else {
        UNROLL
        for (u32 k = 0; k < ROWS; k++) {
            if (k < c.rows && row + k * step < c.n) {
                multiply_line(words, l[k], r);
                store_part(to, column, c.m, words);
                to += step * c.m;
            }
        }
    }
}
