#include "op_case.h"

#include <math.h>

#include "canonical.h"
#include "formula.h"
#include "placed.h"
#include "random.h"

uint64_t op_case_exact, op_case_within;

bool op_has(const mlxn_op_info *op, char extent) {
    for (size_t i = 0; i < op->input_count + op->output_count; i++)
        if (strchr(op->arguments[i].dims, extent) != NULL)
            return true;
    return false;
}

size_t op_case_shape(const op_case *c, size_t index, int64_t shape[MLXN_MAX_RANK]) {
    size_t rank = c->lead_rank;
    for (size_t i = 0; i < rank; i++)
        shape[i] = c->lead[i];
    for (const char *dim = c->op->arguments[index].dims; *dim != '\0'; dim++)
        shape[rank++] = *dim == 'N' ? c->n : c->m;
    return rank;
}

size_t op_case_count(const op_case *c, size_t index) {
    int64_t shape[MLXN_MAX_RANK];
    size_t count = 1;
    const size_t rank = op_case_shape(c, index, shape);
    for (size_t i = 0; i < rank; i++)
        count *= (size_t)shape[i];
    return count;
}

static int64_t batch_of(const op_case *c) {
    int64_t batch = 1;
    for (size_t i = 0; i < c->lead_rank; i++)
        batch *= c->lead[i];
    return batch;
}

const char *op_case_text(const op_case *c) {
    static char text[256];
    int length = snprintf(text, sizeof text, "%s %s%s [", c->op->name, mlxn_dtype_name(c->dtype),
                          c->mode == MLXN_ACCUMULATE ? " accumulate" : "");
    for (size_t i = 0; i < c->lead_rank; i++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, "%s%lld", i == 0 ? "" : ",", (long long)c->lead[i]);
    snprintf(text + length, sizeof text - (size_t)length, "]x(%lld,%lld)", (long long)c->n, (long long)c->m);
    return text;
}

static uint32_t draw(const op_case *c, uint64_t *state) {
    const mlxn_dtype dtype = c->dtype;
    if (c->values == OP_VALUES_UNIT)
        return half_narrow(dtype, random_unit(state));
    if (c->values == OP_VALUES_POSITIVE)
        return half_narrow(dtype, 1.25 + 0.75 * random_unit(state));
    const uint32_t mask = dtype == MLXN_F32 ? UINT32_MAX : UINT16_MAX;
    for (;;) {
        const uint32_t bits = (uint32_t)random_next(state) & mask;
        if (c->values == OP_VALUES_BITS || isfinite(half_widen(dtype, bits)))
            return bits;
    }
}

op_arrays op_arrays_draw(const op_case *c) {
    op_arrays a = {0};
    const size_t size = mlxn_dtype_size(c->dtype);
    for (size_t i = 0; i < op_case_arguments(c); i++) {
        uint64_t state = c->seed + i * UINT64_C(0x1000003);
        a.count[i] = op_case_count(c, i);
        a.array[i] = malloc(a.count[i] * size);
        assert_non_null(a.array[i]);
        for (size_t k = 0; k < a.count[i]; k++)
            half_set(c->dtype, a.array[i], k, draw(c, &state));
    }
    return a;
}

op_arrays op_arrays_create(const op_case *c) {
    op_arrays a = op_arrays_draw(c);
    op_arrays_update(c, &a);
    return a;
}

void op_arrays_update(const op_case *c, op_arrays *a) {
    double *inputs[MLXN_MAX_ARGUMENTS], *outputs[MLXN_MAX_ARGUMENTS];
    for (size_t i = 0; i < op_case_arguments(c); i++) {
        double *values = malloc(a->count[i] * sizeof *values);
        free(a->wide[i]);
        free(a->reference[i]);
        a->reference[i] = NULL;
        a->wide[i] = malloc(a->count[i] * sizeof *a->wide[i]);
        assert_non_null(values);
        assert_non_null(a->wide[i]);
        for (size_t k = 0; k < a->count[i]; k++) {
            a->wide[i][k] = half_widen(c->dtype, half_get(c->dtype, a->array[i], k));
            values[k] = (double)a->wide[i][k];
        }
        if (i < c->op->input_count)
            inputs[i] = values;
        else
            outputs[i - c->op->input_count] = a->reference[i] = values;
    }
    c->op->reference(batch_of(c), c->n, c->m, (const double *const *)inputs, outputs);
    for (size_t i = 0; i < c->op->input_count; i++)
        free(inputs[i]);
}

void op_arrays_destroy(op_arrays *a) {
    for (size_t i = 0; i < MLXN_MAX_ARGUMENTS; i++) {
        free(a->array[i]);
        free(a->reference[i]);
        free(a->wide[i]);
    }
    memset(a, 0, sizeof *a);
}

/* The f32 result of an op that is not elementwise, before it is narrowed, by the op's own definition. False for an op
 * this file does not know. */
static bool exact_value(const op_case *c, const op_arrays *a, size_t output, size_t element, float *result) {
    const char *name = c->op->name;
    const size_t n = (size_t)c->n, m = (size_t)c->m;
    float *const *in = a->wide;
    if (strcmp(name, "outer_product") == 0) {
        *result = in[0][element / m] * in[1][element / (n * m) * m + element % m];
        return true;
    }
    const bool both = strcmp(name, "outer_product_backward") == 0;
    if (strcmp(name, "outer_product_backward_lhs") == 0 || (both && output == 0)) {
        const float *rhs = in[both ? 2 : 1] + element / n * m;
        *result = canonical_row(in[0] + element * m, rhs, c->m);
        return true;
    }
    if (strcmp(name, "outer_product_backward_rhs") == 0 || both) {
        const size_t item = element / m, column = element % m;
        *result = canonical_column(in[0] + item * n * m + column, c->m, in[1] + item * n, c->n);
        return true;
    }
    return false;
}

static op_expected certain(uint32_t bits) {
    op_case_exact++;
    return (op_expected){bits, bits};
}

op_expected op_case_expected(const op_case *c, const op_arrays *a, size_t output, size_t element) {
    const size_t argument = c->op->input_count + output;
    const bool accumulate = c->mode == MLXN_ACCUMULATE;
    const float before = a->wide[argument][element];
    float value = 0;
    bool known = false;
    if (c->op->elementwise) {
        float inputs[MLXN_MAX_ARGUMENTS];
        for (size_t i = 0; i < c->op->input_count; i++)
            inputs[i] = a->wide[i][element];
        known = formula_evaluate(c->op, output, inputs, &value);
    } else {
        known = exact_value(c, a, output, element, &value);
    }
    if (known) {
        if (accumulate)
            value = before + value;
        return certain(half_narrow(c->dtype, (double)value));
    }
    const double reference = a->reference[argument][element];
    if (!isfinite(reference) && !accumulate)
        return certain(half_narrow(c->dtype, reference));
    if (c->op->elementwise && !accumulate && c->op->forward == NULL) {
        /* Correctly rounded; the reference itself may be off by an ulp or two of float64. */
        const double error = 4 * 0x1p-53 * fabs(reference);
        const op_expected e = {half_narrow(c->dtype, reference - error), half_narrow(c->dtype, reference + error)};
        if (e.bits == e.other)
            op_case_exact++;
        else
            op_case_within++;
        return e;
    }
    op_case_within++;
    const double s = accumulate ? (double)(before + (float)reference) : reference;
    const double error = 8 * 0x1p-24 * (fabs(reference) + (accumulate ? fabs((double)before) : 0)) + 0x1p-148;
    return (op_expected){half_narrow(c->dtype, s - error), half_narrow(c->dtype, s + error)};
}

/* Whether `got` is one of two values or between them. */
static bool accepts(mlxn_dtype dtype, op_expected e, uint32_t got) {
    if (got == e.bits || got == e.other)
        return true;
    if (e.bits == e.other || half_is_nan(dtype, got))
        return false;
    const float value = half_widen(dtype, got);
    return value > half_widen(dtype, e.bits) && value < half_widen(dtype, e.other);
}

static void compare(const op_case *c, const op_arrays *a, size_t output, const void *got) {
    for (size_t k = 0; k < a->count[c->op->input_count + output]; k++) {
        const op_expected expected = op_case_expected(c, a, output, k);
        const uint32_t bits = half_get(c->dtype, got, k);
        if (accepts(c->dtype, expected, bits))
            continue;
        test_fail(c->seed, "%s: %s[%zu] is 0x%x (%a), expected 0x%x (%a)", op_case_text(c),
                  c->op->arguments[c->op->input_count + output].name, k, bits, (double)half_widen(c->dtype, bits),
                  expected.bits, (double)half_widen(c->dtype, expected.bits));
    }
}

void op_case_check(mlxn_device *device, const op_case *c, op_arrays *a, const op_layout *layout) {
    placed p = placed_create(device, c, a, layout);
    mlxn_encoder *encoder = test_encoder(device);
    const mlxn_status status = mlxn_encode(encoder, c->op->name, p.buffer, p.count, c->mode);
    if (status != MLXN_OK)
        test_fail(c->seed, "%s: %s", op_case_text(c), mlxn_last_error());
    OK(mlxn_encoder_commit_and_wait(encoder));
    mlxn_encoder_destroy(encoder);
    placed_finish(&p);
    for (size_t i = 0; i < p.count; i++) {
        if (!placed_intact(&p, i))
            test_fail(c->seed, "%s: bytes beside %s were written", op_case_text(c), c->op->arguments[i].name);
        if (i >= c->op->input_count)
            compare(c, a, i - c->op->input_count, placed_result(&p, i));
        else if (memcmp(placed_result(&p, i), a->array[i], p.bytes[i]) != 0)
            test_fail(c->seed, "%s: input %s was written", op_case_text(c), c->op->arguments[i].name);
    }
    placed_destroy(&p);
}

void op_case_run(mlxn_device *device, const op_case *c) {
    op_arrays arrays = op_arrays_create(c);
    op_case_check(device, c, &arrays, &(op_layout){.place = GUARD_AT_END});
    op_arrays_destroy(&arrays);
}

void *op_case_outputs(mlxn_device *device, const op_case *c, const op_arrays *a, size_t *bytes) {
    const size_t arguments = op_case_arguments(c);
    mlxn_buffer *buffers[MLXN_MAX_ARGUMENTS];
    size_t total = 0;
    for (size_t i = 0; i < arguments; i++) {
        int64_t shape[MLXN_MAX_RANK];
        const size_t rank = op_case_shape(c, i, shape);
        buffers[i] = test_buffer(device, c->dtype, rank, shape);
        OK(mlxn_buffer_write(buffers[i], 0, mlxn_buffer_bytes(buffers[i]), a->array[i]));
        if (i >= c->op->input_count)
            total += mlxn_buffer_bytes(buffers[i]);
    }
    mlxn_encoder *encoder = test_encoder(device);
    OK(mlxn_encode(encoder, c->op->name, buffers, arguments, c->mode));
    OK(mlxn_encoder_commit_and_wait(encoder));
    mlxn_encoder_destroy(encoder);
    char *outputs = malloc(total);
    assert_non_null(outputs);
    *bytes = 0;
    for (size_t i = 0; i < arguments; i++) {
        if (i >= c->op->input_count) {
            OK(mlxn_buffer_read(buffers[i], 0, mlxn_buffer_bytes(buffers[i]), outputs + *bytes));
            *bytes += mlxn_buffer_bytes(buffers[i]);
        }
        mlxn_buffer_destroy(buffers[i]);
    }
    return outputs;
}
