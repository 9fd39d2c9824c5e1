/* What the device's memory gives: a read, a copy, a fill and a two-reads-one-write loop, added to the device as kernels of
 * the program's own: on the CPU, C functions that run on the same threads as the ops. */
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench.h"

#define GROUP_BYTES 16384 /* of each array, a group of the grid */

const char *const bench_limit_names[LIMIT_COUNT] = {"read", "triad", "copy", "fill"};

/* How a limit's bytes are spread: `inputs` arrays read and `outputs` written, all of one size. */
static const struct {
    const char *kernel;
    size_t inputs, outputs;
} limits[LIMIT_COUNT] = {
    [LIMIT_READ] = {"bench_read", 1, 0},
    [LIMIT_TRIAD] = {"bench_triad", 2, 1},
    [LIMIT_COPY] = {"bench_copy", 1, 1},
    [LIMIT_FILL] = {"bench_fill", 0, 1},
};

typedef struct loop_range {
    size_t begin, end; /* bytes */
} loop_range;

static loop_range loop_range_of(const mlxn_call *call, uint64_t begin, uint64_t end) {
    uint64_t bytes;
    memcpy(&bytes, call->constants, sizeof bytes);
    return (loop_range){begin * GROUP_BYTES, end * GROUP_BYTES < bytes ? end * GROUP_BYTES : bytes};
}

/* Makes the compiler believe that the value is needed. */
static void loop_use(uint64_t value) {
    __asm__ volatile("" : : "r"(value));
}

#if defined(__x86_64__)
#define LOOP(name) baseline_##name
#define TARGET
#define WIDTH 16
#define STREAM(to, vector) _mm_stream_si128((__m128i *)(to), (__m128i)(vector))
#include "bench_loops.inc"
#undef LOOP
#undef TARGET
#undef WIDTH
#undef STREAM
#define LOOP(name) avx2_##name
#define TARGET __attribute__((target("avx2")))
#define WIDTH 32
#define STREAM(to, vector) _mm256_stream_si256((__m256i *)(to), (__m256i)(vector))
#include "bench_loops.inc"
#undef LOOP
#undef TARGET
#undef WIDTH
#undef STREAM
#define LOOP(name) avx512_##name
#define TARGET __attribute__((target("avx512f")))
#define WIDTH 64
#define STREAM(to, vector) _mm512_stream_si512((__m512i *)(to), (__m512i)(vector))
#include "bench_loops.inc"

static const mlxn_function *best_functions(void) {
    return __builtin_cpu_supports("avx512f") ? avx512_functions
           : __builtin_cpu_supports("avx2")  ? avx2_functions
                                             : baseline_functions;
}
#else
#define LOOP(name) portable_##name
#define TARGET
#define WIDTH 16
#define STREAM(to, value) (*(portable_vector *)(to) = (value))
#include "bench_loops.inc"

static const mlxn_function *best_functions(void) {
    return portable_functions;
}
#endif

bench_limit bench_limit_of(double bytes_read, double bytes_written) {
    const double share = bytes_written / (bytes_read + bytes_written);
    bench_limit best = LIMIT_READ;
    double nearest = 2;
    for (int i = 0; i < LIMIT_COUNT; i++) {
        double own = (double)limits[i].outputs / (double)(limits[i].inputs + limits[i].outputs);
        double distance = share > own ? share - own : own - share;
        if (distance < nearest) {
            nearest = distance;
            best = (bench_limit)i;
        }
    }
    return best;
}

bench_kind bench_add_limits(mlxn_device *device, const mlxn_device_info *info) {
    const mlxn_function *functions = best_functions();
    mlxn_status status = MLXN_OK;
    for (int i = 0; i < LIMIT_COUNT && status == MLXN_OK; i++) {
        status = mlxn_registry_add_function(device, limits[i].kernel, functions[i]);
    }
    if (status == MLXN_OK) {
        return BENCH_FUNCTIONS;
    }
    return bench_add_source_limits(device, info) == MLXN_OK ? BENCH_SOURCES : BENCH_NO_LIMITS;
}

/* On a CPU, arrays of one size end to end would begin at like places of their pages, where a load waits for an unrelated
 * store. */
#define STAGGER 2112

/* What the read of a device with source code would write to if it ever did. */
#define SINK_BYTES 64

size_t bench_pool_bytes(size_t bytes) {
    return bytes + 4 * STAGGER + SINK_BYTES;
}

static mlxn_status dispatch_function(mlxn_encoder *encoder, bench_limit limit, const mlxn_binding *bindings,
                                     size_t count, uint64_t bytes) {
    const mlxn_dispatch dispatch = {.size = sizeof dispatch,
                                    .kernel = limits[limit].kernel,
                                    .bindings = bindings,
                                    .binding_count = count,
                                    .constants = &bytes,
                                    .constant_bytes = sizeof bytes,
                                    .grid = {(bytes + GROUP_BYTES - 1) / GROUP_BYTES, 1, 1},
                                    .group = {1, 1, 1}};
    return mlxn_encoder_dispatch(encoder, &dispatch);
}

mlxn_status bench_record_limit(mlxn_encoder *encoder, const bench_setting *setting, bench_limit limit, size_t bytes) {
    const bool source = setting->kind == BENCH_SOURCES;
    const size_t arrays = limits[limit].inputs + limits[limit].outputs;
    const uint64_t each = bytes / arrays > 64 ? bytes / arrays / 64 * 64 : 64;
    const uint64_t step = source ? (each + 255) / 256 * 256 : each + STAGGER;
    mlxn_buffer *views[4] = {NULL};
    mlxn_binding bindings[4];
    size_t count = 0;
    mlxn_status status = MLXN_OK;
    for (; count < arrays && status == MLXN_OK; count++) {
        const int64_t offset = (int64_t)(count * step), extent = (int64_t)each;
        status = mlxn_buffer_view(setting->pool, offset, 1, &extent, &views[count]);
        bindings[count] = (mlxn_binding){views[count], count < limits[limit].inputs ? MLXN_READ : MLXN_WRITE};
    }
    if (status == MLXN_OK && source && limits[limit].outputs == 0) {
        const int64_t extent = SINK_BYTES;
        const int64_t offset = (mlxn_buffer_count(setting->pool) - extent) / 64 * 64;
        status = mlxn_buffer_view(setting->pool, offset, 1, &extent, &views[count]);
        bindings[count] = (mlxn_binding){views[count], MLXN_WRITE};
        count++;
    }
    if (status == MLXN_OK) {
        status = source ? bench_dispatch_source_limit(encoder, limit, bindings, count, each)
                        : dispatch_function(encoder, limit, bindings, count, each);
    }
    for (size_t k = 0; k < count; k++) {
        mlxn_buffer_destroy(views[k]);
    }
    return status;
}
