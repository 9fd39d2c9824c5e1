/* NVRTC, CUDA's compiler at run time, which is opened when a kernel is first compiled. */
#ifndef MLXN_BACKEND_CUDA_NVRTC_H
#define MLXN_BACKEND_CUDA_NVRTC_H

#include "core/memory.h"
#include "core/status.h"

/* What a compilation is made for: the compiler and its options, which are part of the cache's key. */
typedef struct mlxn_nvrtc_target {
    char compiler[32];     /* "NVRTC 13.0" */
    char architecture[48]; /* "--gpu-architecture=sm_90a" */
    int number;            /* 90 */
    bool cubin;            /* else PTX, which the driver compiles further */
} mlxn_nvrtc_target;

/* The options besides the architecture: no contraction, nothing flushed, division and square root rounded correctly. */
extern const char *const mlxn_nvrtc_options[];
extern const size_t mlxn_nvrtc_option_count;

/* Opens NVRTC if it is not open; `driver` is the version of CUDA that the driver is made for, such as 13000, `capability`
 * the device's, such as 90. MLXN_COMPILE_FAILED if there is no NVRTC that serves. */
mlxn_status mlxn_nvrtc_target_for(int driver, int capability, mlxn_nvrtc_target *target);

/* Compiles a text. `name` is the kernel's, for messages. The image is for mlxn_free. */
mlxn_status mlxn_nvrtc_compile(const mlxn_allocator *allocator, const mlxn_nvrtc_target *target, const char *name,
                               const char *text, void **image, size_t *bytes);

#endif
