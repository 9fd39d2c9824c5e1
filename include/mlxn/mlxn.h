/* mlxn: neural-network compute kernels with their gradients, the same bits on every device.
 *
 * Five kinds of handle: a *device* executes, a *buffer* holds typed data in the device's memory, an
 * *encoder* records operations and commits them as one list, a *kernel registry* (one per device)
 * holds the code, and every call answers with a *status*.
 *
 *     mlxn_device *device; mlxn_encoder *encoder; mlxn_buffer *x, *y;
 *     mlxn_device_open("cpu", NULL, &device);
 *     mlxn_buffer_create(device, MLXN_F32, 1, (int64_t[]){64}, &x);
 *     mlxn_buffer_create(device, MLXN_F32, 1, (int64_t[]){64}, &y);
 *     mlxn_encoder_create(device, NULL, &encoder);
 *     mlxn_exp(encoder, x, y);
 *     mlxn_encoder_commit_and_wait(encoder);
 *
 * Errors. Every function that can fail returns mlxn_status; MLXN_OK is 0. On failure nothing was
 * changed, results passed by pointer are set to NULL (handles) or left alone, and the text of
 * mlxn_last_error() says what was expected and what came. NULL for an argument is an error
 * (MLXN_INVALID_ARGUMENT), never a crash, except where "may be NULL" is said. The library never prints,
 * aborts or exits.
 *
 * Threads. Functions on different handles may run at the same time, also on handles of one device.
 * mlxn_device, mlxn_buffer and the registry may be used by several threads at once; one mlxn_encoder
 * may be used by one thread at a time. Destroying a handle while another thread uses that same handle
 * is a fault of the caller's; destroying it while *work* that uses it is recorded or in flight is fine:
 * memory is freed when its last user is done with it.
 *
 * Numbers. Every result is a function of the inputs alone: the same bits on every device, instruction
 * set, thread count and run (docs/numerics.md). The caller's floating-point control word and exception
 * flags neither influence a result nor are changed by a call.
 */
#ifndef MLXN_MLXN_H
#define MLXN_MLXN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLXN_VERSION_MAJOR 0
#define MLXN_VERSION_MINOR 1
#define MLXN_VERSION_PATCH 0
#define MLXN_VERSION_STRING "0.1.0"

#if defined(__GNUC__) || defined(__clang__)
#define MLXN_API __attribute__((visibility("default")))
#define MLXN_NODISCARD __attribute__((warn_unused_result))
#else
#define MLXN_API
#define MLXN_NODISCARD
#endif

/* ---- status ---------------------------------------------------------------------------------- */

/* Every status: identifier, text of mlxn_status_text(). */
#define MLXN_STATUSES(X)                               \
    X(OK, "success")                                   \
    X(INVALID_ARGUMENT, "invalid argument")            \
    X(SHAPE_MISMATCH, "shape mismatch")                \
    X(DTYPE_MISMATCH, "dtype mismatch")                \
    X(OUT_OF_MEMORY, "out of memory")                  \
    X(UNSUPPORTED, "unsupported")                      \
    X(NOT_FOUND, "not found")                          \
    X(ALREADY_EXISTS, "already exists")                \
    X(INVALID_STATE, "invalid state")                  \
    X(COMPILE_FAILED, "kernel compilation failed")     \
    X(DEVICE_FAILED, "execution failed on the device") \
    X(FILE_FAILED, "file operation failed")            \
    X(BAD_FORMAT, "malformed file")

typedef enum mlxn_status {
#define MLXN_STATUS_ENUM(id, text) MLXN_##id,
    MLXN_STATUSES(MLXN_STATUS_ENUM)
#undef MLXN_STATUS_ENUM
} mlxn_status;

/* The text of a status, such as "shape mismatch"; "unknown status" for any other number. Never NULL. */
MLXN_API const char *mlxn_status_text(mlxn_status status);

/* The message of the last call that failed in this thread, "" before the first. It names the call or
 * op, the argument, what was expected and what came. A call that succeeds leaves it alone. The text
 * belongs to the library and stays until the thread's next failing call. Never NULL. */
MLXN_API const char *mlxn_last_error(void);

/* The version of the library that is running, such as "0.1.0"; MLXN_VERSION_STRING is the header's. */
MLXN_API const char *mlxn_version(void);

/* ---- dtypes ---------------------------------------------------------------------------------- */

/* Every dtype: identifier, name, size in bytes. Ops compute on f32, f16 and bf16. */
#define MLXN_DTYPES(X) \
    X(F32, "f32", 4)   \
    X(F16, "f16", 2)   \
    X(BF16, "bf16", 2) \
    X(F64, "f64", 8)   \
    X(U8, "u8", 1)     \
    X(U16, "u16", 2)   \
    X(U32, "u32", 4)   \
    X(I32, "i32", 4)   \
    X(I64, "i64", 8)

typedef enum mlxn_dtype {
#define MLXN_DTYPE_ENUM(id, name, size) MLXN_##id,
    MLXN_DTYPES(MLXN_DTYPE_ENUM)
#undef MLXN_DTYPE_ENUM
} mlxn_dtype;

/* The name of a dtype ("f32"), or "unknown dtype". Never NULL. */
MLXN_API const char *mlxn_dtype_name(mlxn_dtype dtype);

/* The size of one element in bytes, 0 for an unknown dtype. */
MLXN_API size_t mlxn_dtype_size(mlxn_dtype dtype);

/* Finds the dtype called `name`. MLXN_NOT_FOUND if there is none. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_dtype_from_name(const char *name, mlxn_dtype *dtype);

/* ---- devices --------------------------------------------------------------------------------- */

/* The largest rank of a shape. */
#define MLXN_MAX_RANK 8

typedef struct mlxn_device mlxn_device;
typedef struct mlxn_buffer mlxn_buffer;
typedef struct mlxn_encoder mlxn_encoder;

/* The caller's memory functions for everything the library allocates on the host: handles, lists and
 * the data of buffers on a device that lives in host memory. `allocate` returns `size` bytes aligned
 * to `alignment` (a power of two, at most 64) or NULL; `free` gets the same size again. Both are called
 * from any thread. */
typedef struct mlxn_allocator {
    void *(*allocate)(void *context, size_t size, size_t alignment);
    void (*free)(void *context, void *memory, size_t size);
    void *context;
} mlxn_allocator;

typedef struct mlxn_device_options {
    size_t size;    /* sizeof(mlxn_device_options) */
    size_t threads; /* CPU worker threads, the caller's included; 0 = what affinity and cgroup quota allow */
    const mlxn_allocator *allocator; /* copied; NULL = the C library's */
    const char *cache_folder;        /* of compiled GPU kernels; NULL = $MLXN_CACHE_DIR or the user's cache folder */
} mlxn_device_options;

/* What mlxn_device_at tells of a device, or of a backend that has none here. Texts are the library's. */
typedef struct mlxn_device_info {
    size_t size;          /* sizeof(mlxn_device_info), set by the caller */
    char name[32];        /* what mlxn_device_open takes: "cpu", "cuda:0", "opencl:0" */
    char description[96]; /* the hardware, such as a processor's name */
    char detail[64];      /* how it is used: instruction set, threads, driver version */
    bool available;       /* false: `reason` says why, and the device cannot be opened */
    bool is_default;      /* what mlxn_device_open(NULL) opens here */
    bool gpu;             /* a graphics processor: preferred by mlxn_device_open(NULL) */
    char reason[160];
    size_t threads;       /* CPU: worker threads by default; else 0 */
    uint64_t cache_bytes; /* of the last-level cache, 0 if unknown */
} mlxn_device_info;

/* The number of entries that mlxn_device_at knows: every device of every backend, and one entry for
 * each backend that has none here. At least 1, the CPU. */
MLXN_API size_t mlxn_device_count(void);

/* Describes entry `index` (from 0) of the device list. info->size must be set. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_device_at(size_t index, mlxn_device_info *info);

/* Opens a device by name: "cpu", "cuda:0", "opencl:0". NULL means $MLXN_DEVICE or, where that is unset
 * or empty, the best device present: the first graphics processor of the list, else its first device.
 * `options` may be NULL. MLXN_NOT_FOUND if there is no such device here (the message says why). Destroy it
 * with mlxn_device_destroy.
 *
 * The CPU device picks the best instruction set of the machine; the environment variable MLXN_MAX_ISA
 * ("baseline", "avx2", "avx512"; "neon") caps it, for tests. A name that is none of these is an error.
 * MLXN_OPENCL_F64=off makes OpenCL devices do without f64 where they have it, for tests too. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_device_open(const char *name, const mlxn_device_options *options,
                                                     mlxn_device **device);

/* Gives up the handle. Buffers and encoders made on it stay valid and keep the device alive. NULL is
 * fine. */
MLXN_API void mlxn_device_destroy(mlxn_device *device);

/* Describes an open device; `available` is true. info->size must be set. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_device_get_info(const mlxn_device *device, mlxn_device_info *info);

/* ---- buffers --------------------------------------------------------------------------------- */

/* Creates a buffer of `rank` extents in row-major order, filled with zeros and aligned to 64 bytes.
 * rank is 0 to MLXN_MAX_RANK; shape may be NULL for rank 0. Extents may be 0 here (the buffer then
 * holds nothing, and ops refuse it) but not negative; a size beyond what 64 bits can count is
 * refused. MLXN_OUT_OF_MEMORY if the device has not the memory. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_buffer_create(mlxn_device *device, mlxn_dtype dtype, size_t rank,
                                                       const int64_t *shape, mlxn_buffer **buffer);

typedef struct mlxn_wrap_options {
    size_t size;                                  /* sizeof(mlxn_wrap_options) */
    bool read_only;                               /* ops and writes refuse the buffer as an output */
    void (*release)(void *context, void *memory); /* called once, when nothing uses the memory any more; may be NULL */
    void *context;
} mlxn_wrap_options;

/* Makes a buffer of the caller's memory, without copying: the caller keeps `memory` valid until
 * `release` is called, and does not touch it while work on it runs. `memory` must be aligned to the
 * dtype's size. Only on a device that works in host memory (the CPU); elsewhere MLXN_UNSUPPORTED, never
 * a hidden copy. `options` may be NULL. On failure `release` is not called. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_buffer_wrap(mlxn_device *device, mlxn_dtype dtype, size_t rank,
                                                     const int64_t *shape, void *memory,
                                                     const mlxn_wrap_options *options, mlxn_buffer **buffer);

/* A buffer on part of another's elements, sharing its memory: contiguous, from element `offset` on,
 * with the given shape. offset plus the new element count must lie within `buffer`, whose own bounds
 * count even where it is a view itself. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_buffer_view(const mlxn_buffer *buffer, int64_t offset, size_t rank,
                                                     const int64_t *shape, mlxn_buffer **view);

/* The same elements, sharing memory, under another shape of equal element count. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_buffer_reshape(const mlxn_buffer *buffer, size_t rank, const int64_t *shape,
                                                        mlxn_buffer **reshaped);

/* Gives up the handle. NULL is fine; work recorded or in flight keeps the memory. */
MLXN_API void mlxn_buffer_destroy(mlxn_buffer *buffer);

/* Copies `size` bytes from byte `offset` of the buffer to `data`, or the other way, after all committed
 * work that touches the memory is done. The range must lie within the buffer; a size of 0 is fine,
 * and `data` may then be NULL. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_buffer_read(const mlxn_buffer *buffer, size_t offset, size_t size, void *data);
MLXN_API MLXN_NODISCARD mlxn_status mlxn_buffer_write(mlxn_buffer *buffer, size_t offset, size_t size,
                                                      const void *data);

/* The host pointer of the buffer's first element, after all committed work that touches the memory is
 * done. It stays valid as long as the buffer; the caller does not touch it while work on it runs, and
 * does not write where the buffer is read-only. MLXN_UNSUPPORTED on a device without host memory. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_buffer_map(const mlxn_buffer *buffer, void **data);

/* What a buffer is. For NULL: MLXN_F32, 0, NULL, 0, 0, false. The shape is the buffer's own array of
 * mlxn_buffer_rank extents. */
MLXN_API mlxn_dtype mlxn_buffer_dtype(const mlxn_buffer *buffer);
MLXN_API size_t mlxn_buffer_rank(const mlxn_buffer *buffer);
MLXN_API const int64_t *mlxn_buffer_shape(const mlxn_buffer *buffer);
MLXN_API int64_t mlxn_buffer_count(const mlxn_buffer *buffer); /* elements */
MLXN_API size_t mlxn_buffer_bytes(const mlxn_buffer *buffer);
MLXN_API bool mlxn_buffer_read_only(const mlxn_buffer *buffer);

/* ---- encoders -------------------------------------------------------------------------------- */

typedef struct mlxn_encoder_options {
    size_t size; /* sizeof(mlxn_encoder_options) */
    bool timing; /* measure every dispatch on its own; they then run one after the other */
} mlxn_encoder_options;

/* Creates an encoder, open for recording. `options` may be NULL. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_encoder_create(mlxn_device *device, const mlxn_encoder_options *options,
                                                        mlxn_encoder **encoder);

/* Waits for the encoder's work and gives up the handle. NULL is fine. */
MLXN_API void mlxn_encoder_destroy(mlxn_encoder *encoder);

/* Waits for the encoder's work, empties the list, clears a sticky failure and opens the encoder for
 * recording again. Memory is kept, so that a warm loop of record, commit, wait, reset allocates
 * nothing. */
MLXN_API mlxn_status mlxn_encoder_reset(mlxn_encoder *encoder);

/* Commits the list for execution and closes it; a list that was committed may be committed again
 * (replay) and does the same work on the memory's present contents. Within a list results are as if
 * its dispatches ran in order; lists of one device that share memory run in the order of their commits,
 * whichever thread commits them. On the CPU the work is done by the call itself.
 *
 * A recording call that failed makes the encoder sticky: later recording calls and commit do nothing
 * and return the first failure's status, until mlxn_encoder_reset. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_encoder_commit(mlxn_encoder *encoder);

/* Waits until all commits of this encoder are done and returns the first error of their execution,
 * once. MLXN_OK if nothing was committed. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_encoder_wait(mlxn_encoder *encoder);

/* mlxn_encoder_commit, then mlxn_encoder_wait. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_encoder_commit_and_wait(mlxn_encoder *encoder);

/* The message of the failure that made the encoder sticky, "" if it is not. Valid until the next call
 * on the encoder. Never NULL. */
MLXN_API const char *mlxn_encoder_message(const mlxn_encoder *encoder);

/* The number of dispatches recorded. An op may record more than one. 0 for NULL. */
MLXN_API size_t mlxn_encoder_dispatches(const mlxn_encoder *encoder);

/* The kernel's name and the time in nanoseconds of dispatch `index` in the last commit, after
 * mlxn_encoder_wait. The encoder must have been created with `timing`. The name is valid as long as
 * the device. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_encoder_timing(const mlxn_encoder *encoder, size_t index, const char **kernel,
                                                        uint64_t *nanoseconds);

/* ---- kernels of one's own -------------------------------------------------------------------- */

#define MLXN_MAX_BINDINGS 16        /* buffers of a dispatch */
#define MLXN_MAX_CONSTANT_BYTES 128 /* inline constants of a dispatch */

/* What a CPU kernel is called with. */
typedef struct mlxn_call {
    void *const *buffers;  /* the host pointers of the dispatch's buffers, in its order */
    const void *constants; /* a copy of the dispatch's constants, aligned to 16 bytes */
    uint64_t grid[3];      /* the dispatch's groups in x, y, z */
    bool streaming;        /* the outputs outgrow the cache: non-temporal stores pay. The library fences. */
} mlxn_call;

/* A CPU kernel: does groups [begin, end) of the grid, counted x first, then y, then z. It runs on any
 * number of threads at once, each group exactly once, in the default floating-point environment. It
 * must not call the library, fork, or leave other than by returning. */
typedef void (*mlxn_function)(const mlxn_call *call, uint64_t begin, uint64_t end);

/* Adds a kernel to the registry of a CPU device. `name` is copied. MLXN_ALREADY_EXISTS if the name is
 * taken, MLXN_UNSUPPORTED if the device runs source code. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_registry_add_function(mlxn_device *device, const char *name,
                                                               mlxn_function function);

/* Adds a kernel in the device's language to the registry of a GPU device; `name` is its entry point.
 * Both texts are copied. It is compiled at its first dispatch; MLXN_COMPILE_FAILED then carries the
 * compiler's log. MLXN_UNSUPPORTED on the CPU.
 *
 * The arguments are the dispatch's buffers in its order; then, if it has constants, one struct of them by
 * value. On "cuda" (CUDA C++, the entry point extern "C" __global__) a buffer is one argument, the address
 * of its first element, and the dispatch's local memory is dynamic shared memory. On "opencl" (OpenCL C 1.2)
 * a buffer is two arguments, a __global pointer to its memory and a ulong, the byte in it at which the
 * buffer begins; and local memory is a last argument, a __local pointer. Contraction of a * b + c is off, and
 * division and square root are correctly rounded. Arguments or a group that do not suit the kernel are
 * MLXN_INVALID_ARGUMENT at commit. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_registry_add_source(mlxn_device *device, const char *name, const char *source);

/* The number of kernels in the registry, and the name of each, built-in ones first; NULL out of range.
 * A name is valid as long as the device. */
MLXN_API size_t mlxn_registry_count(const mlxn_device *device);
MLXN_API const char *mlxn_registry_name(const mlxn_device *device, size_t index);

typedef enum mlxn_access { MLXN_READ = 1, MLXN_WRITE = 2, MLXN_READ_WRITE = 3 } mlxn_access;

typedef struct mlxn_binding {
    mlxn_buffer *buffer;
    mlxn_access access; /* what the kernel does with it; the library orders work by this */
} mlxn_binding;

typedef struct mlxn_dispatch {
    size_t size;                  /* sizeof(mlxn_dispatch) */
    const char *kernel;           /* a name added with mlxn_registry_add_function or _add_source */
    const mlxn_binding *bindings; /* at most MLXN_MAX_BINDINGS */
    size_t binding_count;
    const void *constants; /* at most MLXN_MAX_CONSTANT_BYTES, copied; NULL if constant_bytes is 0 */
    size_t constant_bytes;
    uint64_t grid[3];     /* groups in x, y, z, each at least 1 */
    uint32_t group[3];    /* GPU threads of a group, each at least 1; the CPU runs groups whole */
    uint32_t local_bytes; /* GPU: bytes of local memory that a group gets besides what the kernel declares; else 0 */
} mlxn_dispatch;

/* Records a dispatch of a kernel that the user added; built-in kernels are reached through their ops.
 * MLXN_NOT_FOUND if no kernel has that name. A written buffer must not be read-only, and must not overlap
 * another binding of the same dispatch unless it is the very same memory bound as MLXN_READ_WRITE. */
MLXN_API mlxn_status mlxn_encoder_dispatch(mlxn_encoder *encoder, const mlxn_dispatch *dispatch);

/* ---- ops ------------------------------------------------------------------------------------- */

/* What a gradient does with its destination. Accumulate adds in f32 and rounds once:
 * dst = round(f32(dst) + gradient). */
typedef enum mlxn_mode { MLXN_OVERWRITE, MLXN_ACCUMULATE } mlxn_mode;

/* Contract of every op. It records work and checks its arguments at once; it may be called without
 * looking at the status (see mlxn_encoder_commit). All arguments have one dtype, f32, f16 or bf16, live
 * on the encoder's device, and have the shapes stated; no extent is 0. Leading extents "..." (any
 * number, also none) are equal on all arguments; there is no broadcasting. Outputs must not be read-only
 * and must not overlap another argument, but for the aliases stated. f16 and bf16 are computed in f32
 * and rounded once, to nearest even; elementary functions are correctly rounded in every dtype. Every NaN
 * written is the canonical quiet one. Nothing is written if a check fails.
 *
 * Errors: MLXN_INVALID_ARGUMENT (NULL, extent 0, another device's buffer, overlap, a read-only output),
 * MLXN_SHAPE_MISMATCH, MLXN_DTYPE_MISMATCH (mixed dtypes), MLXN_UNSUPPORTED (a dtype no op takes),
 * MLXN_INVALID_STATE (a committed encoder), MLXN_OUT_OF_MEMORY. */

/* BEGIN elementwise ops: written by `make generate` from src/ops/ops.def. */

/* y = e^x.  x and y have one shape, any. y may be the very memory of x. */
MLXN_API mlxn_status mlxn_exp(mlxn_encoder *encoder, mlxn_buffer *x, mlxn_buffer *y);

/* The gradient of mlxn_exp: dx = dy * y, where y is the forward's output.
 * All have one shape, any. In overwrite mode dx may be the very memory of y or dy. */
MLXN_API mlxn_status mlxn_exp_backward(mlxn_encoder *encoder, mlxn_buffer *y, mlxn_buffer *dy, mlxn_buffer *dx,
                                       mlxn_mode mode);

/* y = ln x.  x and y have one shape, any. y may be the very memory of x. */
MLXN_API mlxn_status mlxn_log(mlxn_encoder *encoder, mlxn_buffer *x, mlxn_buffer *y);

/* The gradient of mlxn_log: dx = dy / x.
 * All have one shape, any. In overwrite mode dx may be the very memory of x or dy. */
MLXN_API mlxn_status mlxn_log_backward(mlxn_encoder *encoder, mlxn_buffer *x, mlxn_buffer *dy, mlxn_buffer *dx,
                                       mlxn_mode mode);

/* y = sqrt(x).  x and y have one shape, any. y may be the very memory of x. */
MLXN_API mlxn_status mlxn_sqrt(mlxn_encoder *encoder, mlxn_buffer *x, mlxn_buffer *y);

/* The gradient of mlxn_sqrt: dx = dy / (y + y), where y is the forward's output.
 * All have one shape, any. In overwrite mode dx may be the very memory of y or dy. */
MLXN_API mlxn_status mlxn_sqrt_backward(mlxn_encoder *encoder, mlxn_buffer *y, mlxn_buffer *dy, mlxn_buffer *dx,
                                        mlxn_mode mode);

/* y = a * b.  a, b and y have one shape, any. y may be the very memory of a or b. */
MLXN_API mlxn_status mlxn_mul(mlxn_encoder *encoder, mlxn_buffer *a, mlxn_buffer *b, mlxn_buffer *y);

/* The gradients of mlxn_mul in one pass: da = dy * b, db = dy * a.
 * All have one shape, any. In overwrite mode da or db may be the very memory of a, b or dy; da and db
 * never overlap. */
MLXN_API mlxn_status mlxn_mul_backward(mlxn_encoder *encoder, mlxn_buffer *a, mlxn_buffer *b, mlxn_buffer *dy,
                                       mlxn_buffer *da, mlxn_buffer *db, mlxn_mode mode);

/* END elementwise ops. */

/* y[...,i,j] = lhs[...,i] * rhs[...,j].  lhs [...,N], rhs [...,M], y [...,N,M]. */
MLXN_API mlxn_status mlxn_outer_product(mlxn_encoder *encoder, mlxn_buffer *lhs, mlxn_buffer *rhs, mlxn_buffer *y);

/* dlhs[...,i] = sum over j of dy[...,i,j] * rhs[...,j], in the canonical order of a row sum.
 * dy [...,N,M], rhs [...,M], dlhs [...,N]. */
MLXN_API mlxn_status mlxn_outer_product_backward_lhs(mlxn_encoder *encoder, mlxn_buffer *dy, mlxn_buffer *rhs,
                                                     mlxn_buffer *dlhs, mlxn_mode mode);

/* drhs[...,j] = sum over i of dy[...,i,j] * lhs[...,i], in the canonical order of a column sum.
 * dy [...,N,M], lhs [...,N], drhs [...,M]. */
MLXN_API mlxn_status mlxn_outer_product_backward_rhs(mlxn_encoder *encoder, mlxn_buffer *dy, mlxn_buffer *lhs,
                                                     mlxn_buffer *drhs, mlxn_mode mode);

/* Both gradients in one pass over dy, with the bits of the two single ops.
 * dy [...,N,M], lhs [...,N], rhs [...,M], dlhs [...,N], drhs [...,M]. */
MLXN_API mlxn_status mlxn_outer_product_backward(mlxn_encoder *encoder, mlxn_buffer *dy, mlxn_buffer *lhs,
                                                 mlxn_buffer *rhs, mlxn_buffer *dlhs, mlxn_buffer *drhs,
                                                 mlxn_mode mode);

/* ---- ops by name ----------------------------------------------------------------------------- */

#define MLXN_MAX_ARGUMENTS 6

/* A special value: the bits of f32 inputs and of the results they must give. */
typedef struct mlxn_special {
    uint32_t in[3];
    uint32_t out[2];
} mlxn_special;

/* One argument of an op. `dims` names its trailing extents: "" = all of them are the leading "...",
 * "N", "M", "NM". */
typedef struct mlxn_argument {
    const char *name;
    const char *dims;
} mlxn_argument;

/* The op's formula in float64, over `batch` items of N and M: in[] and out[] are contiguous, in the order
 * of the arguments. An elementwise op takes its element count as `batch`, with n = m = 1. Sums are
 * compensated. For checks: slow, single-threaded, and it shares nothing with the kernels. */
typedef void (*mlxn_reference)(int64_t batch, int64_t n, int64_t m, const double *const *in, double *const *out);

/* What the library knows of an op. All texts are static. */
typedef struct mlxn_op_info {
    const char *name;     /* "exp", "exp_backward", "outer_product", … */
    const char *formula;  /* "y = e^x" */
    const char *forward;  /* of a gradient: the name of its forward; else NULL */
    const char *backward; /* of a forward: the name of the op that gives all its gradients; else NULL */
    bool elementwise;
    bool accumulates;    /* takes MLXN_ACCUMULATE */
    size_t input_count;  /* arguments[0 … input_count) are inputs, */
    size_t output_count; /* the next output_count are outputs */
    mlxn_argument arguments[MLXN_MAX_ARGUMENTS];
    const mlxn_special *special; /* in f32, may be empty */
    size_t special_count;
    mlxn_reference reference;
} mlxn_op_info;

/* The ops of the library. mlxn_op_at returns NULL out of range, mlxn_op_find NULL for an unknown name. */
MLXN_API size_t mlxn_op_count(void);
MLXN_API const mlxn_op_info *mlxn_op_at(size_t index);
MLXN_API const mlxn_op_info *mlxn_op_find(const char *name);

/* The shape of output `index` (from 0) of an op for the given inputs, in *rank and shape[MLXN_MAX_RANK].
 * Checks the inputs as the op does. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_op_output_shape(const char *op, const mlxn_buffer *const *inputs,
                                                         size_t input_count, size_t index, size_t *rank,
                                                         int64_t *shape);

/* Records the op called `op`: arguments in the order of its C function, inputs first. `mode` must be
 * MLXN_OVERWRITE where the op does not accumulate. The same checks as the op's own function. */
MLXN_API mlxn_status mlxn_encode(mlxn_encoder *encoder, const char *op, mlxn_buffer *const *arguments, size_t count,
                                 mlxn_mode mode);

#ifdef __cplusplus
}
#endif

#endif
