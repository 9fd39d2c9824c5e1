#include "truth.h"

#include <math.h>
#include <string.h>

#include <mpfr.h>

typedef int (*mpfr_function)(mpfr_ptr result, mpfr_srcptr x, mpfr_rnd_t rounding);

#define QNAN 0x7fc00000u
#define PRECISION_F32 24
#define PRECISION_F16 11
#define PRECISION_BF16 8

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* MPFR's exponents are one above IEEE's. `smallest` is the exponent of the smallest subnormal. */
static void set_range(int smallest, int largest) {
    mpfr_set_emin(smallest + 1);
    mpfr_set_emax(largest + 1);
}

/* function(x) as an f32: rounded to nearest, or to odd, so that a second rounding is as good as a single one. */
static float mpfr_truth(mpfr_function function, float x, bool to_odd) {
    set_range(-149, 127);
    MPFR_DECL_INIT(value, PRECISION_F32);
    mpfr_rnd_t rounding = to_odd ? MPFR_RNDZ : MPFR_RNDN;
    mpfr_set_flt(value, x, MPFR_RNDN);
    int inexact = function(value, value, rounding);
    if (mpfr_nan_p(value))
        return float_of(QNAN);
    inexact = mpfr_subnormalize(value, inexact, rounding);
    uint32_t bits = bits_of(mpfr_get_flt(value, MPFR_RNDN));
    return float_of(to_odd && inexact != 0 ? bits | 1 : bits);
}

/* The quick way trusts libm's double function to 2^-40 of its value, 4096 times the unit in the last place
 * that the GNU C library claims for exp and log. Rounding to f32 is monotonic, also into the subnormal range and
 * beyond the largest value: if both ends of that interval round alike, so does the true value within it.
 * About one input in 2^15 does not pass and asks MPFR. */
static float elementary(truth_way way, mlxn_dtype dtype, mpfr_function exact, double (*approximate)(double), float x) {
    if (dtype != MLXN_F32)
        return mpfr_truth(exact, x, true);
    if (way == TRUTH_QUICK) {
        double value = approximate((double)x);
        if (isnan(value))
            return float_of(QNAN);
        float low = (float)(value * (1 - 0x1p-40)), high = (float)(value * (1 + 0x1p-40));
        if (bits_of(low) == bits_of(high))
            return low;
    }
    return mpfr_truth(exact, x, false);
}

/* The words of ops.def, whether a line uses them or not. IEEE operations round to f32 one by one; sqrt comes from MPFR
 * in every dtype. */
#define WORD __attribute__((unused)) static float
WORD add(float a, float b) {
    return a + b;
}

WORD sub(float a, float b) {
    return a - b;
}

WORD mul(float a, float b) {
    return a * b;
}

WORD div_(float a, float b) {
    return a / b;
}

#define div div_
#define fma fmaf
#define sqrt(x) elementary(way, MLXN_F32, mpfr_sqrt, (sqrt), x)
#define ELEMENTARY(f, x) elementary(way, dtype, mpfr_##f, f, x)

#define UNARY(name, forward, ...)                                           \
    static float forward_##name(truth_way way, mlxn_dtype dtype, float x) { \
        return (void)way, (void)dtype, forward;                             \
    }
#define BINARY(...)
#define SPECIAL(...)
#include "ops/ops.def"
#undef UNARY

const truth_op truth_ops[] = {
#define UNARY(name, ...) {#name, forward_##name},
#include "ops/ops.def"
};

const size_t truth_op_count = sizeof truth_ops / sizeof *truth_ops;

uint64_t truth_block_size(mlxn_dtype dtype) {
    return dtype == MLXN_F32 ? TRUTH_BLOCK_F32 : TRUTH_BLOCK_HALF;
}

uint64_t truth_block_count(mlxn_dtype dtype) {
    return dtype == MLXN_F32 ? (UINT64_C(1) << 32) / TRUTH_BLOCK_F32 : 1;
}

static float widen_f16(uint32_t half) {
    float sign = half & 0x8000 ? -1.0f : 1.0f;
    int exponent = (int)(half >> 10 & 31);
    uint32_t fraction = half & 0x3ff;
    if (exponent == 31)
        return fraction != 0 ? float_of(QNAN) : sign * INFINITY;
    return sign * (exponent == 0 ? ldexpf((float)fraction, -24) : ldexpf((float)(fraction | 0x400), exponent - 25));
}

/* Rounds to a 16-bit format whose subnormals end at 2^smallest; MPFR does the rounding, exactly. */
static float round_to(float f, mpfr_prec_t precision, int smallest, int largest) {
    set_range(smallest, largest);
    mpfr_t value;
    mpfr_init2(value, precision);
    int inexact = mpfr_set_flt(value, f, MPFR_RNDN);
    inexact = mpfr_check_range(value, inexact, MPFR_RNDN);
    (void)mpfr_subnormalize(value, inexact, MPFR_RNDN);
    float rounded = mpfr_get_flt(value, MPFR_RNDN);
    mpfr_clear(value);
    return rounded;
}

static uint32_t narrow_f16(float f) {
    if (isnan(f))
        return 0x7e00;
    f = round_to(f, PRECISION_F16, -24, 15);
    uint32_t sign = bits_of(f) >> 31 << 15;
    f = fabsf(f);
    if (isinf(f))
        return sign | 0x7c00;
    if (f < 0x1p-14f)
        return sign | (uint32_t)ldexpf(f, 24);
    int exponent;
    float fraction = frexpf(f, &exponent); /* in [0.5, 1) */
    return sign | ((uint32_t)(exponent + 14) << 10 | ((uint32_t)ldexpf(fraction, 11) & 0x3ff));
}

static uint32_t narrow_bf16(float f) {
    return isnan(f) ? 0x7fc0 : bits_of(round_to(f, PRECISION_BF16, -133, 127)) >> 16;
}

uint32_t truth_result(const truth_op *op, truth_way way, mlxn_dtype dtype, uint32_t input) {
    if (dtype == MLXN_F16)
        return narrow_f16(op->forward(way, dtype, widen_f16(input)));
    if (dtype == MLXN_BF16)
        return narrow_bf16(op->forward(way, dtype, float_of(input << 16)));
    float result = op->forward(way, dtype, float_of(input));
    return isnan(result) ? QNAN : bits_of(result);
}

void truth_block(const truth_op *op, truth_way way, mlxn_dtype dtype, uint64_t block, void *results) {
    uint64_t size = truth_block_size(dtype);
    for (uint64_t i = 0; i < size; i++) {
        uint32_t result = truth_result(op, way, dtype, (uint32_t)(block * size + i));
        if (dtype == MLXN_F32)
            ((uint32_t *)results)[i] = result;
        else
            ((uint16_t *)results)[i] = (uint16_t)result;
    }
}
