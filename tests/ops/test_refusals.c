/* What every op refuses, argument by argument: the status, the words, nothing written, and an encoder that stays failed
 * until it is reset. An op added to ops.def is tested here without an edit. */
#include "support/op_case.h"

static mlxn_device *device, *other_device;

static int open_devices(void **state) {
    (void)state;
    device = test_device(0);
    other_device = test_device(1);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    mlxn_device_destroy(device);
    mlxn_device_destroy(other_device);
    return 0;
}

enum { SENTINEL = 0x5a };

/* A well-formed call, of which a test replaces one argument. */
typedef struct call {
    op_case c;
    size_t arguments;
    mlxn_buffer *buffer[MLXN_MAX_ARGUMENTS];
} call;

static mlxn_buffer *with_sentinels(mlxn_device *where, mlxn_dtype dtype, size_t rank, const int64_t *shape) {
    mlxn_buffer *buffer = test_buffer(where, dtype, rank, shape);
    unsigned char data[1024];
    assert_true(mlxn_buffer_bytes(buffer) <= sizeof data);
    memset(data, SENTINEL, sizeof data);
    test_write(buffer, data);
    return buffer;
}

static call call_create(const mlxn_op_info *op, mlxn_dtype dtype) {
    call made = {.c = {.op = op,
                       .dtype = dtype,
                       .lead_rank = 1,
                       .lead = {2},
                       .n = op->elementwise ? 1 : 8,
                       .m = op->elementwise ? 1 : 5}};
    if (op->elementwise) {
        made.c.lead_rank = 2;
        made.c.lead[0] = 8;
        made.c.lead[1] = 5;
    }
    made.arguments = op_case_arguments(&made.c);
    for (size_t k = 0; k < made.arguments; k++) {
        int64_t shape[MLXN_MAX_RANK];
        const size_t rank = op_case_shape(&made.c, k, shape);
        made.buffer[k] = with_sentinels(device, dtype, rank, shape);
    }
    return made;
}

static void assert_untouched(const mlxn_buffer *buffer) {
    unsigned char *data = test_contents(buffer);
    for (size_t i = 0; i < mlxn_buffer_bytes(buffer); i++)
        if (data[i] != SENTINEL)
            fail_msg("byte %zu was written by a refused call", i);
    free(data);
}

static void call_destroy(call *made) {
    for (size_t k = 0; k < made->arguments; k++)
        mlxn_buffer_destroy(made->buffer[k]);
}

/* The call with `replaced` in place of argument `index` is refused with the status and the exact text. */
static void refuses(call *made, size_t index, mlxn_buffer *replaced, mlxn_mode mode, mlxn_status status,
                    const char *text) {
    mlxn_buffer *arguments[MLXN_MAX_ARGUMENTS];
    memcpy(arguments, made->buffer, sizeof arguments);
    arguments[index] = replaced;
    mlxn_encoder *encoder = test_encoder(device);
    const mlxn_status got = mlxn_encode(encoder, made->c.op->name, arguments, made->arguments, mode);
    if (got != status || strcmp(mlxn_last_error(), text) != 0)
        fail_msg("status \"%s\", expected \"%s\"\n  says      \"%s\"\n  should be \"%s\"", mlxn_status_text(got),
                 mlxn_status_text(status), mlxn_last_error(), text);
    assert_string_equal(mlxn_encoder_message(encoder), text);
    assert_int_equal(mlxn_encoder_dispatches(encoder), 0);
    /* A right call does not clear the failure, and commit does nothing. */
    assert_int_equal(mlxn_encode(encoder, made->c.op->name, made->buffer, made->arguments, MLXN_OVERWRITE), status);
    assert_int_equal(mlxn_encoder_commit(encoder), status);
    assert_string_equal(mlxn_last_error(), text);
    assert_int_equal(mlxn_encoder_dispatches(encoder), 0);
    for (size_t k = 0; k < made->arguments; k++)
        assert_untouched(made->buffer[k]);
    if (replaced != NULL)
        assert_untouched(replaced);
    mlxn_encoder_destroy(encoder);
}

typedef void (*argument_test)(call *made, size_t index, const char *kernel, const char *name);

static void for_every_argument(argument_test test) {
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (!test_wants_op(op->name))
            continue;
        for (mlxn_dtype dtype = MLXN_F32; dtype <= MLXN_BF16; dtype = (mlxn_dtype)(dtype + 1)) {
            call made = call_create(op, dtype);
            char kernel[64];
            snprintf(kernel, sizeof kernel, "%s_%s", op->name, mlxn_dtype_name(dtype));
            for (size_t k = 0; k < made.arguments; k++)
                test(&made, k, kernel, op->arguments[k].name);
            call_destroy(&made);
        }
    }
}

static void refuses_text(call *made, size_t index, mlxn_buffer *replaced, mlxn_mode mode, mlxn_status status,
                         const char *kernel, const char *format, ...) {
    char rest[256], text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(rest, sizeof rest, format, list);
    va_end(list);
    snprintf(text, sizeof text, "%s: %s", kernel, rest);
    refuses(made, index, replaced, mode, status, text);
}

static void null_argument(call *made, size_t index, const char *kernel, const char *name) {
    refuses_text(made, index, NULL, MLXN_OVERWRITE, MLXN_INVALID_ARGUMENT, index == 0 ? made->c.op->name : kernel,
                 "%s is NULL", name);
}

static void null_is_refused(void **state) {
    (void)state;
    for_every_argument(null_argument);
}

static const char *shape_text(char *text, size_t rank, const int64_t *shape) {
    size_t length = 0;
    text[length++] = '[';
    for (size_t i = 0; i < rank; i++)
        length += (size_t)sprintf(text + length, i > 0 ? ",%lld" : "%lld", (long long)shape[i]);
    strcpy(text + length, "]");
    return text;
}

/* A shape in place of argument `index`'s; the first argument fixes extents, so there the fault is found at the next. */
static void wrong_shape(call *made, size_t index, const char *kernel, const char *name, size_t rank,
                        const int64_t *shape) {
    int64_t right[MLXN_MAX_RANK];
    const size_t right_rank = op_case_shape(&made->c, index, right);
    char came[256], expected[256];
    mlxn_buffer *wrong = with_sentinels(device, made->c.dtype, rank, shape);
    refuses_text(made, index, wrong, MLXN_OVERWRITE, MLXN_SHAPE_MISMATCH, kernel, "%s has shape %s, expected %s", name,
                 shape_text(came, rank, shape), shape_text(expected, right_rank, right));
    mlxn_buffer_destroy(wrong);
}

/* Whether all trailing extents of the argument are fixed by those before it, so that the message can name them. */
static bool is_fixed(const mlxn_op_info *op, size_t index) {
    if (index == 0)
        return false;
    for (const char *dim = op->arguments[index].dims; *dim != '\0'; dim++) {
        bool found = false;
        for (size_t k = 0; k < index; k++)
            found = found || strchr(op->arguments[k].dims, *dim) != NULL;
        if (!found)
            return false;
    }
    return true;
}

static void shapes_of_argument(call *made, size_t index, const char *kernel, const char *name) {
    if (!is_fixed(made->c.op, index))
        return;
    int64_t shape[MLXN_MAX_RANK];
    const size_t rank = op_case_shape(&made->c, index, shape);
    for (size_t i = 0; i < rank; i++) {
        shape[i]++;
        wrong_shape(made, index, kernel, name, rank, shape);
        shape[i] -= 2;
        wrong_shape(made, index, kernel, name, rank, shape);
        shape[i]++;
    }
    if (rank >= 2 && shape[rank - 1] != shape[rank - 2]) { /* the same count, transposed */
        const int64_t last = shape[rank - 1];
        shape[rank - 1] = shape[rank - 2];
        shape[rank - 2] = last;
        wrong_shape(made, index, kernel, name, rank, shape);
        shape[rank - 2] = shape[rank - 1];
        shape[rank - 1] = last;
    }
    wrong_shape(made, index, kernel, name, 0, NULL);
    wrong_shape(made, index, kernel, name, 1, (const int64_t[]){(int64_t)op_case_count(&made->c, index)});
    shape[rank] = 1; /* the same count again */
    wrong_shape(made, index, kernel, name, rank + 1, shape);
}

static void wrong_shapes_are_refused(void **state) {
    (void)state;
    for_every_argument(shapes_of_argument);
}

/* The first argument fixes the extents: the next one that has them is at fault. */
static void first_argument_fixes_extents(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        call made = call_create(mlxn_op_at(i), MLXN_F32);
        int64_t shape[MLXN_MAX_RANK];
        const size_t rank = op_case_shape(&made.c, 0, shape);
        shape[rank - 1]++;
        mlxn_buffer *wrong = with_sentinels(device, MLXN_F32, rank, shape);
        mlxn_buffer *arguments[MLXN_MAX_ARGUMENTS];
        memcpy(arguments, made.buffer, sizeof arguments);
        arguments[0] = wrong;
        mlxn_encoder *encoder = test_encoder(device);
        FAILS_WITH(MLXN_SHAPE_MISMATCH,
                   "_f32: ", mlxn_encode(encoder, made.c.op->name, arguments, made.arguments, MLXN_OVERWRITE));
        assert_non_null(strstr(mlxn_last_error(), ", expected ["));
        mlxn_encoder_destroy(encoder);
        mlxn_buffer_destroy(wrong);
        call_destroy(&made);
    }
}

/* Too few extents for the op's own, where there is no argument before it to name them. */
static void too_low_a_rank_is_refused(void **state) {
    (void)state;
    mlxn_buffer *scalar = test_buffer(device, MLXN_F32, 0, NULL), *vector = test_vector(device, MLXN_F32, 3);
    mlxn_buffer *matrix = test_matrix(device, MLXN_F32, 3, 3);
    mlxn_encoder *encoder = test_encoder(device);
    FAILS_WITH(MLXN_SHAPE_MISMATCH, "outer_product_f32: lhs has shape [], expected ",
               mlxn_outer_product(encoder, scalar, vector, matrix));
    OK(mlxn_encoder_reset(encoder));
    FAILS_WITH(MLXN_SHAPE_MISMATCH, "outer_product_f32: rhs has shape [], expected [M]",
               mlxn_outer_product(encoder, vector, scalar, matrix));
    OK(mlxn_encoder_reset(encoder));
    FAILS_WITH(MLXN_SHAPE_MISMATCH, "outer_product_backward_lhs_f32: dy has shape [3], expected ",
               mlxn_outer_product_backward_lhs(encoder, vector, vector, vector, MLXN_OVERWRITE));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(scalar);
    mlxn_buffer_destroy(vector);
    mlxn_buffer_destroy(matrix);
}

/* lhs of rank 8 would need an output of rank 9. */
static void too_high_a_rank_is_refused(void **state) {
    (void)state;
    const int64_t shape[MLXN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 3};
    mlxn_buffer *lhs = test_buffer(device, MLXN_F32, 8, shape), *y = test_buffer(device, MLXN_F32, 8, shape);
    mlxn_encoder *encoder = test_encoder(device);
    FAILS(MLXN_SHAPE_MISMATCH, mlxn_outer_product(encoder, lhs, lhs, y));
    size_t rank = 77;
    int64_t out[MLXN_MAX_RANK];
    FAILS(MLXN_SHAPE_MISMATCH,
          mlxn_op_output_shape("outer_product", (const mlxn_buffer *const[]){lhs, lhs}, 2, 0, &rank, out));
    assert_int_equal(rank, 77);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(lhs);
    mlxn_buffer_destroy(y);
}

static void dtypes_of_argument(call *made, size_t index, const char *kernel, const char *name) {
    int64_t shape[MLXN_MAX_RANK];
    const size_t rank = op_case_shape(&made->c, index, shape);
    for (mlxn_dtype dtype = MLXN_F32; dtype <= MLXN_I64; dtype = (mlxn_dtype)(dtype + 1)) {
        if (dtype == made->c.dtype || (index == 0 && dtype <= MLXN_BF16))
            continue;
        mlxn_buffer *wrong = with_sentinels(device, dtype, rank, shape);
        if (index == 0)
            refuses_text(made, index, wrong, MLXN_OVERWRITE, MLXN_UNSUPPORTED, made->c.op->name,
                         "%s is %s, expected f32, f16 or bf16", name, mlxn_dtype_name(dtype));
        else
            refuses_text(made, index, wrong, MLXN_OVERWRITE, MLXN_DTYPE_MISMATCH, kernel,
                         "%s is %s, expected %s like %s", name, mlxn_dtype_name(dtype), mlxn_dtype_name(made->c.dtype),
                         made->c.op->arguments[0].name);
        mlxn_buffer_destroy(wrong);
    }
}

static void wrong_dtypes_are_refused(void **state) {
    (void)state;
    for_every_argument(dtypes_of_argument);
}

static void empty_argument(call *made, size_t index, const char *kernel, const char *name) {
    if (index != 0)
        return;
    int64_t shape[MLXN_MAX_RANK];
    char came[256];
    const size_t rank = op_case_shape(&made->c, index, shape);
    for (size_t i = 0; i < rank; i++) {
        const int64_t kept = shape[i];
        shape[i] = 0;
        mlxn_buffer *empty = test_buffer(device, made->c.dtype, rank, shape);
        refuses_text(made, index, empty, MLXN_OVERWRITE, MLXN_INVALID_ARGUMENT, kernel,
                     "%s has shape %s, expected extents of at least 1", name, shape_text(came, rank, shape));
        mlxn_buffer_destroy(empty);
        shape[i] = kept;
    }
}

static void extent_zero_is_refused(void **state) {
    (void)state;
    for_every_argument(empty_argument);
}

static void foreign_argument(call *made, size_t index, const char *kernel, const char *name) {
    int64_t shape[MLXN_MAX_RANK];
    const size_t rank = op_case_shape(&made->c, index, shape);
    mlxn_buffer *foreign = with_sentinels(other_device, made->c.dtype, rank, shape);
    refuses_text(made, index, foreign, MLXN_OVERWRITE, MLXN_INVALID_ARGUMENT, kernel,
                 "%s is on another device than the encoder", name);
    mlxn_buffer_destroy(foreign);
}

static void another_device_is_refused(void **state) {
    (void)state;
    for_every_argument(foreign_argument);
}

static void read_only_argument(call *made, size_t index, const char *kernel, const char *name) {
    if (index < made->c.op->input_count)
        return;
    int64_t shape[MLXN_MAX_RANK];
    const size_t rank = op_case_shape(&made->c, index, shape);
    static _Alignas(64) unsigned char memory[1024];
    memset(memory, SENTINEL, sizeof memory);
    const mlxn_wrap_options options = {.size = sizeof options, .read_only = true};
    mlxn_buffer *wrapped;
    OK(mlxn_buffer_wrap(device, made->c.dtype, rank, shape, memory, &options, &wrapped));
    refuses_text(made, index, wrapped, MLXN_OVERWRITE, MLXN_INVALID_ARGUMENT, kernel,
                 "%s is read-only, expected memory to write to", name);
    mlxn_buffer_destroy(wrapped);
}

static void read_only_output_is_refused(void **state) {
    (void)state;
    if (!test_on_cpu())
        skip(); /* memory is read-only where the caller wrapped it so, which other devices refuse */
    for_every_argument(read_only_argument);
}

static void modes(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        call made = call_create(mlxn_op_at(i), MLXN_F32);
        const bool accumulates = mlxn_op_at(i)->accumulates;
        const char *expected = accumulates ? "MLXN_OVERWRITE or MLXN_ACCUMULATE" : "MLXN_OVERWRITE";
        for (int mode = -1; mode <= 7; mode++) {
            if (mode == 0 || (mode == 1 && accumulates))
                continue;
            refuses_text(&made, 0, made.buffer[0], (mlxn_mode)mode, MLXN_INVALID_ARGUMENT, made.c.op->name,
                         "mode is %d, expected %s", mode, expected);
        }
        call_destroy(&made);
    }
}

/* Views of one storage: an output one element before or after an input is refused; the very same memory is right for
 * elementwise ops in overwrite mode, and refused for all else. */
static void overlaps(void **state) {
    (void)state;
    mlxn_buffer *storage = test_vector(device, MLXN_F32, 4096);
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        for (size_t output = op->input_count; output < op->input_count + op->output_count; output++)
            for (size_t with = 0; with < output; with++)
                for (int64_t shift = -1; shift <= 1; shift++) {
                    call made = call_create(op, MLXN_F32);
                    int64_t shape[MLXN_MAX_RANK];
                    mlxn_buffer *first, *second, *kept[2] = {made.buffer[output], made.buffer[with]};
                    size_t rank = op_case_shape(&made.c, with, shape);
                    OK(mlxn_buffer_view(storage, 1000, rank, shape, &first));
                    rank = op_case_shape(&made.c, output, shape);
                    OK(mlxn_buffer_view(storage, 1000 + shift, rank, shape, &second));
                    made.buffer[with] = first;
                    made.buffer[output] = second;
                    for (int mode = 0; mode <= (op->accumulates ? 1 : 0); mode++) {
                        mlxn_encoder *encoder = test_encoder(device);
                        const mlxn_status status =
                            mlxn_encode(encoder, op->name, made.buffer, made.arguments, (mlxn_mode)mode);
                        const bool fine = op->elementwise && shift == 0 && with < op->input_count && mode == 0;
                        char text[128];
                        snprintf(text, sizeof text, "%s_f32: %s overlaps %s in memory", op->name,
                                 op->arguments[output].name, op->arguments[with].name);
                        if (status != (fine ? MLXN_OK : MLXN_INVALID_ARGUMENT))
                            fail_msg("%s, shift %d, mode %d: status \"%s\"", text, (int)shift, mode,
                                     mlxn_status_text(status));
                        if (!fine && strncmp(mlxn_last_error(), text, strlen(text)) != 0)
                            fail_msg("says      \"%s\"\n  should be \"%s\"", mlxn_last_error(), text);
                        mlxn_encoder_destroy(encoder);
                    }
                    made.buffer[output] = kept[0];
                    made.buffer[with] = kept[1];
                    mlxn_buffer_destroy(first);
                    mlxn_buffer_destroy(second);
                    call_destroy(&made);
                }
    }
    mlxn_buffer_destroy(storage);
}

/* Outputs that touch an input's end, or lie between two inputs, are fine. */
static void neighbours_are_allowed(void **state) {
    (void)state;
    mlxn_buffer *storage = test_vector(device, MLXN_F32, 4096);
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        const op_case c = {.op = op,
                           .dtype = MLXN_F32,
                           .lead_rank = 1,
                           .lead = {2},
                           .n = op->elementwise ? 1 : 8,
                           .m = op->elementwise ? 1 : 5};
        mlxn_buffer *buffer[MLXN_MAX_ARGUMENTS];
        int64_t at = 3;
        for (size_t k = 0; k < op_case_arguments(&c); k++) {
            const size_t argument = op_case_arguments(&c) - 1 - k;
            int64_t shape[MLXN_MAX_RANK];
            const size_t rank = op_case_shape(&c, argument, shape);
            OK(mlxn_buffer_view(storage, at, rank, shape, &buffer[argument]));
            at += mlxn_buffer_count(buffer[argument]);
        }
        mlxn_encoder *encoder = test_encoder(device);
        OK(mlxn_encode(encoder, op->name, buffer, op_case_arguments(&c), MLXN_OVERWRITE));
        OK(mlxn_encoder_commit_and_wait(encoder));
        mlxn_encoder_destroy(encoder);
        for (size_t k = 0; k < op_case_arguments(&c); k++)
            mlxn_buffer_destroy(buffer[k]);
    }
    mlxn_buffer_destroy(storage);
}

/* In-place results have the bits of out-of-place ones, for every input that an output may lie on. */
static void aliases_give_the_same_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        if (!op->elementwise)
            continue;
        for (int d = 0; d < 3; d++)
            for (size_t output = 0; output < op->output_count; output++)
                for (size_t with = 0; with < op->input_count; with++) {
                    const op_case c = {.op = op,
                                       .dtype = (mlxn_dtype)d,
                                       .values = OP_VALUES_BITS,
                                       .lead_rank = 1,
                                       .lead = {1003},
                                       .n = 1,
                                       .m = 1,
                                       .seed = 11};
                    op_arrays a = op_arrays_create(&c);
                    mlxn_buffer *buffer[MLXN_MAX_ARGUMENTS];
                    for (size_t k = 0; k < op_case_arguments(&c); k++) {
                        buffer[k] = test_vector(device, c.dtype, 1003);
                        OK(mlxn_buffer_write(buffer[k], 0, mlxn_buffer_bytes(buffer[k]), a.array[k]));
                    }
                    mlxn_buffer *arguments[MLXN_MAX_ARGUMENTS];
                    memcpy(arguments, buffer, sizeof arguments);
                    arguments[op->input_count + output] = buffer[with];
                    mlxn_encoder *encoder = test_encoder(device);
                    OK(mlxn_encode(encoder, op->name, arguments, op_case_arguments(&c), MLXN_OVERWRITE));
                    OK(mlxn_encoder_commit_and_wait(encoder));
                    mlxn_encoder_destroy(encoder);
                    for (size_t o = 0; o < op->output_count; o++) {
                        void *got = test_contents(arguments[op->input_count + o]);
                        for (size_t k = 0; k < 1003; k++) {
                            const op_expected e = op_case_expected(&c, &a, o, k);
                            const uint32_t bits = half_get(c.dtype, got, k);
                            if (bits != e.bits && bits != e.other)
                                test_fail(c.seed, "%s: %s in place of %s: [%zu] is 0x%x, expected 0x%x",
                                          op_case_text(&c), op->arguments[op->input_count + o].name,
                                          op->arguments[with].name, k, bits, e.bits);
                        }
                        free(got);
                    }
                    for (size_t k = 0; k < op_case_arguments(&c); k++)
                        mlxn_buffer_destroy(buffer[k]);
                    op_arrays_destroy(&a);
                }
    }
}

static void names_and_counts(void **state) {
    (void)state;
    mlxn_buffer *x = test_vector(device, MLXN_F32, 3), *y = test_vector(device, MLXN_F32, 3);
    mlxn_buffer *const arguments[] = {x, y, y};
    mlxn_encoder *encoder = test_encoder(device);
    FAILS_WITH(MLXN_NOT_FOUND, "no_such_op", mlxn_encode(encoder, "no_such_op", arguments, 2, MLXN_OVERWRITE));
    OK(mlxn_encoder_reset(encoder));
    FAILS_WITH(MLXN_NOT_FOUND, "exp_f32", mlxn_encode(encoder, "exp_f32", arguments, 2, MLXN_OVERWRITE));
    OK(mlxn_encoder_reset(encoder));
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "exp", mlxn_encode(encoder, "exp", arguments, 3, MLXN_OVERWRITE));
    OK(mlxn_encoder_reset(encoder));
    FAILS_WITH(MLXN_INVALID_ARGUMENT, "exp", mlxn_encode(encoder, "exp", arguments, 0, MLXN_OVERWRITE));
    OK(mlxn_encoder_reset(encoder));
    OK(mlxn_encode(encoder, "exp", arguments, 2, MLXN_OVERWRITE));
    OK(mlxn_encoder_commit_and_wait(encoder));
    FAILS_WITH(MLXN_INVALID_STATE, "committed", mlxn_exp(encoder, x, y));
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_buffer_destroy(y);
}

static void output_shapes(void **state) {
    (void)state;
    for (size_t i = 0; i < mlxn_op_count(); i++) {
        const mlxn_op_info *op = mlxn_op_at(i);
        call made = call_create(op, MLXN_F16);
        for (size_t o = 0; o < op->output_count; o++) {
            int64_t shape[MLXN_MAX_RANK] = {0}, expected[MLXN_MAX_RANK];
            size_t rank = 0;
            OK(mlxn_op_output_shape(op->name, (const mlxn_buffer *const *)made.buffer, op->input_count, o, &rank,
                                    shape));
            assert_int_equal(rank, op_case_shape(&made.c, op->input_count + o, expected));
            assert_memory_equal(shape, expected, rank * sizeof *shape);
        }
        size_t rank = 9;
        int64_t shape[MLXN_MAX_RANK];
        const mlxn_buffer *const *inputs = (const mlxn_buffer *const *)made.buffer;
        FAILS(MLXN_INVALID_ARGUMENT,
              mlxn_op_output_shape(op->name, inputs, op->input_count, op->output_count, &rank, shape));
        FAILS(MLXN_INVALID_ARGUMENT, mlxn_op_output_shape(op->name, inputs, op->input_count + 1, 0, &rank, shape));
        FAILS(MLXN_INVALID_ARGUMENT, mlxn_op_output_shape(op->name, inputs, op->input_count - 1, 0, &rank, shape));
        assert_int_equal(rank, 9);
        call_destroy(&made);
    }
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_refused),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(first_argument_fixes_extents),
        cmocka_unit_test(too_low_a_rank_is_refused),
        cmocka_unit_test(too_high_a_rank_is_refused),
        cmocka_unit_test(wrong_dtypes_are_refused),
        cmocka_unit_test(extent_zero_is_refused),
        cmocka_unit_test(another_device_is_refused),
        cmocka_unit_test(read_only_output_is_refused),
        cmocka_unit_test(modes),
        cmocka_unit_test(overlaps),
        cmocka_unit_test(neighbours_are_allowed),
        cmocka_unit_test(aliases_give_the_same_bits),
        cmocka_unit_test(names_and_counts),
        cmocka_unit_test(output_shapes),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
