/* The elementwise kernels of GPUs: what is an op's own of each text, made of ops.def. The rest is
 * src/kernels/gpu/elementwise.h. */
#include "kernels/text.h"
#include "ops/elementwise/elementwise.h"

/* clang-format off */
#define TEXT_OF(number) TEXT_OF_TOKEN(number)
#define TEXT_OF_TOKEN(number) #number
#define OWN(op, dtype, accumulates, in, out, body) \
    "#define NAME " #op "_" #dtype "\n#define DTYPE_" #dtype " 1\n" \
    "#define THREADS " TEXT_OF(MLXN_ELEMENTWISE_THREADS) "\n#define LINES " TEXT_OF(MLXN_ELEMENTWISE_LINES) "\n" \
    "#define ACCUMULATES " #accumulates "\n#define INPUTS " #in "\n#define OUTPUTS " #out "\n#define BODY " body "\n"
#define TEXT(op, dtype, ...) static const char *const op##_##dtype[] = { \
    OWN(op, dtype, __VA_ARGS__), mlxn_text_dtypes, mlxn_text_elementary, mlxn_text_elementwise, NULL};
#define TEXTS(op, ...) TEXT(op, f32, __VA_ARGS__) TEXT(op, f16, __VA_ARGS__) TEXT(op, bf16, __VA_ARGS__)
#define SPECIAL(...)

#define UNARY(op, y, saved, dx, ...) \
    TEXTS(op, 0, 1, 1, "const float x = i0; o0 = " #y ";") \
    TEXTS(op##_backward, 1, 2, 1, "const float " #saved " = i0, dy = i1; o0 = " #dx ";")
#define BINARY(op, y, da, db, ...) \
    TEXTS(op, 0, 2, 1, "const float a = i0, b = i1; o0 = " #y ";") \
    TEXTS(op##_backward, 1, 3, 2, "const float a = i0, b = i1, dy = i2; o0 = " #da "; o1 = " #db ";")
#include "ops/ops.def"
#undef UNARY
#undef BINARY

#define KERNEL(op, dtype) {#op "_" #dtype, op##_##dtype},
#define KERNELS(op) KERNEL(op, f32) KERNEL(op, f16) KERNEL(op, bf16)
#define UNARY(op, ...) KERNELS(op) KERNELS(op##_backward)
#define BINARY(op, ...) KERNELS(op) KERNELS(op##_backward)
static const mlxn_gpu_kernel kernels[] = {
#include "ops/ops.def"
};
/* clang-format on */

const mlxn_gpu_kernels mlxn_elementwise_gpu = {kernels, sizeof kernels / sizeof *kernels};
