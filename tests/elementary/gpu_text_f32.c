#include "gpu_text.h"

#define MLXN_F64 0
#include "gpu_host.h"

#include "kernels/gpu/elementary/exp.h"
#include "kernels/gpu/elementary/log.h"

const gpu_text gpu_text_f32 = {"without f64", exp_rounded, exp_narrow,       log_rounded, log_narrow,
                               log_exact,     exp_quick,   exp_narrow_quick, log_quick,   log_narrow_quick};
