/* y[b,i,j] = lhs[b,i] * rhs[b,j]. A thread writes lines of 16 bytes. Where rows are long, it keeps the columns of one line
 * and walks down ROWS rows; else it takes LINES lines of y, THREADS lines apart, wherever in y they lie. */
#define THREADS 256
#define ROWS 8
#define LINES 8

/* A place in y, and a distance: mixed digits of batch item, row and column. */
typedef struct place {
    i64 item, row, column;
} place;

typedef struct constants {
    i64 n, m, total; /* total: elements of y */
    i64 tiles;       /* of THREADS lines in a row, where rows are long; else 0 */
    i64 blocks;      /* of ROWS rows in an item */
    place step;      /* THREADS lines */
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
    UNROLL
    for (i32 k = 0; k < 4; k++) {
        words[k] = narrow_word(l * r[k * WORD], l * r[k * WORD + WORD - 1]);
    }
}

KERNEL(NAME, THREADS)
(BUFFER(const element, lhs), BUFFER(const element, rhs), BUFFER(element, y), CONSTANTS(constants, c)) {
    OPEN(const element, lhs);
    OPEN(const element, rhs);
    OPEN(element, y);
    u32 words[4];
    float r[LINE];
    if (c.tiles > 0) {
        const i64 column = ((i64)GROUP % c.tiles * THREADS + THREAD) * LINE, block = (i64)GROUP / c.tiles;
        const i64 item = block / c.blocks, first = block % c.blocks * ROWS;
        if (column < c.m) {
            load_line(words, rhs + (item * c.m + column));
            widen_line(r, words);
            const i64 rows = c.n - first < ROWS ? c.n - first : ROWS, row = item * c.n + first;
            if (rows == ROWS) {
                UNROLL
                for (i32 i = 0; i < ROWS; i++) {
                    multiply_line(words, widen(lhs[row + i]), r);
                    store_line(y + ((row + i) * c.m + column), words);
                }
            } else {
                for (i32 i = 0; i < rows; i++) {
                    multiply_line(words, widen(lhs[row + i]), r);
                    store_line(y + ((row + i) * c.m + column), words);
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
        } else {
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
