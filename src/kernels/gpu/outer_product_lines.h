/* The outer product, line by line of y's memory, wherever they lie. */

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

/* Whether lines of y are lines of rhs. */
FN bool are_lines_of(const GLOBAL element *rhs, i64 before, i64 m) {
    return before == 0 && (m & (LINE - 1)) == 0 && ((u64)rhs & 15) == 0;
}

/* A thread's lines from y[at] on. The first of all may begin `before` elements in front of y, and the last end behind it. */
FN void write_lines(GLOBAL element *y, const GLOBAL element *lhs, const GLOBAL element *rhs, i64 at, i64 before,
                    const constants *c) {
    u32 words[4];
    float r[LINE];
    place here = place_of(at < 0 ? 0 : at, c->n, c->m);
    const bool whole_lines = are_lines_of(rhs, before, c->m);
    for (i32 line = 0; line < LINES && at < c->total; line++) {
        if (whole_lines) { /* and all of it inside, since LINE divides the total */
            load_line(words, rhs + (here.item * c->m + here.column));
            widen_line(r, words);
            multiply_line(words, widen(lhs[here.item * c->n + here.row]), r);
            store_line(y + at, words);
        } else if (at >= 0 && here.column + LINE <= c->m) {
            const GLOBAL element *of = rhs + (here.item * c->m + here.column);
            UNROLL
            for (i32 k = 0; k < LINE; k++) {
                r[k] = widen(of[k]);
            }
            multiply_line(words, widen(lhs[here.item * c->n + here.row]), r);
            store_line(y + at, words);
        } else if (at >= 0 && at + LINE <= c->total && here.row + LINE < c->n) {
            const GLOBAL element *l = lhs + (here.item * c->n + here.row), *of = rhs + here.item * c->m;
            i64 column = here.column;
            float factor = widen(*l), values[LINE];
            UNROLL
            for (i32 k = 0; k < LINE; k++) {
                values[k] = factor * widen(of[column]);
                column++;
                if (column == c->m) {
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
                if (at + k >= 0 && at + k < c->total) {
                    y[at + k] = narrow(widen(lhs[in.item * c->n + in.row]) * widen(rhs[in.item * c->m + in.column]));
                    move(&in, 0, 0, 1, c->n, c->m);
                }
            }
        }
        if (at < 0) {
            here = place_of(at + THREADS * LINE, c->n, c->m);
        } else {
            move(&here, c->step_item, c->step_row, c->step_column, c->n, c->m);
        }
        at += THREADS * LINE;
    }
}
