/* Timing ops and limits. What is compared is timed in turns, so that a noisy machine is noisy for both. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "draw.h"
#include "text.h"

#define SAMPLE_BYTES 1e8   /* a sample repeats the op until this much is moved, */
#define MAX_REPEATS 4096.0 /* but no more often than this */
#define PATTERN 65536      /* elements of the inputs' pattern, which repeats */
#define SMALL 64           /* elements of small work */
#define SINGLES 2000       /* ops, each waited for, in a sample of small work */
#define REPLAYED 1000      /* dispatches in the list that is replayed */

/* ---- jobs ---- */

/* Fills a buffer with ordinary numbers, which take no special path. */
static mlxn_status fill(mlxn_buffer *buffer, uint64_t seed) {
    const mlxn_dtype dtype = mlxn_buffer_dtype(buffer);
    const size_t bytes = mlxn_buffer_bytes(buffer), piece = PATTERN * mlxn_dtype_size(dtype);
    void *pattern = tool_allocate(piece, 1);
    tool_draw_near_one(dtype, seed, pattern, PATTERN);
    mlxn_status status = MLXN_OK;
    for (size_t at = 0; at < bytes && status == MLXN_OK; at += piece) {
        status = mlxn_buffer_write(buffer, at, bytes - at < piece ? bytes - at : piece, pattern);
    }
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

mlxn_status bench_job_create(mlxn_device *device, const mlxn_op_info *op, mlxn_dtype dtype, tool_extents extents,
                             bench_job *job) {
    *job = (bench_job){0};
    mlxn_status status = mlxn_encoder_create(device, NULL, &job->encoder);
    for (size_t k = 0; k < op->input_count + op->output_count && status == MLXN_OK; k++) {
        int64_t shape[MLXN_MAX_RANK];
        size_t rank = tool_argument_shape(&op->arguments[k], &extents, shape);
        status = mlxn_buffer_create(device, dtype, rank, shape, &job->buffers[k]);
        *(k < op->input_count ? &job->bytes_read : &job->bytes_written) += (double)mlxn_buffer_bytes(job->buffers[k]);
        if (status == MLXN_OK) {
            status = fill(job->buffers[k], TOOL_SEED(k));
        }
    }
    double repeats = SAMPLE_BYTES / (job->bytes_read + job->bytes_written + 1);
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
    for (size_t i = 0; i < count && status == MLXN_OK; i++) {
        status = mlxn_encoder_commit_and_wait(encoders[i]);
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
        status = bench_record_limit(*encoder, result->limit, setting->pool, (size_t)result->bytes);
    }
    return status;
}

mlxn_status bench_measure(const bench_setting *setting, bench_result *result) {
    bench_job job;
    mlxn_encoder *limit = NULL;
    mlxn_status status = bench_job_create(setting->session->device, result->op, result->dtype, result->extents, &job);
    if (status != MLXN_OK) {
        return status;
    }
    result->bytes = job.bytes_read + job.bytes_written;
    result->has_limit = setting->has_limits;
    result->limit = bench_limit_of(job.bytes_read, job.bytes_written);
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
        status = bench_job_create(setting->session->device, op, passes->dtype, passes->extents, &jobs[count]);
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

static mlxn_status time_replay(const bench_overhead *overhead, bench_job *job, double *seconds) {
    mlxn_status status = mlxn_encoder_reset(job->encoder);
    job->repeats = REPLAYED;
    if (status == MLXN_OK) {
        status = record_job(overhead->op, job);
    }
    if (status == MLXN_OK) {
        status = mlxn_encoder_commit_and_wait(job->encoder);
    }
    const double start = tool_seconds();
    if (status == MLXN_OK) {
        status = mlxn_encoder_commit_and_wait(job->encoder);
    }
    *seconds = (tool_seconds() - start) / REPLAYED;
    return status;
}

mlxn_status bench_measure_overhead(const bench_setting *setting, bench_overhead *overhead) {
    const tool_extents extents = {1, {SMALL, 1}, 1, 1};
    bench_job job;
    mlxn_status status = bench_job_create(setting->session->device, overhead->op, overhead->dtype, extents, &job);
    if (status != MLXN_OK) {
        return status;
    }
    double *singles = tool_allocate(setting->reps, sizeof *singles);
    double *replays = tool_allocate(setting->reps, sizeof *replays);
    for (size_t r = 0; r < setting->reps && status == MLXN_OK; r++) {
        status = time_singles(overhead, &job, &singles[r]);
        if (status == MLXN_OK) {
            status = time_replay(overhead, &job, &replays[r]);
        }
    }
    overhead->single_seconds = median(singles, setting->reps);
    overhead->replayed_seconds = median(replays, setting->reps);
    free(singles);
    free(replays);
    bench_job_destroy(&job);
    return status;
}
