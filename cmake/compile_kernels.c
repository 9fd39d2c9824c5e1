/* Compiles all CUDA kernels of the library to PTX and writes them to a file, in the form of src/backend/cuda/embedded.h:
 * compile_kernels FILE ARCHITECTURE…, such as 75 90. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/embedded.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/state.h"
#include "core/cache.h"
#include "core/op.h"

static int fail(void) {
    fprintf(stderr, "compile_kernels: %s\n", mlxn_last_error());
    return 1;
}

/* One kernel, 0 if that worked. */
static int write_kernel(FILE *file, const mlxn_gpu_kernel *kernel, int architecture) {
    const mlxn_kernel described = {.name = kernel->name, .text = kernel->text, .built_in = true};
    mlxn_nvrtc_target target = {.cubin = false};
    snprintf(target.architecture, sizeof target.architecture, "--gpu-architecture=compute_%d", architecture);
    size_t text_bytes, bytes;
    char *text = mlxn_cuda_text(&mlxn_default_allocator, &described, &text_bytes);
    void *ptx;
    if (text == NULL) {
        fprintf(stderr, "compile_kernels: out of memory\n");
        return 1;
    }
    if (mlxn_nvrtc_compile(&mlxn_default_allocator, &target, kernel->name, text, &ptx, &bytes) != MLXN_OK) {
        return fail();
    }
    const mlxn_cache_key key = mlxn_cache_key_of((const char *[]){text, NULL});
    const mlxn_cuda_embedded_head head = {{key.low, key.high}, (uint64_t)architecture, bytes};
    static const char padding[8];
    const size_t pad = (8 - bytes % 8) % 8;
    const int failed = fwrite(&head, sizeof head, 1, file) != 1 || fwrite(ptx, 1, bytes, file) != bytes ||
                       fwrite(padding, 1, pad, file) != pad;
    if (failed) {
        perror("compile_kernels");
    }
    mlxn_free(&mlxn_default_allocator, ptx, bytes);
    mlxn_free(&mlxn_default_allocator, text, text_bytes);
    return failed;
}

int main(int count, char **arguments) {
    mlxn_nvrtc_target any;
    if (count < 3) {
        fprintf(stderr, "usage: compile_kernels FILE ARCHITECTURE...\n");
        return 2;
    }
    /* Opens NVRTC. */
    if (mlxn_nvrtc_target_for(13000, atoi(arguments[2]), &any) != MLXN_OK) {
        return fail();
    }
    FILE *file = fopen(arguments[1], "wb");
    if (file == NULL) {
        perror(arguments[1]);
        return 1;
    }
    for (int a = 2; a < count; a++) {
        for (size_t i = 0; i < mlxn_family_count; i++) {
            const mlxn_gpu_kernels *kernels = mlxn_families[i]->gpu;
            for (size_t k = 0; kernels != NULL && k < kernels->count; k++) {
                if (write_kernel(file, &kernels->list[k], atoi(arguments[a])) != 0) {
                    fclose(file);
                    return 1;
                }
            }
        }
    }
    if (fclose(file) != 0) {
        perror(arguments[1]);
        return 1;
    }
    return 0;
}
