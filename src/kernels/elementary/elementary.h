/* Every elementary function. f_v16(x) is the correctly rounded f32; f_v16_narrow(x), for x from an f16 or bf16,
 * becomes the correctly rounded f16 or bf16 when it is narrowed to x's dtype. Both give canonical NaNs. */
#ifndef MLXN_KERNELS_ELEMENTARY_ELEMENTARY_H
#define MLXN_KERNELS_ELEMENTARY_ELEMENTARY_H

#include "kernels/elementary/exp.h"
#include "kernels/elementary/log.h"

#endif
