/* y[b,i,j] = lhs[b,i] * rhs[b,j], in lines of 16 bytes of y: what the four ways to do so have in common. */
typedef struct constants {
    i64 n, m, total; /* total: elements of y */
    i64 tiles;       /* of a row: groups that write side by side */
    i64 blocks;      /* of an item: groups below each other */
    u32 across_log2; /* lines of a row that a group writes side by side */
    u32 rows;        /* that a thread writes */
    u32 turns_log2;  /* by shifts: 2^turns_log2 groups have the rows between a thread's */
    u32 straight;    /* one item, and by rows a group's lines lie together, by lines a line is whole rows */
    i64 step_item, step_row, step_column; /* what THREADS lines are */
    i64 strip;                            /* groups side by side in a strip of columns, 0: there is one strip */
    i64 across, down; /* groups side by side and below each other: of these, the last may find nothing to write */
    i64 strip_bytes;  /* of rhs, that is read in front of a strip; 0: none */
    /* What 2^ahead_log2 groups read of lhs or rhs is read for them at once, by those of as many groups before them that come
     * from number ahead_first on: ahead_bytes in all, of which each group reads ahead_each that none before it has, 0: none is
     * read ahead. */
    u32 ahead_log2, ahead_first, ahead_of_rhs;
    i64 ahead_each, ahead_bytes;
} constants;

/* A read from memory among writes holds these up, so it is better that many come together. Groups that run at about the same
 * time bring closer what later ones will read, in PARTS parts. */
#define PARTS 128
FN void read_part(const GLOBAL u8 *from, i64 bytes, i64 begin, i64 each) {
    for (i64 at = begin + THREAD * 128; at < begin + each && at < bytes; at += THREADS * 128) {
        prefetch_bytes(from + at);
    }
}

FN void read_ahead(const GLOBAL element *lhs, const GLOBAL element *rhs, const constants *c) {
    const u32 groups = 1u << c->ahead_log2, in = (u32)GROUP & (groups - 1);
    if (c->ahead_each > 0 && in >= c->ahead_first) {
        const GLOBAL u8 *from = (const GLOBAL u8 *)(c->ahead_of_rhs != 0 ? rhs : lhs);
        const i64 together = c->ahead_each << c->ahead_log2, each = together / PARTS;
        const i64 next = ((i64)(GROUP >> c->ahead_log2) + 1) * together;
        for (u32 part = in - c->ahead_first; part < PARTS; part += groups - c->ahead_first) {
            read_part(from, c->ahead_bytes, next + part * each, each);
        }
    }
}

/* The group whose part of y this one takes. Where rhs is too long to stay in a cache from row to row, strips of columns come
 * one after the other, each from the first row to the last; in front of one, what it takes of rhs is read. */
FN i64 place_in_strips(const GLOBAL element *rhs, const constants *c) {
    if (c->strip == 0) {
        return (i64)GROUP;
    }
    const i64 strip = quotient((i64)GROUP, c->strip * c->down), in = (i64)GROUP - strip * c->strip * c->down;
    const i64 first = strip * c->strip, width = c->across - first < c->strip ? c->across - first : c->strip;
    if (in < PARTS) {
        const i64 each = c->strip_bytes / PARTS;
        read_part((const GLOBAL u8 *)rhs, c->m * (i64)sizeof(element), ((strip + 1) * PARTS + in) * each, each);
    }
    const i64 row = quotient(in, width);
    return row * c->across + first + (in - row * width);
}

/* Elements by which the line begins before it that it is in. */
FN i64 elements_before(const GLOBAL element *p) { return (i64)((u64)p & 15) / (16 / LINE); }

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
