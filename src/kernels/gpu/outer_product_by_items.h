/* The outer product of items that have many groups' worth of lines: a thread takes LINES lines of y, THREADS lines apart. Those
 * of a group that are whole and of one item have ways of their own, each from the element on that stands in `column` of the
 * row that *l belongs to. What AHEAD lines take of lhs and from afar is read before the first is written, and what
 * ALIGNED_AHEAD lines take that are lines of rhs. */
#define AHEAD 2
#define ALIGNED_AHEAD 4
#if LINES % ALIGNED_AHEAD != 0
#error "LINES is a multiple of ALIGNED_AHEAD"
#endif

FN void step_over(u32 *column, const GLOBAL element **l, const constants *c) {
    *column += (u32)c->step_column;
    *l += c->step_row;
    if (*column >= (u32)c->m) {
        *column -= (u32)c->m;
        *l += 1;
    }
}

/* The line of which `left` elements belong to the row of `first`, and the others to the next, of `second`. */
FN void multiply_two(u32 *words, element first, element second, u32 left, const float *r) {
    const float factors[2] = {widen(first), widen(second)};
    float products[LINE];
    UNROLL
    for (u32 k = 0; k < LINE; k++) {
        products[k] = (k < left ? factors[0] : factors[1]) * r[k];
    }
    narrow_line(words, products);
}

/* Of rows of whole lines, from aligned places on. */
FN void write_aligned(GLOBAL element *y, const GLOBAL element *l, const GLOBAL element *rhs, u32 column,
                      const constants *c) {
    u32 words[4];
    float r[LINE];
    for (u32 done = 0; done < LINES; done += ALIGNED_AHEAD) {
        u32 lines[ALIGNED_AHEAD][4];
        element factors[ALIGNED_AHEAD];
        UNROLL
        for (u32 line = 0; line < ALIGNED_AHEAD; line++) {
            load_line(lines[line], rhs + column);
            factors[line] = *l;
            step_over(&column, &l, c);
        }
        UNROLL
        for (u32 line = 0; line < ALIGNED_AHEAD; line++) {
            widen_line(r, lines[line]);
            multiply_line(words, widen(factors[line]), r);
            store_line(y, words);
            y += THREADS * LINE;
        }
    }
}

/* Of short rows: a row of rhs, and from its end on again, lies in local memory LINE times, copy s from element s on, so that
 * LINE elements from any one on are a line of one of the copies. */
#define PITCH THREADS
#define SHORT (PITCH - LINE) /* up to here a copy, a line longer than the row, has room */

FN void copy_rhs(LOCAL element *copies, const GLOBAL element *rhs, u32 m) {
    if (THREAD < m + LINE) {
        UNROLL
        for (u32 copy = 0; copy < LINE; copy++) {
            const u32 column = THREAD + copy;
            copies[copy * PITCH + THREAD] = rhs[m < 2 * LINE ? column % m : column < m ? column : column - m];
        }
    }
}

FN void load_copy(float *r, LOCAL const element *copies, u32 column) {
    u32 words[4];
    const u32 copy = column % LINE;
    load_local_line(words, copies + copy * PITCH + (column - copy));
    widen_line(r, words);
}

/* Rows shorter than a line. */
FN void write_shortest(GLOBAL element *y, const GLOBAL element *l, LOCAL const element *copies, u32 column,
                       const constants *c) {
    u32 words[4];
    float r[LINE], products[LINE];
    for (u32 done = 0; done < LINES; done += AHEAD) {
        u32 columns[AHEAD];
        element factors[AHEAD][LINE];
        UNROLL
        for (u32 line = 0; line < AHEAD; line++) {
            columns[line] = column;
            const GLOBAL element *its = l;
            u32 at = column;
            UNROLL
            for (u32 k = 0; k < LINE; k++) {
                factors[line][k] = *its;
                at = at + 1 < (u32)c->m ? at + 1 : 0;
                its += at == 0 ? 1 : 0;
            }
            step_over(&column, &l, c);
        }
        UNROLL
        for (u32 line = 0; line < AHEAD; line++) {
            load_copy(r, copies, columns[line]);
            UNROLL
            for (u32 k = 0; k < LINE; k++) {
                products[k] = widen(factors[line][k]) * r[k];
            }
            narrow_line(words, products);
            store_line(y, words);
            y += THREADS * LINE;
        }
    }
}

/* Of long rows: the elements of a line, or in 16 bits, of one that lies in a single row, the words that hold them: these may
 * begin before rhs or end behind it, by an element of the same word. */
#define RAW (WORD == 1 ? LINE : LINE / 2 + 1)
FN void read_elements(u32 *raw, const GLOBAL element *rhs, u32 column, u32 m) {
#if WORD == 1
    UNROLL
    for (u32 k = 0; k < LINE; k++) {
        raw[k] = word_of(rhs[column + k < m ? column + k : column + k - m]);
    }
#else
    const GLOBAL u8 *from = (const GLOBAL u8 *)(rhs + (column + LINE <= m ? column : 0));
    const u32 odd = (u32)(u64)from & 2;
    const GLOBAL u32 *words = (const GLOBAL u32 *)(from - odd);
    UNROLL
    for (u32 k = 0; k < LINE / 2; k++) {
        raw[k] = words[k];
    }
    raw[LINE / 2] = words[odd != 0 ? LINE / 2 : 0];
#endif
}

FN void widen_elements(float *r, const u32 *raw, const GLOBAL element *rhs, u32 column, u32 m) {
#if WORD == 1
    widen_line(r, raw);
#else
    if (column + LINE <= m) {
        u32 words[4];
        const bool odd = ((u32)(u64)(rhs + column) & 2) != 0;
        UNROLL
        for (u32 k = 0; k < LINE / 2; k++) {
            words[k] = odd ? raw[k] >> 16 | raw[k + 1] << 16 : raw[k];
        }
        widen_line(r, words);
    } else {
        UNROLL
        for (u32 k = 0; k < LINE; k++) {
            r[k] = widen(rhs[column + k < m ? column + k : column + k - m]);
        }
    }
#endif
}

/* Rows of a line or more: short ones by the copies, long ones from rhs itself. */
FN void write_longer(GLOBAL element *y, const GLOBAL element *l, const GLOBAL element *rhs, LOCAL const element *copies,
                     bool is_short, u32 column, const constants *c) {
    const u32 m = (u32)c->m;
    u32 words[4];
    float r[LINE];
    for (u32 done = 0; done < LINES; done += AHEAD) {
        u32 columns[AHEAD], raw[AHEAD][RAW];
        element first[AHEAD], second[AHEAD];
        UNROLL
        for (u32 line = 0; line < AHEAD; line++) {
            columns[line] = column;
            if (!is_short) {
                read_elements(raw[line], rhs, column, m);
            }
            first[line] = l[0];
            second[line] = l[column + LINE > m ? 1 : 0];
            step_over(&column, &l, c);
        }
        UNROLL
        for (u32 line = 0; line < AHEAD; line++) {
            if (is_short) {
                load_copy(r, copies, columns[line]);
            } else {
                widen_elements(r, raw[line], rhs, columns[line], m);
            }
            multiply_two(words, first[line], second[line], m - columns[line], r);
            store_line(y, words);
            y += THREADS * LINE;
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
    const i64 before = elements_before(y);
    const i64 first = place_in_strips(rhs, &c) * (THREADS * LINES * LINE) - before;
    const i64 end = first + THREADS * LINES * LINE, at = first + (i64)THREAD * LINE, of_item = c.n * c.m;
    const bool of_one =
        first >= 0 && end <= c.total && (c.total == of_item || quotient(first, of_item) == quotient(end - 1, of_item));
    const bool aligned = are_lines_of(rhs, before, c.m);
    const place here = place_of(at < 0 ? 0 : at, c.n, c.m);
    const GLOBAL element *l = lhs + (here.item * c.n + here.row), *its_rhs = rhs + here.item * c.m;
    LOCAL_LINES(copies, (LINE * PITCH * sizeof(element)));
    LOCAL element *its_copies = (LOCAL element *)copies;
    if (of_one && !aligned && c.m <= SHORT) {
        copy_rhs(its_copies, its_rhs, (u32)c.m);
    }
    GROUP_BARRIER();
    if (!of_one) {
        write_lines(y, lhs, rhs, at, before, &c);
    } else if (aligned) {
        write_aligned(y + at, l, its_rhs, (u32)here.column, &c);
    } else if (c.m < LINE) {
        write_shortest(y + at, l, its_copies, (u32)here.column, &c);
    } else if (c.m <= SHORT) {
        write_longer(y + at, l, its_rhs, its_copies, true, (u32)here.column, &c);
    } else {
        write_longer(y + at, l, its_rhs, its_copies, false, (u32)here.column, &c);
    }
}
