/* Names for the bits of f32 values in the SPECIAL rows of ops.def, and the rows themselves. */
#ifndef MLXN_OPS_ELEMENTWISE_SPECIAL_H
#define MLXN_OPS_ELEMENTWISE_SPECIAL_H

#define P0 0x00000000u
#define N0 0x80000000u
#define ONE 0x3f800000u
#define NONE 0xbf800000u
#define HALF 0x3f000000u
#define TINY 0x00000001u /* the smallest subnormal */
#define NTINY 0x80000001u
#define MAX 0x7f7fffffu /* the largest finite value */
#define NMAX 0xff7fffffu
#define PINF 0x7f800000u
#define NINF 0xff800000u
#define QNAN 0x7fc00000u /* the canonical quiet NaN */
#define SNAN 0x7f800001u

/* clang-format off */
#define ROW1(x, y) {{x}, {y}}
#define ROW2(first, second, result) {{first, second}, {result}}
#define ROW3(a, b, dy, da, db) {{a, b, dy}, {da, db}}
/* clang-format on */

#endif
