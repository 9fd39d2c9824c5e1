#include "job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "text.h"

#define MARGIN 24 /* elements after each argument */
#define MARGIN_BYTE 0xa5

void *tool_allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        tool_error("out of memory");
        exit(TOOL_FAILURE);
    }
    return memory;
}

bool tool_open_named(const char *name, size_t threads, tool_session *session) {
    *session = (tool_session){.info.size = sizeof session->info, .threads = threads};
    mlxn_device_options options = {.size = sizeof options, .threads = threads};
    if (mlxn_device_open(name, &options, &session->device) != MLXN_OK) {
        tool_error("%s (see mlxn devices)", mlxn_last_error());
        return false;
    }
    if (mlxn_encoder_create(session->device, NULL, &session->encoder) != MLXN_OK ||
        mlxn_device_get_info(session->device, &session->info) != MLXN_OK) {
        tool_error("%s", mlxn_last_error());
        tool_close(session);
        return false;
    }
    return true;
}

bool tool_open(const tool_arguments *arguments, tool_session *session) {
    return tool_open_named(arguments->device, arguments->threads, session);
}

void tool_close(tool_session *session) {
    mlxn_encoder_destroy(session->encoder);
    mlxn_device_destroy(session->device);
}

bool tool_select_ops(const tool_arguments *arguments, const mlxn_op_info **ops, size_t *count) {
    for (size_t i = 0; i < arguments->operand_count; i++) {
        if (!mlxn_op_find(arguments->operands[i])) {
            tool_error("unknown op '%s' (see mlxn ops)", arguments->operands[i]);
            return false;
        }
    }
    *count = 0;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        bool wanted = arguments->operand_count == 0;
        for (size_t k = 0; k < arguments->operand_count; k++) {
            wanted = wanted || strcmp(arguments->operands[k], op->name) == 0;
        }
        if (wanted) {
            ops[(*count)++] = op;
        }
    }
    return true;
}

size_t tool_argument_shape(const mlxn_argument *argument, const tool_extents *extents, int64_t shape[MLXN_MAX_RANK]) {
    size_t rank = 0;
    for (; rank < extents->batch_rank; rank++) {
        shape[rank] = extents->batch[rank];
    }
    for (const char *dim = argument->dims; *dim; dim++) {
        shape[rank++] = *dim == 'N' ? extents->n : extents->m;
    }
    return rank;
}

size_t tool_argument_count(const mlxn_argument *argument, const tool_extents *extents) {
    int64_t shape[MLXN_MAX_RANK];
    size_t rank = tool_argument_shape(argument, extents, shape), count = 1;
    for (size_t i = 0; i < rank; i++) {
        count *= (size_t)shape[i];
    }
    return count;
}

int tool_find_argument(const mlxn_op_info *op, const char *prefix, const char *name, size_t begin, size_t end) {
    size_t length = strlen(prefix);
    for (size_t i = begin; i < end; i++) {
        const char *text = op->arguments[i].name;
        if (strncmp(text, prefix, length) == 0 && strcmp(text + length, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

mlxn_status tool_job_create(mlxn_device *device, const mlxn_op_info *op, mlxn_dtype dtype, tool_extents extents,
                            size_t offset, tool_job *job) {
    *job = (tool_job){.op = op,
                      .dtype = dtype,
                      .extents = extents,
                      .batch = 1,
                      .argument_count = op->input_count + op->output_count,
                      .offset = offset};
    for (size_t i = 0; i < extents.batch_rank; i++) {
        job->batch *= extents.batch[i];
    }
    const size_t element = mlxn_dtype_size(dtype);
    mlxn_status status = MLXN_OK;
    for (size_t k = 0; k < job->argument_count && status == MLXN_OK; k++) {
        int64_t shape[MLXN_MAX_RANK];
        size_t rank = tool_argument_shape(&op->arguments[k], &extents, shape);
        job->counts[k] = tool_argument_count(&op->arguments[k], &extents);
        int64_t total = (int64_t)(offset + job->counts[k] + MARGIN);
        job->storage_bytes[k] = (size_t)total * element;
        job->storage[k] = tool_allocate((size_t)total, element);
        memset(job->storage[k], MARGIN_BYTE, job->storage_bytes[k]);
        job->arrays[k] = (char *)job->storage[k] + offset * element;
        memset(job->arrays[k], 0, job->counts[k] * element);
        status = mlxn_buffer_create(device, dtype, 1, &total, &job->storage_buffers[k]);
        if (status == MLXN_OK) {
            status = mlxn_buffer_view(job->storage_buffers[k], (int64_t)offset, rank, shape, &job->buffers[k]);
        }
    }
    if (status != MLXN_OK) {
        tool_job_destroy(job);
    }
    return status;
}

static bool filled_with_margin(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != MARGIN_BYTE) {
            return false;
        }
    }
    return true;
}

static bool margins_intact(const tool_job *job, size_t k) {
    const size_t element = mlxn_dtype_size(job->dtype), before = job->offset * element;
    const unsigned char *bytes = job->storage[k];
    return filled_with_margin(bytes, before) &&
           filled_with_margin(bytes + before + job->counts[k] * element, MARGIN * element);
}

mlxn_status tool_job_run(tool_job *job, mlxn_encoder *encoder, mlxn_mode mode, bool *intact) {
    mlxn_status status = mlxn_encoder_reset(encoder);
    for (size_t k = 0; k < job->argument_count && status == MLXN_OK; k++) {
        status = mlxn_buffer_write(job->storage_buffers[k], 0, job->storage_bytes[k], job->storage[k]);
    }
    if (status == MLXN_OK) {
        status = mlxn_encode(encoder, job->op->name, job->buffers, job->argument_count, mode);
    }
    if (status == MLXN_OK) {
        status = mlxn_encoder_commit_and_wait(encoder);
    }
    *intact = true;
    for (size_t k = job->op->input_count; k < job->argument_count && status == MLXN_OK; k++) {
        status = mlxn_buffer_read(job->storage_buffers[k], 0, job->storage_bytes[k], job->storage[k]);
        *intact = *intact && margins_intact(job, k);
    }
    return status;
}

void tool_job_reference(const tool_job *job, bool magnitudes, double *outputs[MLXN_MAX_ARGUMENTS]) {
    double *inputs[MLXN_MAX_ARGUMENTS];
    for (size_t k = 0; k < job->op->input_count; k++) {
        inputs[k] = tool_allocate(job->counts[k], sizeof(double));
        for (size_t i = 0; i < job->counts[k]; i++) {
            double value = tool_widen(job->dtype, tool_get(job->dtype, job->arrays[k], i));
            inputs[k][i] = magnitudes ? fabs(value) : value;
        }
    }
    for (size_t k = 0; k < job->op->output_count; k++) {
        outputs[k] = tool_allocate(job->counts[job->op->input_count + k], sizeof(double));
    }
    job->op->reference(job->batch, job->extents.n, job->extents.m, (const double *const *)inputs, outputs);
    for (size_t k = 0; k < job->op->input_count; k++) {
        free(inputs[k]);
    }
}

void tool_job_destroy(tool_job *job) {
    for (size_t k = 0; k < job->argument_count; k++) {
        mlxn_buffer_destroy(job->buffers[k]);
        mlxn_buffer_destroy(job->storage_buffers[k]);
        free(job->storage[k]);
    }
    *job = (tool_job){0};
}
