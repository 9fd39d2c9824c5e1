/* mlxn bench: its parts. */
#ifndef MLXN_TOOL_BENCH_H
#define MLXN_TOOL_BENCH_H

#include "job.h"

/* ---- limits: what plain loops reach on the device ---- */

typedef enum bench_limit { LIMIT_READ, LIMIT_TRIAD, LIMIT_COPY, LIMIT_FILL, LIMIT_COUNT } bench_limit;

extern const char *const bench_limit_names[LIMIT_COUNT];

/* The limit of a job, by the share of writes in the bytes that it moves. */
bench_limit bench_limit_of(double bytes_read, double bytes_written);

/* Adds the loops to the device's registry. False on a device that takes no C functions: it has no limits here. */
bool bench_add_limits(mlxn_device *device);

/* Records a limit's loop over `bytes` bytes in all, in the memory of `pool` (bench_pool_bytes() of them). */
mlxn_status bench_record_limit(mlxn_encoder *encoder, bench_limit limit, mlxn_buffer *pool, size_t bytes);
size_t bench_pool_bytes(size_t bytes);

/* ---- results ---- */

typedef struct bench_result {
    const mlxn_op_info *op;
    mlxn_dtype dtype;
    tool_extents extents;
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
    double single_seconds, replayed_seconds;
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

/* "8192x8192" or an element count. Returns `text`. */
char *bench_extents_text(const mlxn_op_info *op, const tool_extents *extents, char text[48]);

/* ---- measuring ---- */

typedef struct bench_setting {
    const tool_arguments *arguments;
    tool_session *session;
    size_t reps;
    bool has_limits;
    mlxn_buffer *pool; /* memory of the limits' loops */
} bench_setting;

/* An op on buffers of a given size, recorded as often as makes a duration that can be timed. */
typedef struct bench_job {
    mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
    mlxn_encoder *encoder;
    size_t repeats;
    double bytes_read, bytes_written;
} bench_job;

mlxn_status bench_job_create(mlxn_device *device, const mlxn_op_info *op, mlxn_dtype dtype, tool_extents extents,
                             bench_job *job);
void bench_job_destroy(bench_job *job);

/* Runs encoders in turns, `reps` times each after once for warming up, and gives the median of each. */
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

/* Opens a file beside `path`; writes it to disk and renames it over `path`, or removes it. */
typedef struct bench_file {
    const char *path;
    char *temporary;
    FILE *stream;
} bench_file;
bool bench_file_open(const char *path, bench_file *file);
bool bench_file_close(bench_file *file, bool keep);

/* Says so and returns false if a file cannot be written at `path`, which may be NULL for none. */
bool bench_can_write(const char *path);

#endif
