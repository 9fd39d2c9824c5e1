/* The dtype of a kernel: DTYPE_f32, DTYPE_f16 or DTYPE_bf16 is defined. `element` is its type in memory, LINE the elements
 * of 16 bytes and WORD those of 4; widen() and narrow() convert, narrow() with one rounding to nearest even and the
 * canonical NaN. */
/* a / b of what is not negative, for which GPUs are slow in 64 bits. */
FN i64 quotient(i64 a, i64 b) { return (u64)(a | b) >> 32 == 0 ? (i64)((u32)a / (u32)b) : a / b; }

FN float canonical(float x) { return x == x ? x : float_of(0x7fc00000u); }

#if defined(DTYPE_f32)

typedef float element;
#define LINE 4
#define WORD 1
FN float widen(element x) { return x; }
FN element narrow(float x) { return canonical(x); }

/* A word with an element as its first; element k of a word, widened and as it is; an element that is written to be read
 * soon; a line of values as words. */
FN u32 word_of(element x) { return bits_of(x); }
FN float widen_word(u32 word, i32 k) { return float_of(word); }
FN element element_of(u32 word, u32 k) { return float_of(word); }
FN void keep(GLOBAL element *p, element x) { keep_word(p, bits_of(x)); }
FN void narrow_line(u32 *words, const float *values) {
    UNROLL
    for (i32 k = 0; k < LINE; k++) {
        words[k] = bits_of(canonical(values[k]));
    }
}

#else

typedef u16 element;
#define LINE 8
#define WORD 2

#if defined(DTYPE_f16)
#define QUIET_NAN 0x7e00u
FN float widen_word(u32 word, i32 k) { return k == 0 ? f16_low(word) : f16_high(word); }
FN u32 narrow_pair(float a, float b) { return f16_pair(a, b); }
#else
#define QUIET_NAN 0x7fc0u
FN float widen_word(u32 word, i32 k) { return float_of(k == 0 ? word << 16 : word & 0xffff0000u); }
FN u32 narrow_pair(float a, float b) { return bf16_pair(a, b); }
#endif

FN u32 word_of(element x) { return x; }
FN element element_of(u32 word, u32 k) { return (element)(word >> (16 * k)); }
FN void keep(GLOBAL element *p, element x) { keep_element(p, x); }
FN float widen(element x) { return widen_word(x, 0); }
FN element narrow(float x) { return x == x ? (element)narrow_pair(x, 0.0f) : QUIET_NAN; }

FN void narrow_line(u32 *words, const float *values) {
    bool nan = false;
    UNROLL
    for (i32 k = 0; k < LINE; k++) {
        nan = nan || values[k] != values[k];
    }
    UNROLL
    for (i32 k = 0; k < LINE; k += 2) {
        words[k / 2] = narrow_pair(values[k], values[k + 1]);
    }
    if (nan) {
        UNROLL
        for (i32 k = 0; k < LINE; k += 2) {
            words[k / 2] = (u32)narrow(values[k]) | (u32)narrow(values[k + 1]) << 16;
        }
    }
}

#endif
