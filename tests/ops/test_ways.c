/* Shapes and places that take each way through the GPU kernels of the outer product and its gradients, and each plan that
 * src/ops/outer_product/gpu.c can make for them: the bits beside those of the CPU at its plainest. Which way a shape takes
 * stands beside it; "T" is a tile of a narrow row's kernel, 4 KB of dy. */
#include "support/op_case.h"
#include "support/placed.h"

static mlxn_device *device, *plain;

static int open_devices(void **state) {
    (void)state;
    device = test_device(0);
    plain = test_device_isa(test_isas[0], 1);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    mlxn_device_destroy(device);
    mlxn_device_destroy(plain);
    return 0;
}

/* Runs the op with its arguments so many elements beyond aligned places. */
static void run(const char *op, const op_case *like, const size_t *shift) {
    op_case c = *like;
    c.op = mlxn_op_find(op);
    if (!test_wants_op(op))
        return;
    c.seed = test_seed((uint64_t)(c.lead[0] * 31 + c.n * 17 + c.m));
    op_layout layout = {.place = GUARD_AT_START};
    memcpy(layout.shift, shift, op_case_arguments(&c) * sizeof *shift);
    op_arrays a = op_arrays_draw(&c);
    placed p = placed_create(device, &c, &a, &layout);
    mlxn_encoder *encoder = test_encoder(device);
    if (mlxn_encode(encoder, op, p.buffer, p.count, c.mode) != MLXN_OK)
        test_fail(c.seed, "%s: %s", op_case_text(&c), mlxn_last_error());
    OK(mlxn_encoder_commit_and_wait(encoder));
    mlxn_encoder_destroy(encoder);
    placed_finish(&p);

    size_t bytes;
    char *outputs = op_case_outputs(plain, &c, &a, &bytes);
    const char *expected = outputs;
    for (size_t i = 0; i < p.count; i++) {
        const bool output = i >= c.op->input_count;
        if (memcmp(placed_result(&p, i), output ? expected : a.array[i], p.bytes[i]) != 0)
            test_fail(c.seed, "%s: %s %s; arguments lie %zu, %zu, %zu elements from aligned places", op_case_text(&c),
                      c.op->arguments[i].name, output ? "has other bits than the CPU's" : "was written", shift[0],
                      shift[1], shift[2]);
        if (!placed_intact(&p, i))
            test_fail(c.seed, "%s: bytes beside %s were written", op_case_text(&c), c.op->arguments[i].name);
        expected += output ? p.bytes[i] : 0;
    }
    free(outputs);
    placed_destroy(&p);
    op_arrays_destroy(&a);
}

/* ---- the forward ------------------------------------------------------------------------------------------- */

enum { F32 = 1, F16 = 2, BF16 = 4, HALVES = F16 | BF16, ALL = F32 | HALVES };

static void forward(void **state) {
    (void)state;
    static const struct {
        int64_t batch, n, m;
        size_t rhs, y; /* elements beyond an aligned place */
        int dtypes;
    } shapes[] = {
        /* By rows of one item that lie together, 1 to 256 lines a row, in whole blocks of rows and not. */
        {1, 2500, 4, 0, 0, F32},
        {1, 2500, 8, 0, 0, ALL},
        {1, 2048, 8, 0, 0, ALL},
        {1, 1300, 16, 0, 0, ALL},
        {1, 1025, 32, 0, 0, ALL},
        {1, 515, 64, 0, 0, ALL},
        {1, 300, 128, 0, 0, ALL},
        {1, 256, 128, 0, 0, ALL},
        {1, 150, 256, 0, 0, ALL},
        {1, 100, 512, 0, 0, ALL},
        {1, 35, 1024, 0, 0, ALL},
        {1, 21, 2048, 0, 0, HALVES},
        /* By rows of several items, one or more blocks below each other. */
        {300, 3, 4, 0, 0, F32},
        {3, 1100, 8, 0, 0, ALL},
        {5, 33, 16, 0, 0, ALL},
        {2, 512, 32, 0, 0, ALL},
        {2, 70, 512, 0, 0, ALL},
        {3, 19, 2048, 0, 0, ALL},
        /* By rows that several groups share, whose last is whole or not. */
        {1, 67, 2056, 0, 0, ALL},
        {1, 19, 4096, 0, 0, ALL},
        {2, 19, 4096, 0, 0, ALL},
        {3, 9, 2064, 0, 0, ALL},
        /* Lines of several whole rows, with a rest and without. */
        {1, 20001, 1, 0, 0, ALL},
        {1, 4096, 1, 0, 0, ALL},
        {1, 10001, 2, 0, 0, ALL},
        {1, 5001, 4, 1, 0, ALL},
        {1, 5001, 4, 0, 0, HALVES},
        {1, 3001, 8, 1, 0, HALVES},
        {3, 101, 2, 0, 0, ALL},
        /* Whole lines of rows that are no power of two of lines. */
        {1, 33, 12, 0, 0, F32},
        {1, 700, 24, 0, 0, ALL},
        {3, 500, 24, 0, 0, ALL},
        {40, 3, 40, 0, 0, ALL},
        {700, 1, 56, 0, 0, ALL},
        /* Groups of lines that are all of one item: of rows shorter than a line, short and long, whole lines or not, from
         * an aligned place on or not; and beside them groups of two items. */
        {1, 30000, 3, 0, 0, ALL},
        {1, 20000, 2, 0, 1, ALL},
        {1, 20000, 1, 0, 3, ALL},
        {1, 9000, 7, 1, 0, HALVES},
        {1, 20000, 5, 0, 0, ALL},
        {1, 5000, 20, 0, 0, ALL},
        {1, 5000, 33, 3, 1, ALL},
        {1, 600, 248, 0, 5, ALL},
        {1, 600, 252, 0, 0, ALL},
        {1, 600, 257, 0, 0, ALL},
        {1, 200, 511, 1, 2, ALL},
        {1, 60, 1001, 0, 1, ALL},
        {1, 7, 30001, 1, 2, ALL},
        {3, 20000, 3, 0, 0, ALL},
        {3, 2000, 33, 0, 0, ALL},
        /* An item ends within a group's last line; y ends with a whole group and begins within a line. */
        {2, 983, 25, 0, 0, F32},
        {2, 983, 50, 0, 0, HALVES},
        /* Long rows that begin anywhere in a line, all at the same place or not: groups of 256 to 32 lines of a row, that take
         * turns at the rows or not, and the last of which have rows left over; short and long columns of rows. */
        {1, 300, 1000, 0, 1, ALL},
        {1, 300, 1000, 5, 0, ALL},
        {1, 130, 3001, 0, 0, ALL},
        {1, 128, 1024, 0, 1, ALL},
        {1, 147, 601, 3, 1, ALL},
        {1, 128, 513, 0, 7, ALL},
        {1, 64, 515, 1, 2, F32},
        {3, 140, 1003, 0, 1, ALL},
        {5, 129, 777, 1, 5, ALL},
        {20, 131, 601, 0, 0, ALL},
        {1, 250, 2049, 7, 3, ALL},
        /* Rows so long that strips of columns come one after the other: several blocks of rows, lines, several items; and
         * so few rows that a thread takes all. */
        {1, 9, 2100000, 0, 0, F32},
        {1, 33, 4200008, 0, 0, BF16},
        {2, 9, 2100004, 0, 0, F32},
        {1, 3, 2100001, 0, 0, F32},
        {2, 3, 4200001, 1, 2, F16},
        {1, 7, 2100000, 0, 0, F32},
        {1, 64, 1060001, 0, 3, F32},
        /* Lines within a row, over rows, over items and at both ends of y. */
        {1, 9, 1001, 0, 0, ALL},
        {2, 9, 2048, 0, 1, ALL},
        {1, 9, 2048, 3, 0, ALL},
        {1, 33, 1024, 0, 7, ALL},
        {1, 65, 67, 0, 1, ALL},
        {1, 65, 67, 2, 2, ALL},
        {2, 65, 67, 0, 3, ALL},
        {1, 4000, 7, 0, 0, ALL},
        {1, 4000, 5, 0, 5, ALL},
        {1, 9000, 2, 0, 1, ALL},
        {3, 2000, 9, 0, 0, ALL},
        {9000, 1, 3, 0, 0, ALL},
        {4000, 3, 1, 0, 2, ALL},
        /* More of lhs or of rhs than is left unread ahead. */
        {1, 270001, 4, 0, 0, F32},
        {1, 530001, 8, 0, 0, BF16},
        {600, 900, 8, 0, 0, F16},
        {1, 530001, 3, 0, 0, ALL},
        {1, 3, 270336, 0, 0, F32},
        {1, 3, 540672, 0, 0, F16},
        {2, 3, 540680, 0, 0, BF16},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int d = 0; d < 3; d++)
            if (shapes[s].dtypes >> d & 1)
                run("outer_product",
                    &(op_case){.dtype = (mlxn_dtype)d,
                               .values = OP_VALUES_BITS,
                               .lead_rank = 1,
                               .lead = {shapes[s].batch},
                               .n = shapes[s].n,
                               .m = shapes[s].m},
                    (const size_t[]){0, shapes[s].rhs, shapes[s].y});
}

/* ---- the gradients ----------------------------------------------------------------------------------------- */

enum { LHS = 1, RHS = 2, BOTH = 4, EACH = LHS | RHS | BOTH };
static const char *const gradients[] = {"outer_product_backward_lhs", "outer_product_backward_rhs",
                                        "outer_product_backward"};

typedef struct gradient_shape {
    int64_t batch, n, m;
    size_t dy; /* elements beyond an aligned place */
    int dtypes, ops;
} gradient_shape;

/* With the argument `shifted` by so many elements beyond an aligned place. */
static void run_shifted(const gradient_shape *s, size_t shifted, size_t by, int first_mode, int last_mode) {
    for (int d = 0; d < 3; d++)
        for (int op = 0; op < 3; op++)
            for (int mode = first_mode; mode <= last_mode; mode++) {
                const op_case c = {.op = mlxn_op_find(gradients[op]),
                                   .dtype = (mlxn_dtype)d,
                                   .mode = (mlxn_mode)mode,
                                   .lead_rank = 1,
                                   .lead = {s->batch},
                                   .n = s->n,
                                   .m = s->m};
                size_t shift[MLXN_MAX_ARGUMENTS] = {0};
                shift[shifted] = by;
                if ((s->dtypes >> d & 1) != 0 && (s->ops >> op & 1) != 0 && shifted < op_case_arguments(&c))
                    run(gradients[op], &c, shift);
            }
}

static void run_gradients(const gradient_shape *s, int first_mode, int last_mode) {
    run_shifted(s, 0, s->dy, first_mode, last_mode);
}

/* Each in both modes. */
static void small_gradients(void **state) {
    (void)state;
    static const gradient_shape shapes[] = {
        /* Rows of up to 16: T is 64 rows of f32 and 128 of 16 bits. One warp an item, two and four, and several groups; the
         * last T whole or not; a group's last item there or not. */
        {1, 64, 16, 0, ALL, EACH},
        {1, 256, 16, 0, ALL, EACH},
        {3, 100, 16, 0, ALL, EACH},
        {3, 200, 16, 0, ALL, EACH},
        {5, 130, 13, 0, ALL, EACH},
        {3, 515, 16, 0, ALL, EACH},
        {1, 1300, 16, 0, ALL, EACH},
        {1, 1300, 16, 3, ALL, EACH},
        {2, 1301, 9, 0, ALL, EACH},
        {2, 1301, 10, 0, ALL, EACH},
        {4, 515, 15, 1, ALL, EACH},
        /* Up to 8, of 128 and 256 rows. */
        {1, 512, 8, 0, ALL, EACH},
        {3, 200, 8, 0, ALL, EACH},
        {3, 400, 8, 0, ALL, EACH},
        {4, 700, 7, 0, ALL, EACH},
        {3, 1030, 8, 1, ALL, EACH},
        {2, 2605, 5, 0, ALL, EACH},
        {2, 2605, 6, 0, ALL, EACH},
        {1, 2605, 8, 0, ALL, EACH},
        /* Up to 4, of 256 and 512. */
        {1, 512, 4, 0, ALL, EACH},
        {3, 400, 4, 0, ALL, EACH},
        {3, 800, 4, 0, ALL, EACH},
        {3, 1030, 4, 2, ALL, EACH},
        {2, 2061, 3, 0, ALL, EACH},
        {1, 5210, 4, 0, ALL, EACH},
        {2, 5210, 3, 1, ALL, EACH},
        /* Up to 2, of 512 and 1024. */
        {1, 1024, 2, 0, ALL, EACH},
        {3, 900, 2, 0, ALL, EACH},
        {3, 1800, 2, 0, ALL, EACH},
        {3, 4100, 1, 0, ALL, EACH},
        {1, 10405, 2, 0, ALL, EACH},
        {2, 10405, 1, 0, ALL, EACH},
        {2, 2061, 2, 1, ALL, EACH},
        /* Up to 32: 1, 2, 4 and 8 leaves of an item at the same time, and more than these; pairs and single elements. */
        {5, 20, 32, 0, ALL, EACH},
        {3, 64, 20, 0, ALL, EACH},
        {3, 100, 32, 0, ALL, EACH},
        {2, 250, 18, 0, ALL, EACH},
        {2, 600, 24, 0, ALL, EACH},
        {1, 1024, 32, 0, ALL, EACH},
        {5, 50, 17, 0, ALL, EACH},
        {2, 600, 31, 0, ALL, EACH},
        {2, 301, 32, 1, ALL, EACH},
        /* Up to 64. */
        {5, 20, 64, 0, ALL, EACH},
        {3, 64, 40, 0, ALL, EACH},
        {3, 100, 64, 0, ALL, EACH},
        {2, 250, 34, 0, ALL, EACH},
        {2, 600, 48, 0, ALL, EACH},
        {1, 1024, 64, 0, ALL, EACH},
        {5, 50, 33, 0, ALL, EACH},
        {2, 600, 63, 0, ALL, EACH},
        {2, 301, 64, 1, ALL, EACH},
        /* Up to 128. */
        {9, 20, 128, 0, ALL, EACH},
        {3, 64, 66, 0, ALL, EACH},
        {2, 600, 128, 0, ALL, EACH},
        {3, 50, 65, 0, ALL, EACH},
        {2, 301, 128, 1, ALL, EACH},
        /* Up to 256. */
        {9, 20, 256, 0, ALL, EACH},
        {3, 64, 130, 0, ALL, EACH},
        {3, 100, 200, 0, ALL, EACH},
        {2, 250, 254, 0, ALL, EACH},
        {2, 600, 256, 0, ALL, EACH},
        {3, 50, 129, 0, ALL, EACH},
        {2, 600, 255, 0, ALL, EACH},
        {2, 301, 256, 1, ALL, EACH},
        /* Up to 512, and longer ones where row sums are not wanted: one segment or more, the last whole or not. */
        {5, 40, 258, 0, ALL, EACH},
        {3, 64, 512, 0, ALL, EACH},
        {3, 50, 257, 0, ALL, EACH},
        {2, 600, 511, 0, ALL, EACH},
        {2, 301, 512, 1, ALL, EACH},
        /* Longer. */
        {5, 40, 514, 0, ALL, EACH},
        {2, 100, 1024, 0, ALL, EACH},
        {1, 250, 2048, 0, ALL, EACH},
        {3, 100, 1026, 0, ALL, EACH},
        {1, 600, 2052, 0, ALL, EACH},
        {3, 50, 1025, 0, ALL, EACH},
        {1, 600, 1023, 0, ALL, EACH},
        {2, 65, 2048, 1, ALL, EACH},
        /* And of one leaf. */
        {1, 32, 1024, 0, ALL, EACH},
        {1, 32, 512, 0, ALL, RHS},
        {1, 33, 1024, 0, ALL, EACH}, /* one row more */
        {3, 32, 602, 0, ALL, EACH},
        {5, 7, 2050, 0, ALL, EACH},
        {3, 31, 1023, 0, ALL, EACH},
        {9, 17, 257, 0, ALL, RHS},
        {9, 17, 513, 0, ALL, EACH},
        {2, 32, 1026, 1, ALL, EACH},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        run_gradients(&shapes[s], MLXN_OVERWRITE, MLXN_ACCUMULATE);
}

/* Rows of words in one argument and not in another. */
static void words_and_none(void **state) {
    (void)state;
    static const gradient_shape shapes[] = {
        {1, 100, 20, 0, HALVES, EACH},
        {2, 7, 514, 0, HALVES, EACH},
        {1, 70, 1100, 0, HALVES, EACH},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t argument = 1; argument < MLXN_MAX_ARGUMENTS; argument++)
            run_shifted(&shapes[s], argument, 1, MLXN_OVERWRITE, MLXN_OVERWRITE);
}

/* Partial sums: of rows, of columns and of both in one dispatch; up to 32 a thread; more than one dispatch adds. */
static void many_parts(void **state) {
    (void)state;
    static const gradient_shape shapes[] = {
        {2, 1100, 1026, 0, ALL, BOTH},        /* both */
        {1, 1100, 1027, 0, HALVES, BOTH},     /* the same of single elements */
        {3, 3, 20 * 1024, 0, ALL, LHS},       /* rows, of several items, */
        {1, 2, 300 * 1024, 0, ALL, LHS},      /* 16 parts a thread */
        {1, 2, 600 * 1024 + 1, 0, ALL, EACH}, /* 32 */
        {1, 1, 1100 * 1024, 0, F32, EACH},    /* two dispatches */
        {2, 2, 1030 * 1024, 0, BF16, LHS},    /* of several items */
        {1, 25601, 9, 0, ALL, RHS},           /* columns, 8 parts a thread, */
        {2, 80000, 9, 0, ALL, RHS},           /* 16 or 8 */
        {1, 160000, 9, 0, ALL, EACH},         /* 32 or 16 */
        {1, 263700, 9, 0, F32, EACH},         /* two dispatches */
        {2, 263700, 9, 0, F32, RHS},          /* of several items */
        {1, 530000, 10, 0, F16, RHS},         /* and of 16 bits */
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        run_gradients(&shapes[s], s % 2 == 0 ? MLXN_ACCUMULATE : MLXN_OVERWRITE,
                      s % 2 == 0 ? MLXN_ACCUMULATE : MLXN_OVERWRITE);
}

/* What a warp or a team does only where there is work for many of them: several T below each other, and rounds. Processors
 * have no such plan. */
static void busy_plans(void **state) {
    (void)state;
    static const gradient_shape shapes[] = {
        {2048, 257, 16, 0, F32, EACH},  /* up to 16, 2 T a warp */
        {2048, 769, 9, 0, F32, BOTH},   /* 4 */
        {2048, 513, 9, 1, F16, BOTH},   /* 2 */
        {2048, 513, 7, 0, F32, BOTH},   /* up to 8, 2 */
        {2048, 3073, 5, 0, BF16, BOTH}, /* 4 */
        {2048, 1025, 4, 0, F32, BOTH},  /* up to 4, 2 */
        {2048, 2049, 2, 0, F32, LHS},   /* up to 2, 2 */
        {2048, 6145, 1, 0, F32, BOTH},  /* 4 */
        {2048, 4097, 1, 0, BF16, RHS},  /* 2 */
        {1024, 513, 17, 0, F32, EACH},  /* up to 32, 8 rounds */
        {1024, 257, 19, 0, F32, BOTH},  /* 4 */
        {1024, 1025, 18, 0, F16, BOTH}, /* 8 */
        {1024, 513, 17, 0, BF16, BOTH}, /* 8, of single elements */
        {1024, 513, 33, 0, F32, BOTH},  /* up to 64, 8 */
        {1024, 257, 66, 0, F32, BOTH},  /* up to 128, 4 */
        {1024, 257, 66, 0, BF16, BOTH}, /* 2 */
        {1024, 257, 65, 0, F16, BOTH},  /* 4, of single elements */
        {1024, 257, 130, 0, F16, BOTH}, /* up to 256, 2 */
        {4096, 257, 17, 0, F32, LHS},   /* 2, of rows alone */
        {512, 257, 257, 0, F32, EACH},  /* up to 512, 4 */
        {512, 257, 514, 0, BF16, RHS},  /* longer, 2 */
        {512, 513, 513, 0, F32, BOTH},  /* 8 */
        {512, 257, 513, 0, F32, RHS},   /* 4 */
        {512, 129, 513, 0, F16, BOTH},  /* 4, of single elements */
    };
    if (test_on_cpu())
        skip();
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        run_gradients(&shapes[s], s % 2 == 0 ? MLXN_ACCUMULATE : MLXN_OVERWRITE,
                      s % 2 == 0 ? MLXN_ACCUMULATE : MLXN_OVERWRITE);
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),    cmocka_unit_test(small_gradients), cmocka_unit_test(words_and_none),
        cmocka_unit_test(many_parts), cmocka_unit_test(busy_plans),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
