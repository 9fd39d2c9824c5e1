/* The outer product of small items, and of rows that are a power of two of elements up to a line: a thread takes LINES lines
 * of y, THREADS lines apart. */
#define AHEAD 2 /* lines; more would take registers that other groups need */
#if LINES % AHEAD != 0
#error "LINES is a multiple of AHEAD"
#endif

/* The line of rows of m elements, a power of two up to LINE, of which l and r hold as many as it has. */
FN void multiply_rows(u32 *words, const element *l, const float *r, u32 m) {
    float products[LINE];
    UNROLL
    for (u32 k = 0; k < LINE; k++) {
        products[k] = widen(m == 1 ? l[k] : m == 2 ? l[k / 2] : m == 4 ? l[k / 4] : l[k / 8]) * r[k];
    }
    narrow_line(words, products);
}

/* A thread's lines from y[at] on, of one item of which a line holds several rows, m as above. What AHEAD lines take of lhs is
 * read before the first is written. */
FN void write_rows(GLOBAL element *y, const GLOBAL element *lhs, const GLOBAL element *rhs, i64 at, i64 total, u32 m) {
    const u32 rows = THREADS * LINE / m; /* from a line to the next */
    const GLOBAL element *from = lhs + quotient(at, (i64)m);
    u32 words[4];
    float r[LINE];
    UNROLL
    for (u32 k = 0; k < LINE; k++) {
        r[k] = widen(rhs[k & (m - 1)]);
    }
    for (u32 done = 0; done < LINES; done += AHEAD) {
        element l[AHEAD][LINE];
        UNROLL
        for (u32 line = 0; line < AHEAD; line++) {
            const bool whole = at + line * (THREADS * LINE) + LINE <= total;
            UNROLL
            for (u32 k = 0; k < LINE; k++) {
                l[line][k] = whole && k * m < LINE ? from[line * rows + k] : (element)0;
            }
        }
        UNROLL
        for (u32 line = 0; line < AHEAD; line++) {
            if (at + LINE <= total) {
                multiply_rows(words, l[line], r, m);
                store_line(y + at, words);
            } else {
                for (u32 k = 0; at + k < total; k++) {
                    y[at + k] = narrow(widen(from[k / m]) * widen(rhs[k & (m - 1)]));
                }
            }
            at += THREADS * LINE;
            from += rows;
        }
    }
}
KERNEL(NAME, THREADS, 1)
(BUFFER(const element, lhs), BUFFER(const element, rhs), BUFFER(element, y), CONSTANTS(constants, c)) {
    OPEN(const element, lhs);
    OPEN(const element, rhs);
    OPEN(element, y);
    AWAIT();
    read_ahead(lhs, rhs, &c);
    const i64 before = elements_before(y);
    const i64 at = ((i64)GROUP * (THREADS * LINES) + THREAD) * LINE - before;
    if (c.straight != 0) {
        write_rows(y, lhs, rhs, at, c.total, (u32)c.m);
    } else {
        write_lines(y, lhs, rhs, at, before, &c);
    }
}
