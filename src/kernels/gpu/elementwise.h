/* An elementwise kernel. What is its own is defined before: NAME, INPUTS and OUTPUTS, and BODY, which computes o0 (and o1)
 * from i0 (, i1, i2), THREADS and LINES; ACCUMULATES, 1 where there is that mode. A thread does LINES lines of 16 bytes. */
#define STRIDE (THREADS * LINE)

#define add(a, b) ((a) + (b))
#define sub(a, b) ((a) - (b))
#define mul(a, b) ((a) * (b))
#define div(a, b) div32(a, b)
#define sqrt(a) sqrt32(a)
#define fma(a, b, c) fma32(a, b, c)

/* An elementary function, by a quick way that may not be sure of its result, and by one that always is. */
#if LINE == 4
#define QUICKLY(f, x) f##_quick(x, &sure)
#define CAREFULLY(f, x) f##_rounded(x)
#else
#define QUICKLY(f, x) f##_narrow_quick(x, &sure)
#define CAREFULLY(f, x) f##_narrow(x)
#endif

#if INPUTS == 1
#define IN(op) op(0)
#elif INPUTS == 2
#define IN(op) op(0) op(1)
#else
#define IN(op) op(0) op(1) op(2)
#endif
#if OUTPUTS == 1
#define OUT(op) op(0)
#else
#define OUT(op) op(0) op(1)
#endif

#define ACCUMULATE (ACCUMULATES && c.accumulate != 0)

typedef struct constants {
    i64 count;
    i64 accumulate;
} constants;

#define IN_ARGUMENT(k) BUFFER(const element, in##k),
#define OUT_ARGUMENT(k) BUFFER(element, out##k),
#define OPEN_IN(k) OPEN(const element, in##k);
#define OPEN_OUT(k) OPEN(element, out##k);
#define DIFFERS_IN(k) | ((u64)in##k ^ (u64)out0)
#define DIFFERS_OUT(k) | ((u64)out##k ^ (u64)out0)

/* Of the lines of a thread. */
#define LINES_IN(k) u32 w##k[LINES][4];
#define LOAD_IN(k) load_line(w##k[l], in##k + (at + l * STRIDE));
#define LINE_OUT(k)   \
    u32 r##k[4];      \
    float v##k[LINE]; \
    if (ACCUMULATE)   \
        load_line(r##k, out##k + (at + l * STRIDE));
#define WIDEN_IN(k) const float i##k = widen_word(w##k[l][j / WORD], j % WORD);
#define OUT_VALUE(k) float o##k;
#define KEEP_OUT(k) v##k[j] = ACCUMULATE ? widen_word(r##k[j / WORD], j % WORD) + o##k : o##k;
#define STORE_OUT(k)         \
    narrow_line(r##k, v##k); \
    store_line(out##k + (at + l * STRIDE), r##k);

/* Of elements, ONES at a time, which are read before the first is written. */
#define ONES 4
#define ONES_IN(k) float x##k[ONES];
#define READ_IN(k) x##k[e] = widen(in##k[at + e * THREADS]);
#define ONE_IN(k) const float i##k = x##k[e];
#define WRITE_OUT(k)                                         \
    {                                                        \
        GLOBAL element *to = out##k + (at + e * THREADS);    \
        *to = narrow(ACCUMULATE ? widen(*to) + o##k : o##k); \
    }

KERNEL(NAME, THREADS, 8)(IN(IN_ARGUMENT) OUT(OUT_ARGUMENT) CONSTANTS(constants, c)) {
    IN(OPEN_IN)
    OUT(OPEN_OUT)
    /* Where all memory has the same place within 16 bytes, lines begin as many elements before it. */
    const bool together = ((0 IN(DIFFERS_IN) OUT(DIFFERS_OUT)) & 15) == 0;
    const i64 before = together ? (i64)((u64)out0 & 15) / (16 / LINE) : 0;
    const i64 group = (i64)GROUP * (STRIDE * LINES) - before;
    i64 at = group + THREAD * LINE;
    AWAIT();
    if (together && group >= 0 && group + STRIDE * LINES <= c.count) {
        IN(LINES_IN)
        UNROLL
        for (i32 l = 0; l < LINES; l++) {
            IN(LOAD_IN)
        }
        UNROLL
        for (i32 l = 0; l < LINES; l++) {
            OUT(LINE_OUT)
            bool sure = true;
#define ELEMENTARY QUICKLY
            UNROLL
            for (i32 j = 0; j < LINE; j++) {
                IN(WIDEN_IN)
                OUT(OUT_VALUE)
                BODY OUT(KEEP_OUT)
            }
#undef ELEMENTARY
#define ELEMENTARY CAREFULLY
            if (!sure) {
                UNROLL
                for (i32 j = 0; j < LINE; j++) {
                    IN(WIDEN_IN)
                    OUT(OUT_VALUE)
                    BODY OUT(KEEP_OUT)
                }
            }
            OUT(STORE_OUT)
        }
        return;
    }
    /* One by one, neighbours in step: at both ends, and where memory lies differently. */
    at = group + THREAD;
    for (i32 k = 0; k < LINE * LINES && at < c.count; k += ONES, at += ONES * THREADS) {
        IN(ONES_IN)
        UNROLL
        for (i32 e = 0; e < ONES; e++) {
            if (at + e * THREADS >= 0 && at + e * THREADS < c.count) {
                IN(READ_IN)
            }
        }
        UNROLL
        for (i32 e = 0; e < ONES && at + e * THREADS < c.count; e++) {
            if (at + e * THREADS >= 0) {
                IN(ONE_IN)
                OUT(OUT_VALUE)
                BODY OUT(WRITE_OUT)
            }
        }
    }
}
