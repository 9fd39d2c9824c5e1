/* y[b,i,j] = lhs[b,i] * rhs[b,j], in lines of 16 bytes of y. Two ways:
 *
 * BY_ROWS, where rows are whole lines, and a power of two of them or at least as many as a group has threads: a thread keeps
 * the columns of one line and walks down `rows` rows, up to ROWS; of short rows a group takes several at a time. What it
 * takes of short rows lies together, for which there is a way with less arithmetic.
 *
 * Else a thread takes LINES lines of y, THREADS lines apart, wherever in y they lie. */
typedef struct constants {
    i64 n, m, total; /* total: elements of y */
    i64 tiles;       /* of a row: groups that write side by side */
    i64 blocks;      /* of an item: groups below each other */
    u32 across_log2; /* lines of a row that a group writes side by side */
    u32 rows;
    u32 straight;                         /* one item, and a group's lines lie together */
    i64 step_item, step_row, step_column; /* what THREADS lines are */
    /* Groups, a power of two, that are read for at once; what one reads of lhs or rhs that none before it has; all of it. */
    u32 ahead_log2;
    i64 ahead_each; /* bytes, 0: none is read ahead */
    i64 ahead_lhs, ahead_rhs;
} constants;

/* A read from memory among writes holds these up, so it is better that many come together. Of each 2^ahead_log2 groups, which
 * run at about the same time, the first bring closer what the next as many groups will read, in PARTS parts. */
#define PARTS 128
FN void read_ahead(const GLOBAL u8 *from, i64 bytes, const constants *c) {
    const u32 groups = 1u << c->ahead_log2;
    const i64 each = ((i64)c->ahead_each << c->ahead_log2) / PARTS;
    const i64 next = ((i64)(GROUP >> c->ahead_log2) + 1) * each * PARTS;
    for (u32 part = (u32)GROUP & (groups - 1); part < PARTS; part += groups) {
        const i64 begin = next + part * each;
        for (i64 at = begin + THREAD * 128; at < begin + each && at < bytes; at += THREADS * 128) {
            prefetch_bytes(from + at);
        }
    }
}

FN void widen_line(float *values, const u32 *words) {
    UNROLL
    for (i32 k = 0; k < LINE; k++) {
        values[k] = widen_word(words[k / WORD], k % WORD);
    }
}

/* The line l * r. */
FN void multiply_line(u32 *words, float l, const float *r) {
    float products[LINE];
    UNROLL
    for (i32 k = 0; k < LINE; k++) {
        products[k] = l * r[k];
    }
    narrow_line(words, products);
}

#if !BY_ROWS
#define AHEAD 2 /* lines; more would take registers that other groups need */
#if LINES % AHEAD != 0
#error "LINES is a multiple of AHEAD"
#endif

/* A place in y, and a distance: mixed digits of batch item, row and column. */
typedef struct place {
    i64 item, row, column;
} place;

FN place place_of(i64 at, i64 n, i64 m) {
    const i64 row = quotient(at, m);
    place found;
    found.item = quotient(row, n);
    found.row = row - found.item * n;
    found.column = at - row * m;
    return found;
}

FN void move(place *at, i64 items, i64 rows, i64 columns, i64 n, i64 m) {
    at->column += columns;
    const i64 next_row = at->column >= m ? 1 : 0;
    at->column -= next_row != 0 ? m : 0;
    at->row += rows + next_row;
    const i64 next_item = at->row >= n ? 1 : 0;
    at->row -= next_item != 0 ? n : 0;
    at->item += items + next_item;
}

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
#endif

KERNEL(NAME, THREADS, 1)
(BUFFER(const element, lhs), BUFFER(const element, rhs), BUFFER(element, y), CONSTANTS(constants, c)) {
    OPEN(const element, lhs);
    OPEN(const element, rhs);
    OPEN(element, y);
    u32 words[4];
    float r[LINE];
    AWAIT();
    if (c.ahead_each > 0) {
        read_ahead((const GLOBAL u8 *)lhs, c.ahead_lhs, &c);
        read_ahead((const GLOBAL u8 *)rhs, c.ahead_rhs, &c);
    }
#if BY_ROWS
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
    const i64 block = quotient((i64)GROUP, c.tiles), item = quotient(block, c.blocks);
    const i64 tile = (i64)GROUP - block * c.tiles;
    const i64 column = (tile * THREADS + (THREAD & ((1u << c.across_log2) - 1))) * LINE;
    const i64 row = (block - item * c.blocks) * (c.rows * step) + (THREAD >> c.across_log2);
    if (column < c.m) {
        const GLOBAL element *from = lhs + (item * c.n + row);
        float l[ROWS];
        UNROLL
        for (u32 k = 0; k < ROWS; k++) {
            l[k] = k < c.rows && row + k * step < c.n ? widen(from[k * step]) : 0.0f;
        }
        load_line(words, rhs + (item * c.m + column));
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
#else
    /* The lines of y's memory, of which the first may begin before y and the last end behind it. */
    const i64 before = (i64)((u64)y & 15) / (16 / LINE);
    i64 at = ((i64)GROUP * (THREADS * LINES) + THREAD) * LINE - before;
    const bool whole_lines = before == 0 && (c.m & (LINE - 1)) == 0 && ((u64)rhs & 15) == 0;
    if (before == 0 && c.m <= LINE && LINE % (u32)c.m == 0 && c.total == c.n * c.m) {
        write_rows(y, lhs, rhs, at, c.total, (u32)c.m);
        return;
    }
    place here = place_of(at < 0 ? 0 : at, c.n, c.m);
    for (i32 line = 0; line < LINES && at < c.total; line++) {
        if (whole_lines) { /* and all of it inside, since LINE divides the total */
            load_line(words, rhs + (here.item * c.m + here.column));
            widen_line(r, words);
            multiply_line(words, widen(lhs[here.item * c.n + here.row]), r);
            store_line(y + at, words);
        } else if (at >= 0 && here.column + LINE <= c.m) {
            const GLOBAL element *of = rhs + (here.item * c.m + here.column);
            float values[LINE];
            UNROLL
            for (i32 k = 0; k < LINE; k++) {
                values[k] = widen(of[k]);
            }
            multiply_line(words, widen(lhs[here.item * c.n + here.row]), values);
            store_line(y + at, words);
        } else if (at >= 0 && at + LINE <= c.total && here.row + LINE < c.n) {
            const GLOBAL element *l = lhs + (here.item * c.n + here.row), *of = rhs + here.item * c.m;
            i64 column = here.column;
            float factor = widen(*l), values[LINE];
            UNROLL
            for (i32 k = 0; k < LINE; k++) {
                values[k] = factor * widen(of[column]);
                column++;
                if (column == c.m) {
                    column = 0;
                    l++;
                    factor = widen(*l);
                }
            }
            narrow_line(words, values);
            store_line(y + at, words);
        } else { /* at either end, and where the next item may begin */
            place in = here;
            for (i32 k = 0; k < LINE; k++) {
                if (at + k >= 0 && at + k < c.total) {
                    y[at + k] = narrow(widen(lhs[in.item * c.n + in.row]) * widen(rhs[in.item * c.m + in.column]));
                    move(&in, 0, 0, 1, c.n, c.m);
                }
            }
        }
        if (at < 0) {
            here = place_of(at + THREADS * LINE, c.n, c.m);
        } else {
            move(&here, c.step_item, c.step_row, c.step_column, c.n, c.m);
        }
        at += THREADS * LINE;
    }
#endif
}
