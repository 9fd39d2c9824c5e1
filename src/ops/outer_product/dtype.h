/* Everything for one dtype: DTYPE is its name, T its type in memory, and CANONICAL(v) makes the NaNs of a vector
 * the canonical one where the store does not. Included once for each dtype by cpu.c. */

#define T_NAME(name) PASTE(PASTE(name, _), DTYPE)
#define T_LOAD T_NAME(v16_load)
#define T_LOAD_PART T_NAME(v16_load_part)

#define T_STORE(p, v) T_NAME(v16_store)(p, CANONICAL(v))
#define T_STORE_PART(p, v, count) T_NAME(v16_store_part)(p, CANONICAL(v), count)
#define T_STREAM(p, v) T_NAME(v16_stream)(p, CANONICAL(v))

/* `count` elements as f32. */
VEC_INLINE void T_NAME(widen)(float *to, const T *from, int64_t count) {
    int64_t k = 0;
    for (; k + 16 <= count; k += 16) {
        v16_store_f32(to + k, T_LOAD(from + k));
    }
    if (k < count) {
        v16_store_part_f32(to + k, T_LOAD_PART(from + k, (size_t)(count - k)), (size_t)(count - k));
    }
}

#include "ops/outer_product/forward.h"
#include "ops/outer_product/backward.h"

#undef CANONICAL
#undef DTYPE
#undef T
#undef T_NAME
#undef T_LOAD
#undef T_LOAD_PART
#undef T_STORE
#undef T_STORE_PART
#undef T_STREAM
