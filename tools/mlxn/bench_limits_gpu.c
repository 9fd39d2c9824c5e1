/* The limits of a device that runs source code: the same loops as kernels of the program's own, in a text that is both
 * CUDA C++ and OpenCL C. How many lines of 16 bytes a thread moves, and whether what it stores leaves the caches
 * first, decides a few percent, differently on every device: on a graphics processor each limit is the best of some ways.
 * Loads are ordinary ones: streaming ones are no faster, and slower after some kernels (docs/performance.md). */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define GROUP_THREADS 256
#define LINE_BYTES 16
#define CALIBRATION_BYTES ((size_t)1 << 30)
#define CALIBRATION_REPEATS 8
#define CALIBRATION_REPS 3

static const char head[] = "#ifdef __OPENCL_VERSION__\n"
                           "#define KERNEL __kernel __attribute__((reqd_work_group_size(256, 1, 1))) void\n"
                           "#define BUFFER(T, name) __global T *name##_base, ulong name##_offset\n"
                           "#define OPEN(T, name) "
                           "__global T *name = (__global T *)((__global uchar *)name##_base + name##_offset);\n"
                           "#define GROUP get_group_id(0)\n"
                           "#define THREAD get_local_id(0)\n"
                           "#define STORE(p, v) (*(p) = (v))\n"
                           "#define ONES (uint4)(0xffffffffu)\n"
                           "#define ZERO (uint4)(0)\n"
                           "#define XOR(a, b) ((a) ^ (b))\n"
                           "typedef ulong u64;\n"
                           "#else\n"
                           "typedef unsigned long long u64;\n"
                           "typedef unsigned short ushort;\n"
                           "#define KERNEL extern \"C\" __global__ void __launch_bounds__(256)\n"
                           "#define BUFFER(T, name) T *name\n"
                           "#define OPEN(T, name)\n"
                           "#define GROUP blockIdx.x\n"
                           "#define THREAD threadIdx.x\n"
                           "#define ONES make_uint4(~0u, ~0u, ~0u, ~0u)\n"
                           "#define ZERO make_uint4(0, 0, 0, 0)\n"
                           "static __device__ __forceinline__ uint4 XOR(uint4 a, uint4 b) {\n"
                           "    return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w);\n"
                           "}\n"
                           "#if STREAMING\n"
                           "#define STORE(p, v) __stcs(p, v)\n"
                           "#else\n"
                           "#define STORE(p, v) (*(p) = (v))\n"
                           "#endif\n"
                           "#endif\n"
                           "#define FIRST ((u64)GROUP * (256 * PER_THREAD) + THREAD)\n"
                           "#define FOR_LINES _Pragma(\"unroll\") for (int k = 0; k < PER_THREAD; k++)\n"
                           "#define INSIDE(k) (first + 256 * (k) < lines)\n";

/* Every load of a thread goes before its first store. A group at the end of the memory takes its lines one by one. */
static const char *const bodies[LIMIT_COUNT] = {
    [LIMIT_READ] = "KERNEL NAME(BUFFER(const uint4, a), BUFFER(uint4, sink), const u64 lines) {\n"
                   "    OPEN(const uint4, a) OPEN(uint4, sink)\n"
                   "    const u64 first = FIRST;\n"
                   "    uint4 v[PER_THREAD], all = ZERO;\n"
                   "    if (INSIDE(PER_THREAD - 1)) {\n"
                   "        FOR_LINES v[k] = a[first + 256 * k];\n"
                   "    } else {\n"
                   "        FOR_LINES v[k] = INSIDE(k) ? a[first + 256 * k] : ZERO;\n"
                   "    }\n"
                   "    FOR_LINES all = XOR(all, v[k]);\n"
                   /* Depends on all that was read, and no data that is read here gives it. */
                   "    if (all.x == 0x9e3779b9u && all.y == 0x7f4a7c15u && all.z == 0xbf58476du && all.w == lines) {\n"
                   "        *sink = all;\n"
                   "    }\n"
                   "}\n",
    [LIMIT_TRIAD] =
        "KERNEL NAME(BUFFER(const uint4, a), BUFFER(const uint4, b), BUFFER(uint4, to), const u64 lines) {\n"
        "    OPEN(const uint4, a) OPEN(const uint4, b) OPEN(uint4, to)\n"
        "    const u64 first = FIRST;\n"
        "    uint4 v[PER_THREAD], w[PER_THREAD];\n"
        "    if (INSIDE(PER_THREAD - 1)) {\n"
        "        FOR_LINES v[k] = a[first + 256 * k];\n"
        "        FOR_LINES w[k] = b[first + 256 * k];\n"
        "        FOR_LINES STORE(to + first + 256 * k, XOR(v[k], w[k]));\n"
        "    } else {\n"
        "        FOR_LINES if (INSIDE(k)) {\n"
        "            STORE(to + first + 256 * k, XOR(a[first + 256 * k], b[first + 256 * k]));\n"
        "        }\n"
        "    }\n"
        "}\n",
    [LIMIT_COPY] = "KERNEL NAME(BUFFER(const uint4, a), BUFFER(uint4, to), const u64 lines) {\n"
                   "    OPEN(const uint4, a) OPEN(uint4, to)\n"
                   "    const u64 first = FIRST;\n"
                   "    uint4 v[PER_THREAD];\n"
                   "    if (INSIDE(PER_THREAD - 1)) {\n"
                   "        FOR_LINES v[k] = a[first + 256 * k];\n"
                   "        FOR_LINES STORE(to + first + 256 * k, v[k]);\n"
                   "    } else {\n"
                   "        FOR_LINES if (INSIDE(k)) STORE(to + first + 256 * k, a[first + 256 * k]);\n"
                   "    }\n"
                   "}\n",
    [LIMIT_FILL] = "KERNEL NAME(BUFFER(uint4, to), const u64 lines) {\n"
                   "    OPEN(uint4, to)\n"
                   "    const u64 first = FIRST;\n"
                   "    if (INSIDE(PER_THREAD - 1)) {\n"
                   "        FOR_LINES STORE(to + first + 256 * k, ONES);\n"
                   "    } else {\n"
                   "        FOR_LINES if (INSIDE(k)) STORE(to + first + 256 * k, ONES);\n"
                   "    }\n"
                   "}\n"};

/* Repeats a pattern of 16-bit units over memory at any place. Its length is a power of two. */
#define SPREAD "bench_spread"
#define SPREAD_UNITS 16 /* of a thread */
static const char spread[] =
    "KERNEL bench_spread(BUFFER(const ushort, from), BUFFER(ushort, to), const u64 units) {\n"
    "    OPEN(const ushort, from) OPEN(ushort, to)\n"
    "    const u64 first = (u64)GROUP * (256 * 16) + THREAD;\n"
    "    for (int k = 0; k < 16; k++) {\n"
    "        if (INSIDE_UNITS(k)) to[first + 256 * k] = from[(first + 256 * k) & PATTERN_MASK];\n"
    "    }\n"
    "}\n";

typedef struct way {
    int per_thread;
    bool streaming;
} way;

static const way ways[] = {{4, true}, {1, true}, {2, true}, {8, true}, {1, false}, {4, false}};
enum { WAY_COUNT = sizeof ways / sizeof *ways, STREAMING_WAYS = 4 /* the first */ };

/* The first way is the one where nothing is measured. */
static size_t chosen[LIMIT_COUNT];

static void kernel_name(bench_limit limit, size_t index, char name[32]) {
    snprintf(name, 32, "bench_%s_%zu", bench_limit_names[limit], index);
}

static mlxn_status add(mlxn_device *device, bench_limit limit, size_t index) {
    char name[32];
    kernel_name(limit, index, name);
    const size_t size = sizeof head + strlen(bodies[limit]) + 128;
    char *text = tool_allocate(size, 1);
    snprintf(text, size, "#define NAME %s\n#define PER_THREAD %d\n#define STREAMING %d\n%s%s", name,
             ways[index].per_thread, ways[index].streaming, head, bodies[limit]);
    mlxn_status status = mlxn_registry_add_source(device, name, text);
    free(text);
    return status;
}

static mlxn_status add_spread(mlxn_device *device) {
    const size_t size = sizeof head + sizeof spread + 192;
    char *text = tool_allocate(size, 1);
    snprintf(text, size,
             "#define PER_THREAD 1\n#define STREAMING 0\n#define PATTERN_MASK %d\n"
             "#define INSIDE_UNITS(k) (first + 256 * (k) < units)\n%s%s",
             BENCH_PATTERN - 1, head, spread);
    mlxn_status status = mlxn_registry_add_source(device, SPREAD, text);
    free(text);
    return status;
}

/* What only reads has no use for the ways that differ in their stores. */
static size_t way_count(bench_limit limit, bool gpu) {
    return !gpu ? 1 : limit == LIMIT_READ ? STREAMING_WAYS : WAY_COUNT;
}

mlxn_status bench_add_source_limits(mlxn_device *device, const mlxn_device_info *info) {
    mlxn_status status = add_spread(device);
    for (int limit = 0; limit < LIMIT_COUNT; limit++) {
        chosen[limit] = 0;
        for (size_t i = 0; i < way_count((bench_limit)limit, info->gpu) && status == MLXN_OK; i++) {
            status = add(device, (bench_limit)limit, i);
        }
    }
    return status;
}

mlxn_status bench_dispatch_source_limit(mlxn_encoder *encoder, bench_limit limit, const mlxn_binding *bindings,
                                        size_t count, uint64_t bytes) {
    char name[32];
    kernel_name(limit, chosen[limit], name);
    const uint64_t lines = bytes / LINE_BYTES;
    const uint64_t lines_a_group = GROUP_THREADS * (uint64_t)ways[chosen[limit]].per_thread;
    const mlxn_dispatch dispatch = {.size = sizeof dispatch,
                                    .kernel = name,
                                    .bindings = bindings,
                                    .binding_count = count,
                                    .constants = &lines,
                                    .constant_bytes = sizeof lines,
                                    .grid = {(lines + lines_a_group - 1) / lines_a_group, 1, 1},
                                    .group = {GROUP_THREADS, 1, 1}};
    return mlxn_encoder_dispatch(encoder, &dispatch);
}

mlxn_status bench_spread(mlxn_device *device, mlxn_buffer *pattern, mlxn_buffer *to) {
    const uint64_t units = mlxn_buffer_bytes(to) / sizeof(uint16_t), units_a_group = GROUP_THREADS * SPREAD_UNITS;
    const mlxn_binding bindings[] = {{pattern, MLXN_READ}, {to, MLXN_WRITE}};
    const mlxn_dispatch dispatch = {.size = sizeof dispatch,
                                    .kernel = SPREAD,
                                    .bindings = bindings,
                                    .binding_count = 2,
                                    .constants = &units,
                                    .constant_bytes = sizeof units,
                                    .grid = {(units + units_a_group - 1) / units_a_group, 1, 1},
                                    .group = {GROUP_THREADS, 1, 1}};
    mlxn_encoder *encoder;
    mlxn_status status = mlxn_encoder_create(device, NULL, &encoder);
    if (status == MLXN_OK) {
        mlxn_encoder_dispatch(encoder, &dispatch);
        status = mlxn_encoder_commit_and_wait(encoder);
    }
    mlxn_encoder_destroy(encoder);
    return status;
}

/* Measures the ways of one limit and chooses the fastest. */
static mlxn_status calibrate(const bench_setting *setting, bench_limit limit, size_t bytes) {
    mlxn_encoder *encoders[WAY_COUNT] = {NULL};
    double medians[WAY_COUNT];
    const size_t count = way_count(limit, true);
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; i < count && status == MLXN_OK; i++) {
        chosen[limit] = i;
        status = mlxn_encoder_create(setting->session->device, NULL, &encoders[i]);
        for (size_t k = 0; k < CALIBRATION_REPEATS && status == MLXN_OK; k++) {
            status = bench_record_limit(encoders[i], setting, limit, bytes);
        }
    }
    if (status == MLXN_OK) {
        status = bench_time(encoders, count, CALIBRATION_REPS, medians);
    }
    chosen[limit] = 0;
    for (size_t i = 1; i < count && status == MLXN_OK; i++) {
        chosen[limit] = medians[i] < medians[chosen[limit]] ? i : chosen[limit];
    }
    for (size_t i = 0; i < count; i++) {
        mlxn_encoder_destroy(encoders[i]);
    }
    if (status == MLXN_OK) {
        const way *best = &ways[chosen[limit]];
        printf("limit %-5s %8.2f GB/s: %d x 16 bytes a thread%s\n", bench_limit_names[limit],
               (double)bytes * CALIBRATION_REPEATS / medians[chosen[limit]] * 1e-9, best->per_thread,
               limit == LIMIT_READ ? ""
               : best->streaming   ? ", streaming stores"
                                   : ", ordinary stores");
    }
    return status;
}

mlxn_status bench_calibrate(const bench_setting *setting) {
    const size_t bytes = setting->pool_bytes < CALIBRATION_BYTES ? setting->pool_bytes : CALIBRATION_BYTES;
    mlxn_status status = MLXN_OK;
    for (int limit = 0; limit < LIMIT_COUNT && setting->session->info.gpu && status == MLXN_OK; limit++) {
        status = calibrate(setting, (bench_limit)limit, bytes);
    }
    return status;
}
