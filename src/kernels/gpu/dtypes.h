/* The dtype of a kernel: DTYPE_f32, DTYPE_f16 or DTYPE_bf16 is defined. `element` is its type in memory, LINE the elements
 * of 16 bytes; WORD those of 4; widen() and narrow() convert, narrow() with one rounding to nearest even and the canonical NaN. */
#define CANONICAL_NAN 0x7fc00000u

FN float canonical(float x) { return x == x ? x : float_of(CANONICAL_NAN); }

#if defined(DTYPE_f32)

typedef float element;
#define LINE 4
#define WORD 1
FN float widen(element x) { return x; }
FN element narrow(float x) { return canonical(x); }
FN float widen_word(u32 word, i32 k) { return float_of(word); }
FN u32 narrow_word(float a, float b) { return bits_of(canonical(a)); }

#else

typedef u16 element;
#define LINE 8
#define WORD 2

#if defined(DTYPE_f16)
FN float widen_low(u32 word) { return f16_low(word); }
FN float widen_high(u32 word) { return f16_high(word); }
FN u32 narrow_bits(float x) { return x == x ? f16_of(x) : 0x7e00u; }
#else
FN float widen_low(u32 word) { return float_of(word << 16); }
FN float widen_high(u32 word) { return float_of(word & 0xffff0000u); }
FN u32 narrow_bits(float x) {
    const u32 bits = bits_of(x);
    return x == x ? (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16 : 0x7fc0u;
}
#endif

FN float widen(element x) { return widen_low(x); }
FN element narrow(float x) { return (element)narrow_bits(x); }

/* Element k, 0 or 1, of a word, and a word of two elements. */
FN float widen_word(u32 word, i32 k) { return k == 0 ? widen_low(word) : widen_high(word); }
FN u32 narrow_word(float a, float b) { return narrow_bits(a) | narrow_bits(b) << 16; }

#endif
