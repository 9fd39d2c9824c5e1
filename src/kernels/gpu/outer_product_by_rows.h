/* The outer product where rows are whole lines, and a power of two of them or at least as many as a group has threads: a
 * thread keeps the columns of one line and walks down `rows` rows, up to ROWS; of short rows a group takes several at a time.
 * What it takes of short rows lies together, for which there is a way with less arithmetic. */
KERNEL(NAME, THREADS, 5)
(BUFFER(const element, lhs), BUFFER(const element, rhs), BUFFER(element, y), CONSTANTS(constants, c)) {
    OPEN(const element, lhs);
    OPEN(const element, rhs);
    OPEN(element, y);
    u32 words[4];
    float r[LINE];
    AWAIT();
    read_ahead(lhs, rhs, &c);
    if (c.straight != 0) { /* of one item, of which a group takes what lies together */
        const i64 first = (i64)GROUP * (c.rows * THREADS) + THREAD, lines = c.total / LINE;
        const GLOBAL element *from = lhs + (first >> c.across_log2);
        const u32 apart = THREADS >> c.across_log2;
        float l[ROWS];
        UNROLL
        for (u32 k = 0; k < ROWS; k++) {
            l[k] = k < c.rows && first + k * THREADS < lines ? widen(from[k * apart]) : 0.0f;
        }
        load_line(words, rhs + (THREAD & ((1u << c.across_log2) - 1)) * LINE);
        widen_line(r, words);
        UNROLL
        for (u32 k = 0; k < ROWS; k++) {
            if (k < c.rows && first + k * THREADS < lines) {
                multiply_line(words, l[k], r);
                store_line(y + (first + k * THREADS) * LINE, words);
            }
        }
        return;
    }
    const u32 step = THREADS >> c.across_log2;
    const i64 group = place_in_strips(rhs, &c);
    const i64 block = quotient(group, c.tiles), item = quotient(block, c.blocks);
    const i64 tile = group - block * c.tiles;
    const i64 column = (tile * THREADS + (THREAD & ((1u << c.across_log2) - 1))) * LINE;
    const i64 row = (block - item * c.blocks) * (c.rows * step) + (THREAD >> c.across_log2);
    if (column < c.m) {
        const GLOBAL element *from = lhs + (item * c.n + row);
        float l[ROWS];
        UNROLL
        for (u32 k = 0; k < ROWS; k++) {
            l[k] = k < c.rows && row + k * step < c.n ? widen(from[k * step]) : 0.0f;
        }
        if (c.blocks == 1) {
            load_line_last(words, rhs + (item * c.m + column));
        } else {
            load_line(words, rhs + (item * c.m + column));
        }
        widen_line(r, words);
        GLOBAL element *to = y + ((item * c.n + row) * c.m + column);
        UNROLL
        for (u32 k = 0; k < ROWS; k++) {
            if (k < c.rows && row + k * step < c.n) {
                multiply_line(words, l[k], r);
                store_line(to, words);
                to += step * c.m;
            }
        }
    }
}
