/* The words of the dialect in CUDA C++ (docs/architecture.md), for NVRTC: no header is at hand. */
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

#define MLXN_F64 1
#define FN static __device__ __forceinline__
#define TABLE static __device__ const
#define UNROLL _Pragma("unroll")
#define GLOBAL
#define LOCAL

#define KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name
#define BUFFER(T, name) T *name
#define OPEN(T, name)
#define CONSTANTS(T, name) const T name
#define LOCAL_MEMORY(name)
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
FN void store_line(void *p, const u32 *words) { __stcs((uint4 *)p, make_uint4(words[0], words[1], words[2], words[3])); }

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
