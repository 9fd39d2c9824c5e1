/* The words of the dialect in CUDA C++ (docs/architecture.md), for NVRTC: no header is at hand. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

#define MLXN_F64 1
#define FN static __device__ __forceinline__ __attribute__((unused))
#define FN_RARE static __device__ __noinline__ __attribute__((unused))
#define TABLE static __device__ const
#define UNROLL _Pragma("unroll")
#define UNROLL_BY_4 _Pragma("unroll 4")
#define GLOBAL
#define LOCAL

/* A multiprocessor is to have room for `groups` groups of threads. */
#define KERNEL(name, threads, groups) extern "C" __global__ void __launch_bounds__(threads, groups) name
#define BUFFER(T, name) T *name
#define OPEN(T, name)
#define CONSTANTS(T, name) const T name
#define LOCAL_ARRAY(T, name, count) __shared__ T name[count]
#define LOCAL_LINES(name, bytes) __shared__ __align__(16) unsigned char name[bytes]

/* What a kernel does before all else: lets the next one start, and waits until the one before is done. */
#if __CUDA_ARCH__ >= 900
#define AWAIT() asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory")
#else
#define AWAIT()
#endif

#define GROUP ((u64)blockIdx.x)
#define THREAD threadIdx.x
#define GROUP_BARRIER() __syncthreads()
#define WARP_BARRIER() __syncwarp()

FN u32 bits_of(float x) { return __float_as_uint(x); }
FN float float_of(u32 bits) { return __uint_as_float(bits); }
FN u64 bits_of_double(double x) { return (u64)__double_as_longlong(x); }
FN double double_of(u64 bits) { return __longlong_as_double((i64)bits); }
FN float fma32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
FN double fma64(double a, double b, double c) { return __fma_rn(a, b, c); }
FN float sqrt32(float x) { return __fsqrt_rn(x); }
FN float div32(float a, float b) { return __fdiv_rn(a, b); }
FN float abs32(float x) { return fabsf(x); }
FN float min32(float a, float b) { return fminf(a, b); }
FN float max32(float a, float b) { return fmaxf(a, b); }
FN u64 mul_high(u64 a, u64 b) { return __umul64hi(a, b); }
FN i32 clz64(u64 x) { return __clzll((i64)x); }

/* What is read once, if it is there, else 0: a word at an aligned address, and a 16-bit element. A read that is only asked
 * for by condition, and not put behind a branch, holds nothing up. What `passes` the caches by is evicted first. */
#define LOAD_IF(type)                                                                          \
    u32 word;                                                                                  \
    if (passes) {                                                                              \
        asm volatile(LOAD_IF_AS("ld.global.cs." type) : "=r"(word) : "l"(p), "r"((u32)there)); \
    } else {                                                                                   \
        asm volatile(LOAD_IF_AS("ld.global." type) : "=r"(word) : "l"(p), "r"((u32)there));    \
    }                                                                                          \
    return word
#define LOAD_IF_AS(load) "{.reg .pred p; setp.ne.u32 p, %2, 0; mov.b32 %0, 0; @p " load " %0, [%1];}"
FN u32 read_word(bool there, bool passes, const void *p) { LOAD_IF("u32"); }
FN u32 read_element(bool there, bool passes, const u16 *p) { LOAD_IF("u16"); }

/* The second cache is asked to hold on to what is prefetched until it is read, since what streams by would drive it out, and
 * to small results until they are read: written back to memory one by one, they hold up the reads there. */
#if __CUDA_ARCH__ >= 800
#define PREFETCH "prefetch.global.L2::evict_last [%0];"
#define STORE_KEPT(type, constraint, p, x)                                     \
    u64 policy;                                                                \
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy)); \
    asm volatile("st.global.L2::cache_hint." type " [%0], %1, %2;" ::"l"(p), constraint(x), "l"(policy) : "memory")
#else
#define PREFETCH "prefetch.global.L2 [%0];"
#define STORE_KEPT(type, constraint, p, x) \
    asm volatile("st.global." type " [%0], %1;" ::"l"(p), constraint(x) : "memory")
#endif

/* Has 128 bytes brought closer that will be read soon. */
FN void prefetch_bytes(const void *p) { asm volatile(PREFETCH ::"l"(p)); }

/* Write what will be read soon: a word, and a 16-bit element. */
FN void keep_word(void *p, u32 word) { STORE_KEPT("u32", "r", p, word); }
FN void keep_element(u16 *p, u16 x) { STORE_KEPT("u16", "h", p, x); }

/* 16 bytes at once, from and to an aligned address. */
FN void set_words(u32 *words, uint4 v) {
    words[0] = v.x;
    words[1] = v.y;
    words[2] = v.z;
    words[3] = v.w;
}
FN void load_line(u32 *words, const void *p) { set_words(words, *(const uint4 *)p); }
/* What is not read again need not be held on to. */
FN void load_line_last(u32 *words, const void *p) { set_words(words, __ldcs((const uint4 *)p)); }
FN void load_local_line(u32 *words, const void *p) { set_words(words, *(const uint4 *)p); }
FN void store_local_line(void *p, const u32 *words) {
    *(uint4 *)p = make_uint4(words[0], words[1], words[2], words[3]);
}
FN void store_line(void *p, const u32 *words) {
    __stcs((uint4 *)p, make_uint4(words[0], words[1], words[2], words[3]));
}

/* The two 16-bit elements of a word. */
FN float f16_low(u32 word) {
    float x;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(x) : "r"(word));
    return x;
}
FN float f16_high(u32 word) {
    float x;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(x) : "r"(word));
    return x;
}

/* A word of two f16 or bf16, rounded to nearest even; of a NaN any. */
FN u32 f16_pair(float low, float high) {
    u32 word;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
    asm("{.reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h};}"
        : "=r"(word)
        : "f"(low), "f"(high));
#endif
    return word;
}
FN u32 bf16_pair(float low, float high) {
    u32 word;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
    const u32 l = bits_of(low), h = bits_of(high);
    word = (l + 0x7fffu + (l >> 16 & 1)) >> 16 | ((h + 0x7fffu + (h >> 16 & 1)) & 0xffff0000u);
#endif
    return word;
}
