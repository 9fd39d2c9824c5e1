/* Looking among the embedded kernels. */
#include "backend/cuda/embedded.h"

#include <string.h>

#include "core/cache.h"

/* In no_ptx.c, or in what the build has put in its place. */
extern const char mlxn_cuda_ptx[];
extern const size_t mlxn_cuda_ptx_bytes;

const char *mlxn_cuda_embedded(const char *text, int capability, int *architecture) {
    const mlxn_cache_key key = mlxn_cache_key_of((const char *[]){text, NULL});
    const char *best = NULL;
    uint64_t best_architecture = 0;
    for (const char *at = mlxn_cuda_ptx, *end = at + mlxn_cuda_ptx_bytes; at < end;) {
        mlxn_cuda_embedded_head head;
        memcpy(&head, at, sizeof head);
        if (head.key[0] == key.low && head.key[1] == key.high && head.architecture <= (uint64_t)capability &&
            head.architecture > best_architecture) {
            best = at + sizeof head;
            best_architecture = head.architecture;
        }
        at += sizeof head + (head.bytes + 7) / 8 * 8;
    }
    *architecture = (int)best_architecture;
    return best;
}
