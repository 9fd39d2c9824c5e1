/* The vector types that CPU kernels are written in. This header picks the one of the instruction set that
 * the file is compiled for: -DMLXN_ISA=avx2, avx512, baseline (x86-64 without fma or F16C) or neon. Every
 * set offers what is listed here, and each function gives the same bits on all of them, but
 * for the two mul_add.
 *
 * Everything comes in units of 16 lanes, one cache line of f32, whatever the registers' width:
 *
 *   v16   16 f32
 *   n16   16 u32, for the bits of a v16
 *   d16   16 f64, for elementary functions
 *
 * A mask is a v16 whose lanes are all ones or all zeros. T is f32, f16 or bf16; pointers to f16 and bf16
 * are uint16_t. Arithmetic is one IEEE operation a lane, rounded to nearest even, subnormals kept; NaNs
 * are not canonical before v16_canonical or a narrowing store.
 *
 * Memory
 *   v16 v16_load_T(p)              16 elements, any alignment, widened exactly
 *   v16 v16_load_part_T(p, n)      n < 16 elements, the other lanes +0; reads nothing beyond
 *   void v16_store_T(p, v)         any alignment; f16 and bf16 rounded to nearest even, a NaN canonical
 *   void v16_store_part_T(p, v, n) the first n < 16 elements; writes nothing beyond
 *   void v16_stream_T(p, v)        past the cache; p aligned to 16 elements
 *   v16 v16_lookup(p, n)           lane l = p[the low 4 bits of n's lane l]; p holds 16 f32
 *
 *   VEC_FUSES                      true where v16_fma and v16_lookup are cheap
 *
 * Lanes of f32
 *   v16 v16_zero(), v16_splat(f)
 *   v16 v16_add, v16_sub, v16_mul, v16_div (a, b), v16_sqrt(a), v16_fma(a, b, c) = a * b + c
 *   v16 v16_mul_add(a, b, c)       a * b + c, fused only where that is cheap: its bits differ between the sets
 *   v16 v16_abs(a)
 *   v16 v16_canonical(a)           0x7fc00000 where a is NaN, else a
 *   v16 v16_mask(n)                all ones in lanes < n; n is 0 to 16
 *   v16 v16_less(a, b)             a mask: a < b; false for NaN
 *   v16 v16_equal(a, b)            a mask: a == b; false for NaN
 *   v16 v16_and(a, mask), v16_blend(mask, a, b) = b where the mask is set, else a
 *   bool v16_all(mask)
 *   bool v16_all_within(a, f)      whether |lane| < f for every lane; false for a NaN; f is positive
 *   bool v16_all_equal(a, b)       v16_all(v16_equal(a, b))
 *   v16 v16_rowsum(r[16])          lane k = the sum of r[k]'s lanes as a halving tree: lane l += lane l+8,
 *                                  then l+4, l+2, l+1
 *
 * Bits
 *   n16 n16_of(v), v16 v16_of(n)   the same bits
 *   n16 n16_splat(u), n16_add, n16_sub, n16_and, n16_or (a, b)
 *   n16 n16_shl(a, count), n16_shr(a, count), n16_sar(a, count): count is a constant; sar copies the sign
 *   n16 n16_above(a, b)            all ones where a > b as signed numbers
 *
 * Lanes of f64. Which lane lies where in the registers is each set's own affair.
 *   d16 d16_splat(f), d16_of_v16(v) exact, d16_of_n16(n) signed, exact
 *   d16 d16_of_magic(v)            the integer k of v = VEC_MAGIC + k
 *   d16 d16_add, d16_mul, d16_div (a, b)
 *   d16 d16_mul_add(a, b, c)       a * b + c, fused where VEC_FUSES, else rounded twice, like v16_mul_add
 *   d16 d16_mul_sub(a, b, c)       a * b - c, likewise
 *   d16 d16_scale(a, n)            a * 2^n by adding to the exponent: a and the result must be normal
 *   v16 v16_of_d16(d)              rounded to nearest even
 *   v16 v16_of_normal_d16(d)       the same for positive values that are normal in f32 and no midpoint
 *   v16 v16_sticky_of_d16(d)       cut to f32 with the last bit set: rounding that to f16 or bf16 is as good as
 *                                  rounding d itself, if d is no midpoint of theirs and normal in f32 */
#ifndef MLXN_KERNELS_CPU_VEC_H
#define MLXN_KERNELS_CPU_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VEC_INLINE static inline __attribute__((always_inline))

/* Adding this to |f| < 2^22 rounds f to an integer, which then stands in the low bits. */
#define VEC_MAGIC 0x1.8p23f
#define VEC_MAGIC_BITS 0x4b400000

/* v16_mask(n) is the 16 words from table + 16 - n on. */
static const int32_t vec_mask_table[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

#define VEC_STRING(x) VEC_STRING_OF(x)
#define VEC_STRING_OF(x) #x
/* clang-format off */
#define VEC_HEADER(isa) VEC_STRING(kernels/cpu/vec_##isa.h)
#define VEC_HEADER_OF(isa) VEC_HEADER(isa)
#include VEC_HEADER_OF(MLXN_ISA)
/* clang-format on */

VEC_INLINE v16 v16_load_part_f16(const uint16_t *p, size_t n) {
    uint16_t line[16] = {0};
    memcpy(line, p, n * sizeof *p);
    return v16_load_f16(line);
}

VEC_INLINE v16 v16_load_part_bf16(const uint16_t *p, size_t n) {
    uint16_t line[16] = {0};
    memcpy(line, p, n * sizeof *p);
    return v16_load_bf16(line);
}

VEC_INLINE void v16_store_part_f16(uint16_t *p, v16 v, size_t n) {
    uint16_t line[16];
    v16_store_f16(line, v);
    memcpy(p, line, n * sizeof *p);
}

VEC_INLINE void v16_store_part_bf16(uint16_t *p, v16 v, size_t n) {
    uint16_t line[16];
    v16_store_bf16(line, v);
    memcpy(p, line, n * sizeof *p);
}

#endif
