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
#define UNROLL_BY_8 _Pragma("unroll 8")
#define GLOBAL
#define LOCAL

#define KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name
#define BUFFER(T, name) T *name
#define OPEN(T, name)
#define CONSTANTS(T, name) const T name
#define LOCAL_MEMORY(name)
#define LOCAL_ARRAY(T, name, count) __shared__ T name[count]
#define OPEN_LOCAL(name) extern __shared__ __align__(128) unsigned char name[]

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

/* 16 bytes at once, from and to an aligned address. */
FN void set_words(u32 *words, uint4 v) {
    words[0] = v.x;
    words[1] = v.y;
    words[2] = v.z;
    words[3] = v.w;
}
FN void load_line(u32 *words, const void *p) { set_words(words, __ldcs((const uint4 *)p)); }
FN void load_line_cached(u32 *words, const void *p) { set_words(words, *(const uint4 *)p); }
FN void load_local_line(u32 *words, const void *p) { set_words(words, *(const uint4 *)p); }
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

/* Tiles: `pieces` pieces of memory, `step` bytes apart, each of `bytes` bytes but none beyond `end`, are copied to local
 * memory, `stride` bytes apart, while the warp goes on. A piece keeps its place within 16 bytes: it begins at (address &
 * 15) of its own. All 32 lanes of a warp call these: tile_fetch, which may be left out, then tile_sent for every slot of a
 * ring; tile_wait waits for the oldest of the last `slots` that were sent. */

/* What of the piece at `from` is copied: its address rounded down, and the bytes from there. */
FN u32 piece_size(const u8 *from, const u8 *end, u32 bytes) {
    const i64 left = end - from;
    if (left <= 0) {
        return 0;
    }
    return (((u32)(u64)from & 15) + (left < bytes ? (u32)left : bytes) + 15) & ~15u;
}

FN void copy_line(u8 *to, const u8 *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
#else
    *(uint4 *)to = __ldcs((const uint4 *)from);
#endif
}

/* `bytes`, a multiple of 512, from an aligned address. */
FN void copy_lines(u8 *to, const u8 *from, u32 bytes, u32 lane) {
#pragma unroll
    for (u32 k = 0; k < bytes; k += 512) {
        copy_line(to + lane * 16 + k, from + lane * 16 + k);
    }
}

FN void tile_fetch(u8 *to, const u8 *from, i64 step, const u8 *end, u32 pieces, u32 bytes, u32 stride, u32 lane) {
    /* What large matrices are made of; the rest serves all. */
    const bool aligned = (((u64)from | (u64)step) & 15) == 0 && (pieces - 1) * step + bytes <= end - from;
    if (aligned && bytes == 4096) {
        for (u32 p = 0; p < pieces; p++) {
            copy_lines(to + p * stride, from + p * step, 4096, lane);
        }
        return;
    }
    if (aligned && bytes == 2048) {
        for (u32 p = 0; p < pieces; p++) {
            copy_lines(to + p * stride, from + p * step, 2048, lane);
        }
        return;
    }
    for (u32 p = 0; p < pieces; p++, from += step, to += stride) {
        const u32 size = piece_size(from, end, bytes);
        const u8 *first = from - ((u64)from & 15);
#pragma unroll 2
        for (u32 k = lane * 16; k < size; k += 512) {
            copy_line(to + k, first + k);
        }
    }
}

/* A tile of `lines` times 512 bytes that lies whole and aligned in pieces of `bytes` each, a power of two. */
FN void tile_fetch_even(u8 *to, const u8 *from, i64 step, u32 bytes, u32 stride, u32 lines, u32 lane) {
    const u32 own = lane * 16 / bytes, place = lane * 16 % bytes;
    from += own * step + place;
    to += own * stride + place;
#pragma unroll
    for (u32 k = 0; k < lines; k++) {
        const u32 piece = k * 512 / bytes, along = k * 512 % bytes;
        copy_line(to + piece * stride + along, from + piece * step + along);
    }
}

/* Pieces of up to 144 bytes, eight lanes each. */
FN void tile_fetch_short(u8 *to, const u8 *from, i64 step, const u8 *end, u32 pieces, u32 bytes, u32 stride, u32 lane) {
    const u32 k = lane % 8 * 16;
    from += lane / 8 * step;
    to += lane / 8 * stride;
    for (u32 p = lane / 8; p < pieces; p += 4, from += 4 * step, to += 4 * stride) {
        const u32 size = piece_size(from, end, bytes);
        const u8 *first = from - ((u64)from & 15);
        if (k < size) {
            copy_line(to + k, first + k);
        }
        if (k + 128 < size) {
            copy_line(to + k + 128, first + k + 128);
        }
    }
}

FN void tile_sent(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

FN void tile_wait(u32 slots) {
#if __CUDA_ARCH__ >= 800
    if (slots == 3) { /* as it is in most cases */
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        __syncwarp();
        return;
    }
    switch (slots) {
    case 1:
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        break;
    case 2:
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        break;
    case 4:
        asm volatile("cp.async.wait_group 3;" ::: "memory");
        break;
    case 5:
        asm volatile("cp.async.wait_group 4;" ::: "memory");
        break;
    case 6:
        asm volatile("cp.async.wait_group 5;" ::: "memory");
        break;
    case 7:
        asm volatile("cp.async.wait_group 6;" ::: "memory");
        break;
    default:
        asm volatile("cp.async.wait_group 7;" ::: "memory");
        break;
    }
#endif
    __syncwarp();
}
