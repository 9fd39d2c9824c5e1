/* What every op does before it records: its arguments are checked against its description. */
#include "core/op.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The name in messages: with the dtype once that is known, "exp_f32". */
typedef struct title {
    char text[64];
} title;

static title title_of(const mlxn_op_info *info, const mlxn_buffer *first) {
    title made;
    const bool computes = first != NULL && first->dtype <= MLXN_BF16;
    snprintf(made.text, sizeof made.text, computes ? "%s_%s" : "%s", info->name,
             computes ? mlxn_dtype_name(first->dtype) : "");
    return made;
}

/* The extents that the arguments so far have fixed; -1 = not yet. */
typedef struct extents {
    size_t lead_rank;
    const int64_t *lead;
    int64_t n, m;
} extents;

static int64_t *extent(extents *known, char letter) {
    return letter == 'N' ? &known->n : &known->m;
}

/* What shape an argument should have, with letters for extents that it fixes itself: "[4,M]". */
static const char *expected_text(char text[MLXN_SHAPE_TEXT], extents *known, const char *dims) {
    char *at = text;
    *at++ = '[';
    for (size_t i = 0; i < known->lead_rank; i++) {
        at += sprintf(at, i > 0 ? ",%" PRId64 : "%" PRId64, known->lead[i]);
    }
    for (size_t i = 0; dims[i] != '\0'; i++) {
        if (i + known->lead_rank > 0) {
            *at++ = ',';
        }
        const int64_t value = *extent(known, dims[i]);
        at += value >= 0 ? sprintf(at, "%" PRId64, value) : sprintf(at, "%c", dims[i]);
    }
    strcpy(at, "]");
    return text;
}

static mlxn_status check_shape(const mlxn_op_info *info, size_t index, const mlxn_buffer *argument, extents *known) {
    const char *dims = info->arguments[index].dims;
    const char *name = info->arguments[index].name;
    const size_t trailing = strlen(dims);
    char came[MLXN_SHAPE_TEXT];
    if (index == 0) {
        if (argument->rank < trailing) {
            return mlxn_fail(MLXN_SHAPE_MISMATCH, "%s: %s has shape %s, expected a rank of at least %zu",
                             title_of(info, argument).text, name,
                             mlxn_shape_text(came, argument->rank, argument->shape), trailing);
        }
        known->lead_rank = argument->rank - trailing;
        known->lead = argument->shape;
    }
    bool fits =
        argument->rank == known->lead_rank + trailing &&
        (known->lead_rank == 0 || memcmp(argument->shape, known->lead, known->lead_rank * sizeof *known->lead) == 0);
    const extents before = *known;
    for (size_t i = 0; fits && dims[i] != '\0'; i++) {
        const int64_t value = argument->shape[known->lead_rank + i];
        int64_t *fixed = extent(known, dims[i]);
        fits = *fixed < 0 || *fixed == value;
        *fixed = fits ? value : *fixed;
    }
    if (!fits) {
        *known = before;
        char expected[MLXN_SHAPE_TEXT];
        return mlxn_fail(MLXN_SHAPE_MISMATCH, "%s: %s has shape %s, expected %s", title_of(info, argument).text, name,
                         mlxn_shape_text(came, argument->rank, argument->shape), expected_text(expected, known, dims));
    }
    if (argument->count == 0) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s has shape %s, expected extents of at least 1",
                         title_of(info, argument).text, name, mlxn_shape_text(came, argument->rank, argument->shape));
    }
    return MLXN_OK;
}

static mlxn_status check_dtype(const mlxn_op_info *info, size_t index, const mlxn_buffer *first,
                               const mlxn_buffer *argument) {
    if (index == 0 && argument->dtype > MLXN_BF16) {
        return mlxn_fail(MLXN_UNSUPPORTED, "%s: %s is %s, expected f32, f16 or bf16", info->name,
                         info->arguments[index].name, mlxn_dtype_name(argument->dtype));
    }
    if (argument->dtype != first->dtype) {
        return mlxn_fail(MLXN_DTYPE_MISMATCH, "%s: %s is %s, expected %s like %s", title_of(info, first).text,
                         info->arguments[index].name, mlxn_dtype_name(argument->dtype), mlxn_dtype_name(first->dtype),
                         info->arguments[0].name);
    }
    return MLXN_OK;
}

/* Checks `count` arguments, the inputs first, each on its own. */
static mlxn_status check_arguments(const mlxn_op_info *info, const mlxn_buffer *const *arguments, size_t count,
                                   const mlxn_device *device, extents *known) {
    *known = (extents){.n = -1, .m = -1};
    for (size_t i = 0; i < count; i++) {
        if (arguments[i] == NULL) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s is NULL", title_of(info, arguments[0]).text,
                             info->arguments[i].name);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (device != NULL && arguments[i]->storage->device != device) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s is on another device than the encoder",
                             title_of(info, arguments[0]).text, info->arguments[i].name);
        }
        mlxn_status status = check_dtype(info, i, arguments[0], arguments[i]);
        if (status == MLXN_OK) {
            status = check_shape(info, i, arguments[i], known);
        }
        if (status != MLXN_OK) {
            return status;
        }
    }
    return MLXN_OK;
}

static mlxn_status check_outputs(const mlxn_op *op, mlxn_buffer *const *arguments, mlxn_mode mode) {
    const mlxn_op_info *info = &op->info;
    const size_t count = info->input_count + info->output_count;
    for (size_t i = info->input_count; i < count; i++) {
        const mlxn_buffer *output = arguments[i];
        if (output->storage->read_only) {
            return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s is read-only, expected memory to write to",
                             title_of(info, arguments[0]).text, info->arguments[i].name);
        }
        for (size_t j = 0; j < i; j++) {
            const mlxn_buffer *other = arguments[j];
            const mlxn_slice written = mlxn_slice_of(output, MLXN_WRITE), also = mlxn_slice_of(other, MLXN_READ);
            if (!mlxn_slices_overlap(&written, &also)) {
                continue;
            }
            const bool exact = mlxn_slice_begin(&written) == mlxn_slice_begin(&also) && j < info->input_count;
            if (!exact || !op->exact_alias || mode != MLXN_OVERWRITE) {
                return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: %s overlaps %s in memory%s",
                                 title_of(info, arguments[0]).text, info->arguments[i].name, info->arguments[j].name,
                                 exact && op->exact_alias ? ", which accumulating does not allow" : "");
            }
        }
    }
    return MLXN_OK;
}

static mlxn_status check_mode(const mlxn_op_info *info, mlxn_mode mode) {
    if (mode == MLXN_OVERWRITE || (mode == MLXN_ACCUMULATE && info->accumulates)) {
        return MLXN_OK;
    }
    return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: mode is %d, expected %s", info->name, (int)mode,
                     info->accumulates ? "MLXN_OVERWRITE or MLXN_ACCUMULATE" : "MLXN_OVERWRITE");
}

static mlxn_status check_and_record(mlxn_encoder *encoder, const mlxn_op *op, mlxn_buffer *const *arguments,
                                    mlxn_mode mode) {
    const mlxn_op_info *info = &op->info;
    extents known;
    mlxn_status status = check_mode(info, mode);
    if (status == MLXN_OK) {
        status = check_arguments(info, (const mlxn_buffer *const *)arguments, info->input_count + info->output_count,
                                 mlxn_encoder_device(encoder), &known);
    }
    if (status == MLXN_OK) {
        status = check_outputs(op, arguments, mode);
    }
    if (status != MLXN_OK) {
        return status;
    }
    mlxn_op_call call = {.encoder = encoder,
                         .arguments = arguments,
                         .dtype = arguments[0]->dtype,
                         .mode = mode,
                         .local_bytes = mlxn_encoder_device(encoder)->local_bytes,
                         .batch = 1,
                         .n = known.n < 0 ? 1 : known.n,
                         .m = known.m < 0 ? 1 : known.m};
    for (size_t i = 0; i < known.lead_rank; i++) {
        call.batch *= known.lead[i];
    }
    const size_t before = mlxn_encoder_dispatches(encoder);
    status = op->record(op, &call);
    if (status != MLXN_OK) {
        mlxn_encoder_rewind(encoder, before);
    }
    return status;
}

mlxn_status mlxn_op_record(mlxn_encoder *encoder, const mlxn_op *op, mlxn_buffer *const *arguments, mlxn_mode mode) {
    if (encoder == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: encoder is NULL", op->info.name);
    }
    mlxn_status status = mlxn_encoder_open_for(encoder, op->info.name);
    if (status != MLXN_OK) {
        return status;
    }
    status = check_and_record(encoder, op, arguments, mode);
    return status == MLXN_OK ? MLXN_OK : mlxn_encoder_fail(encoder, status);
}

mlxn_status mlxn_op_add_gpu_kernels(mlxn_device *device) {
    for (size_t i = 0; i < mlxn_family_count; i++) {
        const mlxn_gpu_kernels *kernels = mlxn_families[i]->gpu;
        for (size_t k = 0; k < kernels->count; k++) {
            const mlxn_kernel kernel = {.name = kernels->list[k].name, .text = kernels->list[k].text};
            const mlxn_status status = mlxn_registry_add_built_in(device, &kernel);
            if (status != MLXN_OK) {
                return status;
            }
        }
    }
    return MLXN_OK;
}

/* ---- ops by name -------------------------------------------------------------------------------- */

size_t mlxn_op_count(void) {
    size_t count = 0;
    for (size_t i = 0; i < mlxn_family_count; i++) {
        count += mlxn_families[i]->op_count;
    }
    return count;
}

static const mlxn_op *op_at(size_t index) {
    for (size_t i = 0; i < mlxn_family_count; i++) {
        if (index < mlxn_families[i]->op_count) {
            return &mlxn_families[i]->ops[index];
        }
        index -= mlxn_families[i]->op_count;
    }
    return NULL;
}

static const mlxn_op *find_op(const char *name) {
    const mlxn_op *op = NULL;
    for (size_t i = 0; (op = op_at(i)) != NULL && strcmp(op->info.name, name) != 0; i++) {
    }
    return op;
}

const mlxn_op_info *mlxn_op_at(size_t index) {
    const mlxn_op *op = op_at(index);
    return op != NULL ? &op->info : NULL;
}

const mlxn_op_info *mlxn_op_find(const char *name) {
    const mlxn_op *op = name != NULL ? find_op(name) : NULL;
    return op != NULL ? &op->info : NULL;
}

mlxn_status mlxn_op_output_shape(const char *op, const mlxn_buffer *const *inputs, size_t input_count, size_t index,
                                 size_t *rank, int64_t *shape) {
    if (op == NULL || inputs == NULL || rank == NULL || shape == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_op_output_shape: %s is NULL",
                         op == NULL       ? "op"
                         : inputs == NULL ? "inputs"
                         : rank == NULL   ? "rank"
                                          : "shape");
    }
    const mlxn_op_info *info = mlxn_op_find(op);
    if (info == NULL) {
        return mlxn_fail(MLXN_NOT_FOUND, "mlxn_op_output_shape: there is no op \"%.40s\"", op);
    }
    if (input_count != info->input_count || index >= info->output_count) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT,
                         "%s: it has %zu inputs and %zu outputs, asked for output %zu of %zu inputs", info->name,
                         info->input_count, info->output_count, index, input_count);
    }
    extents known;
    const mlxn_status status = check_arguments(info, inputs, input_count, NULL, &known);
    if (status != MLXN_OK) {
        return status;
    }
    const char *dims = info->arguments[info->input_count + index].dims;
    if (known.lead_rank + strlen(dims) > MLXN_MAX_RANK) {
        return mlxn_fail(MLXN_SHAPE_MISMATCH, "%s: %s would have rank %zu, expected at most %d", info->name,
                         info->arguments[info->input_count + index].name, known.lead_rank + strlen(dims),
                         MLXN_MAX_RANK);
    }
    *rank = known.lead_rank + strlen(dims);
    for (size_t i = 0; i < *rank; i++) {
        shape[i] = i < known.lead_rank ? known.lead[i] : *extent(&known, dims[i - known.lead_rank]);
    }
    return MLXN_OK;
}

mlxn_status mlxn_encode(mlxn_encoder *encoder, const char *op, mlxn_buffer *const *arguments, size_t count,
                        mlxn_mode mode) {
    if (encoder == NULL) {
        return mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encode: encoder is NULL");
    }
    mlxn_status status = mlxn_encoder_open_for(encoder, "mlxn_encode");
    if (status != MLXN_OK) {
        return status;
    }
    if (op == NULL || arguments == NULL) {
        status = mlxn_fail(MLXN_INVALID_ARGUMENT, "mlxn_encode: %s is NULL", op == NULL ? "op" : "arguments");
        return mlxn_encoder_fail(encoder, status);
    }
    const mlxn_op *found = find_op(op);
    if (found == NULL) {
        return mlxn_encoder_fail(encoder, mlxn_fail(MLXN_NOT_FOUND, "mlxn_encode: there is no op \"%.40s\"", op));
    }
    const size_t expected = found->info.input_count + found->info.output_count;
    if (count != expected) {
        status = mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: it takes %zu arguments, got %zu", op, expected, count);
        return mlxn_encoder_fail(encoder, status);
    }
    return mlxn_op_record(encoder, found, arguments, mode);
}
