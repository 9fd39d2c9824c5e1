/* The words of the dialect in CUDA C++ (docs/architecture.md), for NVRTC: no header is at hand. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

#define MLXN_F64 1
#define FN static __device__ __forceinline__ __attribute__((unused))
#define TABLE static __device__ const
#define UNROLL _Pragma("unroll")
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
FN u64 mul_high(u64 a, u64 b) { return __umul64hi(a, b); }
FN i32 clz64(u64 x) { return __clzll((i64)x); }

/* 16 bytes at once, from and to an aligned address. */
FN void load_line(u32 *words, const void *p) {
    const uint4 v = __ldcs((const uint4 *)p);
    words[0] = v.x;
    words[1] = v.y;
    words[2] = v.z;
    words[3] = v.w;
}
FN void load_line_cached(u32 *words, const void *p) {
    const uint4 v = *(const uint4 *)p;
    words[0] = v.x;
    words[1] = v.y;
    words[2] = v.z;
    words[3] = v.w;
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

/* One f16, rounded to nearest even; of a NaN any. */
FN u32 f16_of(float x) {
    u32 bits;
    asm("{.reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h;}" : "=r"(bits) : "f"(x));
    return bits;
}

/* Tiles: `pieces` pieces of memory, `step` bytes apart, each of `bytes` bytes but none beyond `end`, are copied to local
 * memory, `stride` bytes apart. A piece keeps its place within 16 bytes: it begins at (address & 15) of its own. All 32
 * lanes of a warp call these; a barrier and the slot that it tells of are one warp's. */
#define TILE_BARRIERS 64

/* What of the piece at `from` is copied: its address rounded down, and the bytes from there. */
FN u32 piece_size(const u8 *from, const u8 *end, u32 bytes) {
    const i64 left = end - from;
    if (left <= 0) {
        return 0;
    }
    return (((u32)(u64)from & 15) + (left < bytes ? (u32)left : bytes) + 15) & ~15u;
}

#if __CUDA_ARCH__ >= 900
/* The bulk copy engine, which tells an mbarrier of the bytes that have arrived. */
FN u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

FN void tile_begin(u64 *barriers, u32 slots, u32 pieces, u32 lane) {
    if (lane < slots) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barriers + lane)), "r"(pieces)
                     : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
}

FN void tile_fetch(u8 *slot, const u8 *from, i64 step, const u8 *end, u32 pieces, u32 bytes, u32 stride, u64 *barrier,
                   u32 lane) {
    if (lane < pieces) {
        from += lane * step;
        const u32 size = piece_size(from, end, bytes), arrived = shared_address(barrier);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(size) : "memory");
        if (size > 0) {
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    shared_address(slot + lane * stride)),
                "l"(from - ((u64)from & 15)), "r"(size), "r"(arrived)
                : "memory");
        }
    }
}

FN void tile_wait(u64 *barrier, u32 phase) {
    u32 done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(phase)
                     : "memory");
    } while (done == 0);
}
#else
FN void tile_begin(u64 *barriers, u32 slots, u32 pieces, u32 lane) {}

FN void tile_fetch(u8 *slot, const u8 *from, i64 step, const u8 *end, u32 pieces, u32 bytes, u32 stride, u64 *barrier,
                   u32 lane) {
    for (u32 p = 0; p < pieces; p++, from += step, slot += stride) {
        const u32 size = piece_size(from, end, bytes);
        for (u32 k = lane * 16; k < size; k += 512) {
            *(uint4 *)(slot + k) = __ldcs((const uint4 *)(from - ((u64)from & 15) + k));
        }
    }
}

FN void tile_wait(u64 *barrier, u32 phase) { __syncwarp(); }
#endif
