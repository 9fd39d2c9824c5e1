/* The elementwise kernels of the CPU, for the instruction set that this file is compiled for. */
#include "ops/elementwise/elementwise.h"

#include "kernels/cpu/vec.h"
#include "kernels/elementary/elementary.h"

enum { MAX_INPUTS = 3, MAX_OUTPUTS = 2 };

typedef struct op_shape {
    size_t inputs, outputs;
    bool accumulates; /* has that mode */
    bool canonical;   /* no NaN that the body gives needs to be made canonical */
} op_shape;

typedef struct line_span {
    const void *in[MAX_INPUTS];
    void *out[MAX_OUTPUTS];
    bool accumulate;
} line_span;

typedef void (*op_body)(const v16 *in, v16 *out);

/* The words of ops.def. */
#define add(a, b) v16_add(a, b)
#define sub(a, b) v16_sub(a, b)
#define mul(a, b) v16_mul(a, b)
#define div(a, b) v16_div(a, b)
#define sqrt(a) v16_sqrt(a)
#define fma(a, b, c) v16_fma(a, b, c)

/* Whether an expression of ops.def is nothing but an elementary function; those give canonical NaNs. */
#define IS_ELEMENTARY(expression) ((expression)[0] == 'E')

#define T f32
#define ELEMENT float
#define ALIGNMENT 64
#define ELEMENTARY(f, x) f##_v16(x)
#define CANONICAL_BEFORE_STORE true
#include "ops/elementwise/cpu_dtype.h"

#define T f16
#define ELEMENT uint16_t
#define ALIGNMENT 32
#define ELEMENTARY(f, x) f##_v16_narrow(x)
#define CANONICAL_BEFORE_STORE false
#include "ops/elementwise/cpu_dtype.h"

#define T bf16
#define ELEMENT uint16_t
#define ALIGNMENT 32
#define ELEMENTARY(f, x) f##_v16_narrow(x)
#define CANONICAL_BEFORE_STORE false
#include "ops/elementwise/cpu_dtype.h"

static const mlxn_cpu_kernel kernels[] = {
#define UNARY(name, ...) DTYPES(name) DTYPES(name##_backward)
#define BINARY(name, ...) DTYPES(name) DTYPES(name##_backward)
#define SPECIAL(...)
#define DTYPES(name) {#name "_f32", name##_f32}, {#name "_f16", name##_f16}, {#name "_bf16", name##_bf16},
#include "ops/ops.def"
};

#define TABLE_JOINED(isa) mlxn_elementwise_##isa
#define TABLE_OF(isa) TABLE_JOINED(isa)

const mlxn_cpu_kernels TABLE_OF(MLXN_ISA) = {kernels, sizeof kernels / sizeof *kernels};
