/* y[b,i,j] = lhs[b,i] * rhs[b,j]. A thread writes lines of 16 bytes. Where rows are whole lines, and a power of two of them
 * or at least as many as a group has threads, it keeps the columns of one line and walks down `rows` rows, up to ROWS; of short rows a
 * group takes several at a time. Else it takes LINES lines of y, THREADS lines apart, wherever in y they lie. */
/* A place in y, and a distance: mixed digits of batch item, row and column. */
typedef struct place {
    i64 item, row, column;
} place;

typedef struct constants {
    i64 n, m, total; /* total: elements of y */
    i64 across;      /* lines of a row that a group writes side by side, up to THREADS; 0: rows are not whole lines */
    i64 tiles;       /* of columns */
    i64 rows;
    i64 blocks; /* groups that an item has below each other */
    place step; /* THREADS lines */
} constants;

FN place place_of(i64 at, i64 n, i64 m) {
    const i64 row = at / m;
    place found;
    found.item = row / n;
    found.row = row - found.item * n;
    found.column = at - row * m;
    return found;
}

FN void move(place *at, const place *by, i64 n, i64 m) {
    at->column += by->column;
    const i64 next_row = at->column >= m ? 1 : 0;
    at->column -= next_row != 0 ? m : 0;
    at->row += by->row + next_row;
    const i64 next_item = at->row >= n ? 1 : 0;
    at->row -= next_item != 0 ? n : 0;
    at->item += by->item + next_item;
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

KERNEL(NAME, THREADS, 1)
(BUFFER(const element, lhs), BUFFER(const element, rhs), BUFFER(element, y), CONSTANTS(constants, c)) {
    OPEN(const element, lhs);
    OPEN(const element, rhs);
    OPEN(element, y);
    u32 words[4];
    float r[LINE];
    AWAIT();
    if (c.across > 0) {
        const u32 across = (u32)c.across, step = THREADS / across;
        const i64 block = (i64)GROUP / c.tiles, item = block / c.blocks;
        const i64 column = ((i64)GROUP % c.tiles * THREADS + THREAD % across) * LINE;
        const i64 row = block % c.blocks * (c.rows * step) + THREAD / across;
        if (column < c.m) {
            float l[ROWS];
            UNROLL
            for (i32 k = 0; k < ROWS; k++) {
                l[k] = k < c.rows && row + k * step < c.n ? widen(lhs[item * c.n + row + k * step]) : 0.0f;
            }
            load_line_cached(words, rhs + (item * c.m + column));
            widen_line(r, words);
            UNROLL
            for (i32 k = 0; k < ROWS; k++) {
                if (k < c.rows && row + k * step < c.n) {
                    multiply_line(words, l[k], r);
                    store_line(y + ((item * c.n + row + k * step) * c.m + column), words);
                }
            }
        }
        return;
    }
    /* The lines of y's memory, of which the first may begin before y and the last end behind it. */
    const i64 before = (i64)((u64)y & 15) / (16 / LINE);
    i64 at = ((i64)GROUP * (THREADS * LINES) + THREAD) * LINE - before;
    const bool whole_lines = before == 0 && c.m % LINE == 0 && ((u64)rhs & 15) == 0;
    place here = place_of(at < 0 ? 0 : at, c.n, c.m);
    const place one = {0, 0, 1};
    for (i32 line = 0; line < LINES && at < c.total; line++) {
        if (whole_lines) { /* and all of it inside, since LINE divides the total */
            load_line_cached(words, rhs + (here.item * c.m + here.column));
            widen_line(r, words);
            multiply_line(words, widen(lhs[here.item * c.n + here.row]), r);
            store_line(y + at, words);
        } else if (at >= 0 && at + LINE <= c.total && here.row + LINE < c.n) {
            const GLOBAL element *l = lhs + (here.item * c.n + here.row), *of = rhs + here.item * c.m;
            i64 column = here.column;
            float factor = widen(*l);
            UNROLL
            for (i32 k = 0; k < LINE; k++) {
                r[k] = factor * widen(of[column]);
                column++;
                if (column == c.m) {
                    column = 0;
                    l++;
                    factor = widen(*l);
                }
            }
            narrow_line(words, r);
            store_line(y + at, words);
        } else { /* at either end, and where the next item may begin */
            place in = here;
            for (i32 k = 0; k < LINE; k++) {
                if (at + k >= 0 && at + k < c.total) {
                    y[at + k] = narrow(widen(lhs[in.item * c.n + in.row]) * widen(rhs[in.item * c.m + in.column]));
                    move(&in, &one, c.n, c.m);
                }
            }
        }
        if (at < 0) {
            here = place_of(at + THREADS * LINE, c.n, c.m);
        } else {
            move(&here, &c.step, c.n, c.m);
        }
        at += THREADS * LINE;
    }
}
