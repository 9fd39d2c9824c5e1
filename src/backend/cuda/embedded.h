/* Kernels that were compiled to PTX when the library was built, for machines that have no NVRTC. There are none unless the
 * build was told to (MLXN_CUDA_PTX); cmake/compile_kernels.c writes them. */
#ifndef MLXN_BACKEND_CUDA_EMBEDDED_H
#define MLXN_BACKEND_CUDA_EMBEDDED_H

#include <stdint.h>

/* What precedes each kernel's PTX in the embedded bytes. Everything is padded to 8 bytes. */
typedef struct mlxn_cuda_embedded_head {
    uint64_t key[2]; /* of the text (core/cache.h) */
    uint64_t architecture;
    uint64_t bytes; /* the PTX's, the 0 at its end included */
} mlxn_cuda_embedded_head;

/* The PTX of a text, of the newest architecture that is not newer than the device's, which is put down; NULL if there is
 * none. */
const char *mlxn_cuda_embedded(const char *text, int capability, int *architecture);

#endif
