/* The words of the dialect in OpenCL C 1.2 (docs/architecture.md). MLXN_F64 is given by the build options. */
#pragma OPENCL FP_CONTRACT OFF
#if MLXN_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef int i32;
typedef ulong u64;
typedef long i64;

/* PoCL 3.1 loses local memory in functions that it does not inline. */
#define FN static inline __attribute__((always_inline))
#define FN_RARE static __attribute__((noinline))
#define TABLE __constant
/* Compilers for CPUs take minutes over what is unrolled; those for GPUs unroll short loops by themselves. */
#define UNROLL
#define UNROLL_BY_4
#define GLOBAL __global
#define LOCAL __local

#define KERNEL(name, threads, groups) __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void name
#define BUFFER(T, name) __global T *name##_base, ulong name##_offset
#define OPEN(T, name) __global T *name = (__global T *)((__global uchar *)name##_base + name##_offset)
#define CONSTANTS(T, name) const T name
#define LOCAL_ARRAY(T, name, count) __local T name[count]
/* Aligned for lines. */
#define LOCAL_LINES(name, bytes)              \
    __local uint4 name##_lines[(bytes) / 16]; \
    __local u8 *name = (__local u8 *)name##_lines

#define AWAIT()

#define GROUP ((u64)get_group_id(0))
#define THREAD ((u32)get_local_id(0))
#define GROUP_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
/* Nothing says which threads run in step. */
#define WARP_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)

FN u32 bits_of(float x) { return as_uint(x); }
FN float float_of(u32 bits) { return as_float(bits); }
#if MLXN_F64
FN u64 bits_of_double(double x) { return as_ulong(x); }
FN double double_of(u64 bits) { return as_double(bits); }
FN double fma64(double a, double b, double c) { return fma(a, b, c); }
#endif
FN float fma32(float a, float b, float c) { return fma(a, b, c); }
FN float sqrt32(float x) { return sqrt(x); }
FN float div32(float a, float b) { return a / b; }
FN float abs32(float x) { return fabs(x); }
FN float min32(float a, float b) { return fmin(a, b); }
FN float max32(float a, float b) { return fmax(a, b); }
FN u64 mul_high(u64 a, u64 b) { return mul_hi(a, b); }
FN i32 clz64(u64 x) { return (i32)clz(x); }

FN u32 read_word(bool there, bool passes, const __global void *p) { return there ? *(const __global u32 *)p : 0; }
FN u32 read_element(bool there, bool passes, const __global u16 *p) { return there ? *p : 0; }

FN void keep_word(__global void *p, u32 word) { *(__global u32 *)p = word; }
FN void keep_element(__global u16 *p, u16 x) { *p = x; }

FN void prefetch_bytes(const __global void *p) { prefetch((const __global uchar *)p, 128); }

/* 16 bytes at once, from and to an aligned address. */
FN void load_line(u32 *words, const __global void *p) { vstore4(*(const __global uint4 *)p, 0, words); }
FN void load_line_last(u32 *words, const __global void *p) { load_line(words, p); }
FN void load_local_line(u32 *words, const __local void *p) { vstore4(*(const __local uint4 *)p, 0, words); }
FN void store_local_line(__local void *p, const u32 *words) { *(__local uint4 *)p = vload4(0, words); }
FN void store_line(__global void *p, const u32 *words) { *(__global uint4 *)p = vload4(0, words); }

FN float f16_low(u32 word) {
    const u16 bits = (u16)word;
    return vload_half(0, (const half *)&bits);
}
FN float f16_high(u32 word) { return f16_low(word >> 16); }

/* A word of two f16 or bf16, rounded to nearest even; of a NaN any. */
FN u32 f16_pair(float low, float high) {
    u32 word;
    vstore_half_rte(low, 0, (half *)&word);
    vstore_half_rte(high, 1, (half *)&word);
    return word;
}
FN u32 bf16_pair(float low, float high) {
    const u32 l = bits_of(low), h = bits_of(high);
    return (l + 0x7fffu + (l >> 16 & 1)) >> 16 | ((h + 0x7fffu + (h >> 16 & 1)) & 0xffff0000u);
}
