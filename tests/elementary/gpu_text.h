/* The elementary functions of the GPUs' kernel text, compiled for the host: once for devices with f64, once without. */
#ifndef MLXN_TESTS_ELEMENTARY_GPU_TEXT_H
#define MLXN_TESTS_ELEMENTARY_GPU_TEXT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gpu_text {
    const char *way;
    float (*exp_f32)(float x);
    float (*exp_narrow)(float x);
    float (*log_f32)(float x);
    float (*log_narrow)(float x);
    float (*log_exact)(uint32_t bits); /* what log_rounded falls back on */
    float (*exp_quick)(float x, bool *sure);
    float (*exp_narrow_quick)(float x, bool *sure);
    float (*log_quick)(float x, bool *sure);
    float (*log_narrow_quick)(float x, bool *sure);
} gpu_text;

extern const gpu_text gpu_text_f64, gpu_text_f32;

#endif
