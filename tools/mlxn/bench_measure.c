/* Timing ops and limits. What is compared is timed in turns, so that a noisy machine is noisy for both. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "draw.h"
#include "text.h"

#define SAMPLE_BYTES 1e8      /* a sample repeats the op until this much is moved, */
#define SAMPLE_BYTES_GPU 8e10 /* on a graphics processor this much, which takes tens of milliseconds, */
#define MAX_REPEATS 4096.0    /* but no more often than this */
#define SMALL 64              /* elements of small work */
#define SINGLES 2000          /* ops, each waited for, in a sample of small work */
#define REPLAYED 1000         /* dispatches in the list that is replayed */

/* ---- jobs ---- */

static mlxn_status write_pattern(mlxn_buffer *buffer, const void *pattern, size_t piece) {
    const size_t bytes = mlxn_buffer_bytes(buffer);
    mlxn_status status = MLXN_OK;
    for (size_t at = 0; at < bytes && status == MLXN_OK; at += piece) {
        status = mlxn_buffer_write(buffer, at, bytes - at < piece ? bytes - at : piece, pattern);
    }
    return status;
}

/* Where the device runs source code it repeats the pattern itself. */
static mlxn_status spread_pattern(mlxn_device *device, mlxn_buffer *buffer, const void *pattern) {
    mlxn_buffer *units;
    mlxn_status status = mlxn_buffer_create(device, MLXN_U16, 1, (const int64_t[]){BENCH_PATTERN}, &units);
    if (status == MLXN_OK) {
        status = mlxn_buffer_write(units, 0, mlxn_buffer_bytes(units), pattern);
    }
    if (status == MLXN_OK) {
        status = bench_spread(device, units, buffer);
    }
    mlxn_buffer_destroy(units);
    return status;
}

mlxn_status bench_fill(const bench_setting *setting, mlxn_dtype dtype, uint64_t seed, mlxn_buffer *buffer) {
    const size_t piece = BENCH_PATTERN * mlxn_dtype_size(dtype);
    void *pattern = tool_allocate(piece, 1);
    tool_draw_near_one(dtype, seed, pattern, BENCH_PATTERN);
    const bool spreads = setting->kind == BENCH_SOURCES && mlxn_buffer_bytes(buffer) > piece;
    mlxn_status status =
        spreads ? spread_pattern(setting->session->device, buffer, pattern) : write_pattern(buffer, pattern, piece);
    free(pattern);
    return status;
}

static mlxn_status record_job(const mlxn_op_info *op, bench_job *job) {
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; i < job->repeats && status == MLXN_OK; i++) {
        status = mlxn_encode(job->encoder, op->name, job->buffers, op->input_count + op->output_count, MLXN_OVERWRITE);
    }
    return status;
}

static mlxn_status create_argument(const bench_setting *setting, mlxn_dtype dtype, size_t k, size_t offset, size_t rank,
                                   const int64_t *shape, size_t count, bench_job *job) {
    const int64_t total = (int64_t)(offset + count);
    mlxn_status status = mlxn_buffer_create(setting->session->device, dtype, 1, &total, &job->storage[k]);
    if (status == MLXN_OK) {
        status = mlxn_buffer_view(job->storage[k], (int64_t)offset, rank, shape, &job->buffers[k]);
    }
    return status == MLXN_OK ? bench_fill(setting, dtype, TOOL_SEED(k), job->buffers[k]) : status;
}

mlxn_status bench_job_create(const bench_setting *setting, const mlxn_op_info *op, mlxn_dtype dtype,
                             tool_extents extents, size_t offset, bench_job *job) {
    *job = (bench_job){0};
    mlxn_status status = mlxn_encoder_create(setting->session->device, NULL, &job->encoder);
    for (size_t k = 0; k < op->input_count + op->output_count && status == MLXN_OK; k++) {
        int64_t shape[MLXN_MAX_RANK];
        const size_t rank = tool_argument_shape(&op->arguments[k], &extents, shape);
        status = create_argument(setting, dtype, k, offset, rank, shape,
                                 tool_argument_count(&op->arguments[k], &extents), job);
        *(k < op->input_count ? &job->bytes_read : &job->bytes_written) += (double)mlxn_buffer_bytes(job->buffers[k]);
    }
    const double sample = setting->session->info.gpu ? SAMPLE_BYTES_GPU : SAMPLE_BYTES;
    const double repeats = sample / (job->bytes_read + job->bytes_written + 1);
    job->repeats = (size_t)(repeats < 1 ? 1 : repeats > MAX_REPEATS ? MAX_REPEATS : repeats);
    if (status == MLXN_OK) {
        status = record_job(op, job);
    }
    if (status != MLXN_OK) {
        bench_job_destroy(job);
    }
    return status;
}

void bench_job_destroy(bench_job *job) {
    mlxn_encoder_destroy(job->encoder);
    for (size_t k = 0; k < MLXN_MAX_ARGUMENTS; k++) {
        mlxn_buffer_destroy(job->buffers[k]);
        mlxn_buffer_destroy(job->storage[k]);
    }
    *job = (bench_job){0};
}

/* ---- medians ---- */

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

mlxn_status bench_time(mlxn_encoder *const *encoders, size_t count, size_t reps, double *medians) {
    double *times = tool_allocate(count * reps, sizeof *times);
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; i < 2 * count && status == MLXN_OK; i++) {
        status = mlxn_encoder_commit_and_wait(encoders[i / 2]);
    }
    for (size_t r = 0; r < reps && status == MLXN_OK; r++) {
        for (size_t i = 0; i < count && status == MLXN_OK; i++) {
            const double start = tool_seconds();
            status = mlxn_encoder_commit_and_wait(encoders[i]);
            times[i * reps + r] = tool_seconds() - start;
        }
    }
    for (size_t i = 0; i < count && status == MLXN_OK; i++) {
        medians[i] = median(times + i * reps, reps);
    }
    free(times);
    return status;
}

/* ---- an op beside its limit ---- */

static mlxn_status record_limit(const bench_setting *setting, const bench_result *result, size_t repeats,
                                mlxn_encoder **encoder) {
    mlxn_status status = mlxn_encoder_create(setting->session->device, NULL, encoder);
    for (size_t i = 0; i < repeats && status == MLXN_OK; i++) {
        status = bench_record_limit(*encoder, setting, result->limit, (size_t)result->bytes);
    }
    return status;
}

/* The limit of an op: that of its square shape, whose share of writes is the op's own and not the shape's. */
static bench_limit limit_of(const mlxn_op_info *op) {
    const tool_extents square = {1, {1, 1}, 4096, 4096};
    double read = 0, written = 0;
    for (size_t k = 0; k < op->input_count + op->output_count; k++) {
        *(k < op->input_count ? &read : &written) += (double)tool_argument_count(&op->arguments[k], &square);
    }
    return bench_limit_of(read, written);
}

mlxn_status bench_measure(const bench_setting *setting, bench_result *result) {
    bench_job job;
    mlxn_encoder *limit = NULL;
    mlxn_status status = bench_job_create(setting, result->op, result->dtype, result->extents, result->offset, &job);
    if (status != MLXN_OK) {
        return status;
    }
    result->bytes = job.bytes_read + job.bytes_written;
    result->has_limit = setting->kind != BENCH_NO_LIMITS;
    result->limit = limit_of(result->op);
    if (result->has_limit) {
        status = record_limit(setting, result, job.repeats, &limit);
    }
    double medians[2] = {0, 0};
    if (status == MLXN_OK) {
        status = bench_time((mlxn_encoder *[]){job.encoder, limit}, limit ? 2 : 1, setting->reps, medians);
    }
    result->seconds = medians[0] / (double)job.repeats;
    result->limit_seconds = medians[1] / (double)job.repeats;
    mlxn_encoder_destroy(limit);
    bench_job_destroy(&job);
    return status;
}

/* ---- one pass for all gradients beside one pass for each ---- */

/* Op `index` of the library, if it gives one of the several gradients that `all` gives. */
static const mlxn_op_info *separate(const mlxn_op_info *all, size_t index) {
    const mlxn_op_info *op = mlxn_op_at(index);
    if (!all->forward || all->output_count < 2 || !op->forward || strcmp(op->forward, all->forward) != 0 ||
        op->output_count != 1) {
        return NULL;
    }
    return op;
}

bool bench_has_separate(const mlxn_op_info *op) {
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        if (separate(op, i)) {
            return true;
        }
    }
    return false;
}

mlxn_status bench_measure_passes(const bench_setting *setting, bench_passes *passes) {
    bench_job jobs[1 + MLXN_MAX_ARGUMENTS];
    mlxn_encoder *encoders[1 + MLXN_MAX_ARGUMENTS];
    double medians[1 + MLXN_MAX_ARGUMENTS];
    size_t count = 0;
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; i <= mlxn_op_count() && count <= passes->op->output_count && status == MLXN_OK; i++) {
        const mlxn_op_info *op = i == 0 ? passes->op : separate(passes->op, i - 1);
        if (!op) {
            continue;
        }
        status = bench_job_create(setting, op, passes->dtype, passes->extents, 0, &jobs[count]);
        if (status == MLXN_OK) {
            encoders[count] = jobs[count].encoder;
            count++;
        }
    }
    if (status == MLXN_OK) {
        status = bench_time(encoders, count, setting->reps, medians);
    }
    for (size_t i = 0; i < count && status == MLXN_OK; i++) {
        *(i ? &passes->separate_seconds : &passes->seconds) += medians[i] / (double)jobs[i].repeats;
    }
    for (size_t i = 0; i < count; i++) {
        bench_job_destroy(&jobs[i]);
    }
    return status;
}

/* ---- small work ---- */

static mlxn_status time_singles(const bench_overhead *overhead, bench_job *job, double *seconds) {
    const size_t count = overhead->op->input_count + overhead->op->output_count;
    mlxn_status status = MLXN_OK;
    const double start = tool_seconds();
    for (size_t i = 0; i < SINGLES && status == MLXN_OK; i++) {
        mlxn_encoder_reset(job->encoder);
        mlxn_encode(job->encoder, overhead->op->name, job->buffers, count, MLXN_OVERWRITE);
        status = mlxn_encoder_commit_and_wait(job->encoder);
    }
    *seconds = (tool_seconds() - start) / SINGLES;
    return status;
}

/* The host's part of a list of small work that is recorded and committed once, and all of it when it is replayed, a
 * dispatch each. */
static mlxn_status time_list(const bench_overhead *overhead, bench_job *job, double *encoded, double *replayed) {
    mlxn_status status = mlxn_encoder_reset(job->encoder);
    job->repeats = REPLAYED;
    double start = tool_seconds();
    if (status == MLXN_OK) {
        status = record_job(overhead->op, job);
    }
    if (status == MLXN_OK) {
        status = mlxn_encoder_commit(job->encoder);
    }
    *encoded = (tool_seconds() - start) / REPLAYED;
    for (int i = 0; i < 3 && status == MLXN_OK; i++) { /* the second commit may prepare the later ones */
        status = mlxn_encoder_wait(job->encoder);
        start = tool_seconds();
        if (status == MLXN_OK) {
            status = mlxn_encoder_commit_and_wait(job->encoder);
        }
    }
    *replayed = (tool_seconds() - start) / REPLAYED;
    return status;
}

mlxn_status bench_measure_overhead(const bench_setting *setting, bench_overhead *overhead) {
    const tool_extents extents = {1, {SMALL, 1}, 1, 1};
    bench_job job;
    mlxn_status status = bench_job_create(setting, overhead->op, overhead->dtype, extents, 0, &job);
    if (status != MLXN_OK) {
        return status;
    }
    double *singles = tool_allocate(setting->reps, sizeof *singles);
    double *lists = tool_allocate(setting->reps, sizeof *lists);
    double *replays = tool_allocate(setting->reps, sizeof *replays);
    for (size_t r = 0; r < setting->reps && status == MLXN_OK; r++) {
        status = time_singles(overhead, &job, &singles[r]);
        if (status == MLXN_OK) {
            status = time_list(overhead, &job, &lists[r], &replays[r]);
        }
    }
    overhead->single_seconds = median(singles, setting->reps);
    overhead->encoded_seconds = median(lists, setting->reps);
    overhead->replayed_seconds = median(replays, setting->reps);
    free(singles);
    free(lists);
    free(replays);
    bench_job_destroy(&job);
    return status;
}
