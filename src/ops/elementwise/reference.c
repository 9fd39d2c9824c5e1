/* The formulas of ops.def in float64, from libm: for checks. */
#include "ops/elementwise/elementwise.h"

#include <math.h>

/* The words of ops.def. sqrt and fma are libm's. */
#define add(a, b) ((a) + (b))
#define sub(a, b) ((a) - (b))
#define mul(a, b) ((a) * (b))
#define div(a, b) ((a) / (b))
#define ELEMENTARY(f, x) f(x)
#define SPECIAL(...)

/* clang-format off */
#define IN int64_t batch, int64_t n, int64_t m, const double *const *in, double *const *out
#define REFERENCE(op) void mlxn_reference_##op(IN)
#define EACH for (int64_t i = 0; i < batch * n * m; i++)

#define UNARY(op, forward, saved, gradient, ...) FORWARD1(op, forward) BACKWARD1(op##_backward, saved, gradient)
#define FORWARD1(op, y) REFERENCE(op) { EACH { FROM1(x); out[0][i] = y; } }
#define BACKWARD1(op, saved, dx) REFERENCE(op) { EACH { FROM2(saved, dy); out[0][i] = dx; } }
#define BINARY(op, forward, da, db, ...) FORWARD2(op, forward) BACKWARD2(op##_backward, da, db)
#define FORWARD2(op, y) REFERENCE(op) { EACH { FROM2(a, b); out[0][i] = y; } }
#define BACKWARD2(op, da, db) REFERENCE(op) { EACH { FROM3(a, b, dy); out[0][i] = da; out[1][i] = db; } }
#define FROM1(a) const double a = in[0][i]
#define FROM2(a, b) const double a = in[0][i], b = in[1][i]
#define FROM3(a, b, c) const double a = in[0][i], b = in[1][i], c = in[2][i]
#include "ops/ops.def"
/* clang-format on */
