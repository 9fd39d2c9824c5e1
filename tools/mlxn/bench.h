/* mlxn bench: its parts. */
#ifndef MLXN_TOOL_BENCH_H
#define MLXN_TOOL_BENCH_H

#include "job.h"

/* Elements of the inputs' pattern, which repeats; a power of two. */
#define BENCH_PATTERN 65536

/* ---- what is measured where ---- */

typedef enum bench_kind {
    BENCH_NO_LIMITS,
    BENCH_FUNCTIONS, /* the device's kernels are functions of the host */
    BENCH_SOURCES    /* or texts */
} bench_kind;

typedef struct bench_setting {
    const tool_arguments *arguments;
    tool_session *session;
    size_t reps;
    bench_kind kind;
    mlxn_buffer *pool; /* memory of the limits' loops, for pool_bytes in all */
    size_t pool_bytes;
} bench_setting;

/* ---- limits: what plain loops reach on the device ---- */

typedef enum bench_limit { LIMIT_READ, LIMIT_TRIAD, LIMIT_COPY, LIMIT_FILL, LIMIT_COUNT } bench_limit;

extern const char *const bench_limit_names[LIMIT_COUNT];

/* The limit of a job, by the share of writes in the bytes that it moves. */
bench_limit bench_limit_of(double bytes_read, double bytes_written);

/* Adds the loops to the device's registry. */
bench_kind bench_add_limits(mlxn_device *device, const mlxn_device_info *info);

/* Records a limit's loop over `bytes` bytes in all, in the memory of the pool (bench_pool_bytes() of them). */
mlxn_status bench_record_limit(mlxn_encoder *encoder, const bench_setting *setting, bench_limit limit, size_t bytes);
size_t bench_pool_bytes(size_t bytes);

/* The same for a device that runs source code. On a graphics processor bench_calibrate finds the best way of each loop
 * and prints it. */
mlxn_status bench_add_source_limits(mlxn_device *device, const mlxn_device_info *info);
mlxn_status bench_dispatch_source_limit(mlxn_encoder *encoder, bench_limit limit, const mlxn_binding *bindings,
                                        size_t count, uint64_t bytes);
mlxn_status bench_calibrate(const bench_setting *setting);

/* Repeats BENCH_PATTERN 16-bit units over a buffer on a device that runs source code. */
mlxn_status bench_spread(mlxn_device *device, mlxn_buffer *pattern, mlxn_buffer *to);

/* ---- results ---- */

typedef struct bench_result {
    const mlxn_op_info *op;
    mlxn_dtype dtype;
    tool_extents extents;
    size_t offset; /* elements that precede every argument in its memory */
    double bytes, seconds;
    bool has_limit;
    bench_limit limit;
    double limit_seconds; /* for as many bytes */
    bool in_plot;         /* one of the sizes, not of the special shapes */
} bench_result;

/* How much sooner one op gives several gradients than the ops that give one each. */
typedef struct bench_passes {
    const mlxn_op_info *op;
    mlxn_dtype dtype;
    tool_extents extents;
    double seconds, separate_seconds;
} bench_passes;

typedef struct bench_overhead {
    const mlxn_op_info *op;
    mlxn_dtype dtype;
    double single_seconds, encoded_seconds, replayed_seconds;
} bench_overhead;

typedef struct bench_report {
    mlxn_device_info device;
    size_t reps;
    bench_result *results;
    size_t result_count;
    bench_passes *passes;
    size_t pass_count;
    bench_overhead *overheads;
    size_t overhead_count;
} bench_report;

static inline double bench_speed(const bench_result *result) {
    return result->bytes / result->seconds * 1e-9;
}

static inline double bench_limit_speed(const bench_result *result) {
    return result->bytes / result->limit_seconds * 1e-9;
}

/* "8192x8192" or an element count, and "+1" for an offset. Returns `text`. */
char *bench_extents_text(const mlxn_op_info *op, const tool_extents *extents, size_t offset, char text[48]);

/* ---- measuring ---- */

/* An op on buffers of a given size, recorded as often as makes a duration that can be timed. */
typedef struct bench_job {
    mlxn_buffer *storage[MLXN_MAX_ARGUMENTS]; /* that the buffers are views of */
    mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
    mlxn_encoder *encoder;
    size_t repeats;
    double bytes_read, bytes_written;
} bench_job;

mlxn_status bench_job_create(const bench_setting *setting, const mlxn_op_info *op, mlxn_dtype dtype,
                             tool_extents extents, size_t offset, bench_job *job);
void bench_job_destroy(bench_job *job);

/* Fills a buffer with ordinary numbers, which take no special path. */
mlxn_status bench_fill(const bench_setting *setting, mlxn_dtype dtype, uint64_t seed, mlxn_buffer *buffer);

/* Runs encoders in turns, `reps` times each after twice for warming up (the second commit of a list may prepare the
 * later ones), and gives the median of each. */
mlxn_status bench_time(mlxn_encoder *const *encoders, size_t count, size_t reps, double *medians);

mlxn_status bench_measure(const bench_setting *setting, bench_result *result);
mlxn_status bench_measure_passes(const bench_setting *setting, bench_passes *passes);
mlxn_status bench_measure_overhead(const bench_setting *setting, bench_overhead *overhead);

/* Whether other ops give the op's gradients one each. */
bool bench_has_separate(const mlxn_op_info *op);

/* ---- output ---- */

/* These say what is wrong and return false if the file cannot be written; it is written whole or not at all. */
bool bench_write_json(const bench_report *report, const char *path);
bool bench_plot(const bench_report *report, const char *path);

/* Says so and returns false unless gnuplot is there. */
bool bench_can_plot(void);

#endif
