/* Random graphs of ops give the same bits on the device under test and on the CPU at its plainest: all ops, dtypes and
 * modes, shapes of all kinds, views at odd places of shared memory, results in place, several encoders whose lists share
 * memory, replays, and writes and reads of the host in between. On the CPU, all threads and the best instruction set
 * against one thread and the plainest. Seeds are fresh; MLXN_TEST_GRAPHS is how many, and MLXN_TEST_PRINT=1 prints what
 * a graph does. */
#include <time.h>

#include "support/op_case.h"
#include "support/random.h"

enum { STORAGES = 9, DTYPES = 3, ENCODERS = 3, MOST_STEPS = 48, SMALL = 20000, LARGE = 300000 };

typedef struct place {
    size_t storage;
    int64_t offset;
} place;

typedef enum step_kind { RECORD, COMMIT, WAIT, RESET, WRITE, READ } step_kind;

typedef struct step {
    step_kind kind;
    size_t encoder;
    op_case c;                    /* RECORD: op, dtype, mode and shape */
    place at[MLXN_MAX_ARGUMENTS]; /* of its arguments */
    place range;                  /* WRITE, READ: `count` elements */
    int64_t count;
    uint64_t seed; /* of what is written */
} step;

typedef struct graph {
    uint64_t seed;
    int64_t elements[STORAGES]; /* storage s has dtype s % DTYPES */
    bool any_bits;              /* values are any bits, else moderate */
    bool timing;
    step steps[MOST_STEPS];
    size_t count;
} graph;

static mlxn_dtype dtype_of(size_t storage) {
    return (mlxn_dtype)(storage % DTYPES);
}

static bool chance(uint64_t *random, int64_t one_in) {
    return random_between(random, 1, one_in) == 1;
}

/* ---- drawing a graph ------------------------------------------------------------------------------- */

static int64_t draw_extent(uint64_t *random, int64_t most) {
    static const int64_t likely[] = {1,  2,  3,  4,   5,   7,   8,   13,  16,   17,   31,   32,   33,  61,
                                     64, 65, 97, 127, 128, 251, 256, 257, 1021, 1024, 1025, 2053, 4099};
    for (;;) {
        const int64_t extent = chance(random, 4) ? random_between(random, 1, most)
                                                 : likely[random_next(random) % (sizeof likely / sizeof likely[0])];
        if (extent <= most)
            return extent;
    }
}

static void draw_shape(uint64_t *random, int64_t most, op_case *c) {
    const bool matrix = op_has(c->op, 'N');
    c->n = c->m = 1;
    if (matrix) {
        c->m = draw_extent(random, most);
        c->n = draw_extent(random, most / c->m);
        most /= c->n * c->m;
    }
    c->lead_rank = (size_t)random_between(random, 0, matrix ? 2 : 4);
    for (size_t i = 0; i < c->lead_rank; i++) {
        c->lead[i] = draw_extent(random, most);
        most /= c->lead[i];
    }
}

static bool overlap(const step *s, size_t one, size_t two) {
    return s->at[one].storage == s->at[two].storage &&
           s->at[one].offset < s->at[two].offset + (int64_t)op_case_count(&s->c, two) &&
           s->at[two].offset < s->at[one].offset + (int64_t)op_case_count(&s->c, one);
}

/* Whether output `index` lies as the contract allows beside the arguments before it. */
static bool allowed(const step *s, size_t index) {
    for (size_t k = 0; k < index; k++) {
        const bool same = s->at[k].storage == s->at[index].storage && s->at[k].offset == s->at[index].offset &&
                          k < s->c.op->input_count;
        if (overlap(s, index, k) && !(same && s->c.op->elementwise && s->c.mode == MLXN_OVERWRITE))
            return false;
    }
    return true;
}

static bool draw_place(const graph *g, uint64_t *random, mlxn_dtype dtype, int64_t count, place *at) {
    for (int i = 0; i < 8; i++) {
        at->storage = (size_t)random_between(random, 0, STORAGES / DTYPES - 1) * DTYPES + (size_t)dtype;
        const int64_t room = g->elements[at->storage] - count;
        if (room < 0)
            continue;
        at->offset = random_between(random, 0, room < 16 || chance(random, 2) ? room : 16);
        return true;
    }
    return false;
}

/* False where the arguments found no place. */
static bool draw_record(const graph *g, uint64_t *random, step *s) {
    op_case *c = &s->c;
    c->op = mlxn_op_at(random_next(random) % mlxn_op_count());
    c->dtype = (mlxn_dtype)random_between(random, 0, DTYPES - 1);
    c->mode = c->op->accumulates && chance(random, 2) ? MLXN_ACCUMULATE : MLXN_OVERWRITE;
    draw_shape(random, g->elements[c->dtype] / 2, c);
    for (size_t k = 0; k < op_case_arguments(c); k++) {
        const bool output = k >= c->op->input_count;
        bool found = false;
        for (int i = 0; i < 16 && !found; i++) {
            if (output && c->op->elementwise && chance(random, 4)) {
                s->at[k] = s->at[random_next(random) % c->op->input_count];
                found = true;
            } else {
                found = draw_place(g, random, c->dtype, (int64_t)op_case_count(c, k), &s->at[k]);
            }
            found = found && (!output || allowed(s, k));
        }
        if (!found)
            return false;
    }
    return true;
}

static void draw_range(const graph *g, uint64_t *random, step *s) {
    s->range.storage = random_next(random) % STORAGES;
    const int64_t elements = g->elements[s->range.storage];
    s->range.offset = random_between(random, 0, elements - 1);
    s->count = random_between(random, 1, elements - s->range.offset);
    s->seed = random_next(random);
}

static void draw_graph(uint64_t seed, graph *g) {
    uint64_t random = seed;
    bool committed[ENCODERS] = {false};
    *g = (graph){.seed = seed, .any_bits = chance(&random, 4), .timing = chance(&random, 8)};
    const int64_t most = !test_is_slow_here() && chance(&random, 8) ? LARGE : SMALL;
    for (size_t i = 0; i < STORAGES; i++)
        g->elements[i] = i < DTYPES ? most : random_between(&random, 1, most);
    const size_t wanted = (size_t)random_between(&random, 4, MOST_STEPS - 2 * ENCODERS);
    while (g->count < wanted) {
        step *s = &g->steps[g->count];
        *s = (step){.encoder = random_next(&random) % ENCODERS};
        const int64_t die = random_between(&random, 1, 16);
        s->kind = die <= 9 ? RECORD : die <= 12 ? COMMIT : die == 13 ? WAIT : die == 14 ? READ : WRITE;
        if (s->kind == RECORD && committed[s->encoder]) {
            /* A committed list is committed again as often as not before it is given up. */
            s->kind = chance(&random, 2) ? COMMIT : RESET;
            committed[s->encoder] = s->kind == COMMIT;
        } else if (s->kind == RECORD) {
            if (!draw_record(g, &random, s))
                continue;
        } else if (s->kind == COMMIT) {
            committed[s->encoder] = true;
        } else if (s->kind != WAIT) {
            draw_range(g, &random, s);
        }
        g->count++;
    }
    for (size_t e = 0; e < ENCODERS; e++) {
        if (!committed[e])
            g->steps[g->count++] = (step){.kind = COMMIT, .encoder = e};
        g->steps[g->count++] = (step){.kind = WAIT, .encoder = e};
    }
}

static void print_graph(const graph *g) {
    static const char *const names[] = {"record", "commit", "wait", "reset", "write", "read"};
    for (size_t i = 0; i < g->count; i++) {
        const step *s = &g->steps[i];
        printf("%zu: %s", i, names[s->kind]);
        if (s->kind == RECORD) {
            printf(" %zu: %s at", s->encoder, op_case_text(&s->c));
            for (size_t k = 0; k < op_case_arguments(&s->c); k++)
                printf(" %zu+%lld", s->at[k].storage, (long long)s->at[k].offset);
        } else if (s->kind >= WRITE) {
            printf(" %zu+%lld, %lld elements", s->range.storage, (long long)s->range.offset, (long long)s->count);
        } else {
            printf(" %zu", s->encoder);
        }
        printf("\n");
    }
}

/* ---- running it ------------------------------------------------------------------------------------ */

/* What the host reads, one piece after the other. */
typedef struct results {
    unsigned char *bytes;
    size_t size;
} results;

static void *draw_values(const graph *g, mlxn_dtype dtype, int64_t count, uint64_t seed) {
    char *values = malloc((size_t)count * mlxn_dtype_size(dtype));
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)random_next(&seed);
        const double value = 1.0 + 2 * (double)(int32_t)bits * 0x1p-31; /* [-1, 3) */
        half_set(dtype, values, (size_t)i,
                 !g->any_bits        ? half_narrow(dtype, value)
                 : dtype == MLXN_F32 ? bits
                                     : bits & 0xffff);
    }
    return values;
}

static void write_range(const graph *g, mlxn_buffer *buffer, int64_t offset, int64_t count, uint64_t seed) {
    const size_t size = mlxn_dtype_size(mlxn_buffer_dtype(buffer));
    void *values = draw_values(g, mlxn_buffer_dtype(buffer), count, seed);
    OK(mlxn_buffer_write(buffer, (size_t)offset * size, (size_t)count * size, values));
    free(values);
}

static void read_range(const mlxn_buffer *buffer, int64_t offset, int64_t count, results *r) {
    const size_t size = mlxn_dtype_size(mlxn_buffer_dtype(buffer)), bytes = (size_t)count * size;
    r->bytes = realloc(r->bytes, r->size + bytes);
    assert_non_null(r->bytes);
    OK(mlxn_buffer_read(buffer, (size_t)offset * size, bytes, r->bytes + r->size));
    r->size += bytes;
}

/* The views are gone before the work runs, as callers may do. */
static void record(const graph *g, const step *s, mlxn_encoder *encoder, mlxn_buffer *const *storage) {
    mlxn_buffer *arguments[MLXN_MAX_ARGUMENTS];
    const size_t count = op_case_arguments(&s->c);
    for (size_t k = 0; k < count; k++) {
        int64_t shape[MLXN_MAX_RANK];
        const size_t rank = op_case_shape(&s->c, k, shape);
        OK(mlxn_buffer_view(storage[s->at[k].storage], s->at[k].offset, rank, shape, &arguments[k]));
    }
    if (mlxn_encode(encoder, s->c.op->name, arguments, count, s->c.mode) != MLXN_OK)
        test_fail(g->seed, "%s: %s", op_case_text(&s->c), mlxn_last_error());
    for (size_t k = 0; k < count; k++)
        mlxn_buffer_destroy(arguments[k]);
}

static results run_graph(const graph *g, mlxn_device *device) {
    results r = {NULL, 0};
    mlxn_buffer *storage[STORAGES];
    mlxn_encoder *encoders[ENCODERS];
    for (size_t i = 0; i < STORAGES; i++) {
        storage[i] = test_vector(device, dtype_of(i), g->elements[i]);
        write_range(g, storage[i], 0, g->elements[i], g->seed + i);
    }
    const mlxn_encoder_options options = {.size = sizeof options, .timing = g->timing};
    for (size_t e = 0; e < ENCODERS; e++)
        OK(mlxn_encoder_create(device, &options, &encoders[e]));
    for (size_t i = 0; i < g->count; i++) {
        const step *s = &g->steps[i];
        switch (s->kind) {
        case RECORD:
            record(g, s, encoders[s->encoder], storage);
            break;
        case COMMIT:
            OK(mlxn_encoder_commit(encoders[s->encoder]));
            break;
        case WAIT:
            OK(mlxn_encoder_wait(encoders[s->encoder]));
            break;
        case RESET:
            OK(mlxn_encoder_reset(encoders[s->encoder]));
            break;
        case WRITE:
            write_range(g, storage[s->range.storage], s->range.offset, s->count, s->seed);
            break;
        case READ:
            read_range(storage[s->range.storage], s->range.offset, s->count, &r);
            break;
        }
    }
    for (size_t e = 0; e < ENCODERS; e++)
        mlxn_encoder_destroy(encoders[e]);
    for (size_t i = 0; i < STORAGES; i++) {
        read_range(storage[i], 0, g->elements[i], &r);
        mlxn_buffer_destroy(storage[i]);
    }
    return r;
}

/* ---- comparing ------------------------------------------------------------------------------------- */

/* Whether byte `at` lies in a piece of the results, which are counted off; if so, fails the test. */
static void differs_in(const graph *g, const char *when, place from, int64_t count, size_t at, size_t *begin) {
    const size_t size = mlxn_dtype_size(dtype_of(from.storage)), bytes = (size_t)count * size;
    if (at < *begin + bytes)
        test_fail(g->seed, "%s: element %lld of storage %zu (%s) differs from the CPU's", when,
                  (long long)(from.offset + (int64_t)((at - *begin) / size)), from.storage,
                  mlxn_dtype_name(dtype_of(from.storage)));
    *begin += bytes;
}

static void compare(const graph *g, const results *expected, const results *got) {
    size_t at = 0, begin = 0;
    assert_int_equal(expected->size, got->size);
    while (at < got->size && expected->bytes[at] == got->bytes[at])
        at++;
    if (at == got->size)
        return;
    print_graph(g);
    for (size_t i = 0; i < g->count; i++)
        if (g->steps[i].kind == READ) {
            char when[32];
            snprintf(when, sizeof when, "in step %zu", i);
            differs_in(g, when, g->steps[i].range, g->steps[i].count, at, &begin);
        }
    for (size_t i = 0; i < STORAGES; i++)
        differs_in(g, "at the end", (place){i, 0}, g->elements[i], at, &begin);
}

static void same_bits(void **state) {
    (void)state;
    const char *text = getenv("MLXN_TEST_GRAPHS");
    const bool one = getenv("MLXN_TEST_SEED") != NULL;
    const uint64_t first = test_seed((uint64_t)time(NULL) << 20);
    const uint64_t count = one ? 1 : text != NULL ? strtoull(text, NULL, 0) : test_is_slow_here() ? 100 : 200;
    mlxn_device *plain = test_device_isa(test_isas[0], 1), *device = test_device(0);
    static graph g;
    for (uint64_t i = 0; i < count; i++) {
        draw_graph(first + i, &g);
        if (getenv("MLXN_TEST_PRINT") != NULL)
            print_graph(&g);
        results expected = run_graph(&g, plain), got = run_graph(&g, device);
        compare(&g, &expected, &got);
        free(expected.bytes);
        free(got.bytes);
    }
    print_message("%llu graphs from seed %llu on\n", (unsigned long long)count, (unsigned long long)first);
    mlxn_device_destroy(device);
    mlxn_device_destroy(plain);
}

/* The graphs are what they claim to be: every op, dtype, mode, kind of step, and results in place. */
static void graphs_are_various(void **state) {
    (void)state;
    static graph g;
    size_t seen[64][DTYPES][2] = {{{0}}}, kinds[READ + 1] = {0}, in_place = 0, replays = 0;
    assert_true(mlxn_op_count() <= 64);
    for (uint64_t seed = 1; seed <= 200; seed++) {
        draw_graph(seed, &g);
        for (size_t i = 0; i < g.count; i++) {
            const step *s = &g.steps[i];
            kinds[s->kind]++;
            replays +=
                s->kind == COMMIT && i > 0 && g.steps[i - 1].kind == COMMIT && g.steps[i - 1].encoder == s->encoder;
            if (s->kind != RECORD)
                continue;
            for (size_t k = 0; k < mlxn_op_count(); k++)
                seen[k][s->c.dtype][s->c.mode] += mlxn_op_at(k) == s->c.op;
            for (size_t k = 0; k < s->c.op->input_count; k++)
                in_place += overlap(s, k, s->c.op->input_count);
        }
    }
    for (size_t k = 0; k < mlxn_op_count(); k++)
        for (size_t d = 0; d < DTYPES; d++)
            for (int mode = 0; mode <= (mlxn_op_at(k)->accumulates ? 1 : 0); mode++)
                if (seen[k][d][mode] == 0)
                    fail_msg("%s %s, mode %d, is in no graph", mlxn_op_at(k)->name, mlxn_dtype_name((mlxn_dtype)d),
                             mode);
    for (size_t k = 0; k <= READ; k++)
        assert_true(kinds[k] > 100);
    assert_true(in_place > 100);
    assert_true(replays > 20);
}

int main(void) {
    test_needs_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_various),
        cmocka_unit_test(same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
