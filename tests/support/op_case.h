/* One call of an op: its arguments, what must come out, and a run of it on a device. Works for every op that
 * mlxn_op_at knows. */
#ifndef MLXN_TESTS_SUPPORT_OP_CASE_H
#define MLXN_TESTS_SUPPORT_OP_CASE_H

#include "guard.h"
#include "half.h"
#include "test.h"

/* Where an input's elements are drawn from. */
typedef enum op_values {
    OP_VALUES_UNIT,     /* [-1, 1) */
    OP_VALUES_POSITIVE, /* [0.5, 2) */
    OP_VALUES_WIDE,     /* any finite value */
    OP_VALUES_BITS      /* any bits: NaN, infinities, subnormals */
} op_values;

typedef struct op_case {
    const mlxn_op_info *op;
    mlxn_dtype dtype;
    mlxn_mode mode;
    op_values values;
    size_t lead_rank;
    int64_t lead[MLXN_MAX_RANK];
    int64_t n, m;
    uint64_t seed;
} op_case;

/* The contents of all arguments; the outputs hold what they hold before the call. */
typedef struct op_arrays {
    void *array[MLXN_MAX_ARGUMENTS];
    size_t count[MLXN_MAX_ARGUMENTS];
    double *reference[MLXN_MAX_ARGUMENTS]; /* of an output: info->reference of the inputs; else NULL */
    float *wide[MLXN_MAX_ARGUMENTS];       /* the elements as f32 */
} op_arrays;

/* The bits an output element must have; where the truth lies on the edge between two values to within the
 * reference's error, `other` is the second one, else equal to `bits`. */
typedef struct op_expected {
    uint32_t bits, other;
} op_expected;

/* How the arguments lie in memory. */
typedef struct op_layout {
    guard_place place;
    size_t shift[MLXN_MAX_ARGUMENTS]; /* elements between the array and the guard page, or an aligned place elsewhere */
} op_layout;

static inline size_t op_case_arguments(const op_case *c) {
    return c->op->input_count + c->op->output_count;
}

/* Rank and shape of argument `index`. */
size_t op_case_shape(const op_case *c, size_t index, int64_t shape[MLXN_MAX_RANK]);
size_t op_case_count(const op_case *c, size_t index);

/* The text "exp_backward bf16 accumulate [2,3]x(5,7)". */
const char *op_case_text(const op_case *c);

op_arrays op_arrays_create(const op_case *c);

/* The same without what op_case_expected needs. */
op_arrays op_arrays_draw(const op_case *c);

void op_arrays_destroy(op_arrays *a);

/* Widens the inputs and computes the reference: after every change of an array. */
void op_arrays_update(const op_case *c, op_arrays *a);

/* `output` counts from 0. Only after op_arrays_update. */
op_expected op_case_expected(const op_case *c, const op_arrays *a, size_t output, size_t element);

/* Calls the op on `a`, in places where nothing beside may be touched (placed.h), and compares every output with what is expected, every input with what it
 * was. Fails the test with the place and the bits. */
void op_case_check(mlxn_device *device, const op_case *c, op_arrays *a, const op_layout *layout);

/* op_arrays_create, op_case_check with no shift at the end of the pages, op_arrays_destroy. */
void op_case_run(mlxn_device *device, const op_case *c);

/* The bytes of all outputs, one after the other, as the device computes them from `a`. The caller frees. */
void *op_case_outputs(mlxn_device *device, const op_case *c, const op_arrays *a, size_t *bytes);

/* Whether the op's arguments have the extents N or M; elementwise ops do not. */
bool op_has(const mlxn_op_info *op, char extent);

/* How many output elements have been compared with a value known to the last bit, and how many against the reference
 * within a tolerance. */
extern uint64_t op_case_exact, op_case_within;

#endif
