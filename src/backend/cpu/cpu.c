/* The CPU device: host memory, and lists executed by the committing thread with the help of a pool. */
#include <pthreadpool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/machine.h"
#include "core/backend.h"
#include "core/device.h"
#include "core/encoder.h"
#include "core/environment.h"

typedef struct cpu_state {
    size_t threads;
    uint32_t pool_flags;
    pthreadpool_t pool; /* made when work first needs it; NULL if that failed: the caller works alone */
    bool pool_tried;
} cpu_state;

enum { MAX_THREADS = 4096 };

/* Less work than this is done sooner by one thread than by waking others (bytes moved). */
static const uint64_t alone_below = 256 << 10;

/* Work is cut into about this many pieces a thread, so that a thread that is held up costs little, and into
 * pieces no smaller than this. */
static const uint64_t pieces_a_thread = 16;
static const uint64_t smallest_piece = 64 << 10;

static size_t cpu_count(void) {
    return 1;
}

static void write_detail(mlxn_device_info *info, mlxn_isa isa) {
    snprintf(info->detail, sizeof info->detail, "%s, %zu thread%s", mlxn_cpu_isa_name(isa), info->threads,
             info->threads == 1 ? "" : "s");
}

static void cpu_describe(size_t index, mlxn_device_info *info) {
    (void)index;
    snprintf(info->name, sizeof info->name, "cpu");
    mlxn_cpu_name(info->description, sizeof info->description);
    info->available = true;
    info->threads = mlxn_cpu_default_threads();
    info->cache_bytes = mlxn_cpu_cache_bytes();
    mlxn_isa isa;
    const char *names;
    if (mlxn_cpu_isa(&isa, &names)) {
        write_detail(info, isa);
    } else {
        snprintf(info->detail, sizeof info->detail, "MLXN_MAX_ISA is none of %s", names);
    }
}

static mlxn_status cpu_open(mlxn_device *device, size_t index, const mlxn_device_options *options) {
    (void)index;
    mlxn_isa isa;
    const char *names;
    if (!mlxn_cpu_isa(&isa, &names)) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_device_open: MLXN_MAX_ISA is \"%.40s\", expected %s",
                         getenv("MLXN_MAX_ISA"), names);
    }
    if (options != NULL && options->threads > MAX_THREADS) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_device_open: options->threads is %zu, expected at most %d",
                         options->threads, MAX_THREADS);
    }
    for (size_t i = 0; i < mlxn_family_count; i++) {
        const mlxn_cpu_kernels *kernels = mlxn_families[i]->cpu[isa];
        for (size_t k = 0; k < kernels->count; k++) {
            const mlxn_status status = mlxn_registry_add_built_in(
                device, &(mlxn_kernel){.name = kernels->list[k].name, .function = kernels->list[k].function});
            if (status != MLXN_OK) {
                return status;
            }
        }
    }
    cpu_state *state = mlxn_allocate(&device->allocator, sizeof *state, _Alignof(cpu_state));
    if (state == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "mlxn_device_open: no memory for the device");
    }
    const size_t threads = options != NULL && options->threads > 0 ? options->threads : device->info.threads;
    /* Spinning is quickest while every worker has a core to spin on, and ruinous otherwise. */
    const bool spin = threads <= 2 && threads <= mlxn_cpu_processors();
    *state = (cpu_state){.threads = threads, .pool_flags = spin ? 0 : PTHREADPOOL_FLAG_YIELD_WORKERS};
    device->state = state;
    device->info.threads = threads;
    write_detail(&device->info, isa);
    return MLXN_OK;
}

static void cpu_close(mlxn_device *device) {
    cpu_state *state = device->state;
    if (state->pool != NULL) {
        pthreadpool_destroy(state->pool);
    }
    mlxn_free(&device->allocator, state, sizeof *state);
}

/* The parent's workers are not in the child; what is left of their pool cannot be freed without them. */
static void cpu_forked(mlxn_device *device) {
    cpu_state *state = device->state;
    state->pool = NULL;
    state->pool_tried = false;
}

static mlxn_status cpu_allocate(mlxn_device *device, size_t bytes, mlxn_memory *memory) {
    void *data = mlxn_allocate_zeroed(&device->allocator, bytes > 0 ? bytes : 1);
    *memory = (mlxn_memory){.address = (uintptr_t)data, .host = data, .bytes = bytes};
    return data != NULL ? MLXN_OK : MLXN_OUT_OF_MEMORY;
}

static void cpu_release(mlxn_device *device, mlxn_memory *memory) {
    mlxn_free(&device->allocator, memory->host, memory->bytes > 0 ? memory->bytes : 1);
}

static mlxn_status cpu_copy_out(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size,
                                void *data) {
    (void)device;
    memcpy(data, (const char *)memory->host + offset, size);
    return MLXN_OK;
}

static mlxn_status cpu_copy_in(mlxn_device *device, const mlxn_memory *memory, size_t offset, size_t size,
                               const void *data) {
    (void)device;
    memcpy((char *)memory->host + offset, data, size);
    return MLXN_OK;
}

/* ---- executing a list ---------------------------------------------------------------------------- */

/* Dispatches that may run side by side, cut into pieces: dispatch i has the pieces [first[i], first[i + 1]). */
enum { MAX_SIDE_BY_SIDE = 16 };
typedef struct wave {
    mlxn_record *const *records;
    size_t count;
    size_t first[MAX_SIDE_BY_SIDE + 1];
} wave;

/* The pool's own synchronisation is invisible to ThreadSanitizer, since the pool's library is not built with it. */
#if defined(__SANITIZE_THREAD__)
#define MLXN_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MLXN_TSAN 1
#endif
#endif
#ifdef MLXN_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define HAPPENS_AFTER(address) __tsan_acquire(address)
#define HAPPENS_BEFORE(address) __tsan_release(address)
#else
#define HAPPENS_AFTER(address) ((void)(address))
#define HAPPENS_BEFORE(address) ((void)(address))
#endif

/* Non-temporal stores before this are seen by whoever sees a store after it. */
static void store_fence(void) {
#if defined(__x86_64__)
    _mm_sfence();
#else
    __asm__ volatile("dmb ishst" : : : "memory");
#endif
}

static void run_groups(const mlxn_record *record, uint64_t begin, uint64_t end) {
    record->kernel->function(&record->call, begin, end);
    if (record->call.streaming) {
        store_fence();
    }
}

/* Where piece `piece` of `pieces` begins in `groups`. */
static uint64_t piece_begin(uint64_t groups, uint64_t pieces, uint64_t piece) {
    const uint64_t quotient = groups / pieces, remainder = groups % pieces;
    return quotient * piece + (piece < remainder ? piece : remainder);
}

static void run_piece(void *context, size_t piece) {
    wave *of = context;
    HAPPENS_AFTER(of);
    size_t i = 0;
    while (piece >= of->first[i + 1]) {
        i++;
    }
    const mlxn_record *record = of->records[i];
    const uint64_t pieces = of->first[i + 1] - of->first[i];
    const uint64_t index = piece - of->first[i];
    const mlxn_environment callers = mlxn_environment_enter();
    run_groups(record, piece_begin(record->groups, pieces, index), piece_begin(record->groups, pieces, index + 1));
    mlxn_environment_leave(callers);
    HAPPENS_BEFORE(of);
}

static void *wait_at_gate(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Whether the system lets us have `count` threads at a time. The pool does not look: where one cannot be made, it
 * would wait for it for ever. */
static bool threads_can_be_had(size_t count) {
    pthread_t threads[MAX_THREADS];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&gate);
    size_t made = 0;
    while (made < count && pthread_create(&threads[made], NULL, wait_at_gate, &gate) == 0) {
        made++;
    }
    pthread_mutex_unlock(&gate);
    for (size_t i = 0; i < made; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_mutex_destroy(&gate);
    return made == count;
}

static pthreadpool_t pool_of(cpu_state *state) {
    if (!state->pool_tried) {
        state->pool_tried = true;
        if (threads_can_be_had(state->threads - 1)) {
            state->pool = pthreadpool_create(state->threads);
        }
    }
    return state->pool;
}

static void run_wave(cpu_state *state, mlxn_record *const *records, size_t count) {
    uint64_t cost = 0;
    for (size_t i = 0; i < count; i++) {
        cost += records[i]->cost;
    }
    if (cost < alone_below || state->threads == 1 || pool_of(state) == NULL) {
        for (size_t i = 0; i < count; i++) {
            run_groups(records[i], 0, records[i]->groups);
        }
        return;
    }
    uint64_t piece = cost / (state->threads * pieces_a_thread);
    piece = piece > smallest_piece ? piece : smallest_piece;
    wave side_by_side = {.records = records, .count = count};
    for (size_t i = 0; i < count; i++) {
        uint64_t pieces = records[i]->cost / piece + 1;
        pieces = pieces < records[i]->groups ? pieces : records[i]->groups;
        side_by_side.first[i + 1] = side_by_side.first[i] + pieces;
    }
    HAPPENS_BEFORE(&side_by_side);
    pthreadpool_parallelize_1d(state->pool, run_piece, &side_by_side, side_by_side.first[count], state->pool_flags);
    HAPPENS_AFTER(&side_by_side);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static mlxn_status cpu_commit(mlxn_device *device, mlxn_list *list, bool timing) {
    cpu_state *state = device->state;
    const mlxn_environment callers = mlxn_environment_enter();
    for (size_t begin = 0, end; begin < list->count; begin = end) {
        end = begin + 1;
        if (timing) {
            const uint64_t start = now();
            run_wave(state, &list->records[begin], 1);
            list->records[begin]->nanoseconds = now() - start;
            continue;
        }
        while (end < list->count && end - begin < MAX_SIDE_BY_SIDE && !list->records[end]->barrier) {
            end++;
        }
        run_wave(state, &list->records[begin], end - begin);
    }
    mlxn_environment_leave(callers);
    return MLXN_OK;
}

/* The commit has done the work. */
static mlxn_status cpu_wait(mlxn_device *device, mlxn_list *list) {
    (void)device;
    (void)list;
    return MLXN_OK;
}

extern const mlxn_backend mlxn_cpu_backend;
const mlxn_backend mlxn_cpu_backend = {
    .prefix = "cpu",
    .count = cpu_count,
    .describe = cpu_describe,
    .open = cpu_open,
    .close = cpu_close,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .copy_out = cpu_copy_out,
    .copy_in = cpu_copy_in,
    .commit = cpu_commit,
    .wait = cpu_wait,
    .forked = cpu_forked,
};
