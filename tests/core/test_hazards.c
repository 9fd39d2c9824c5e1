/* Hazards: random lists of ops on views that overlap, committed as one list, must leave the bits that the same ops leave
 * one by one. Each seed is a list; a failing one is printed. */
#include "support/half.h"
#include "support/random.h"
#include "support/test.h"

enum { STORAGES = 4, ELEMENTS = 1 << 17, STEPS = 24 };

/* Two equal worlds: one gets the list, the other op after op. */
typedef struct world {
    mlxn_buffer *storage[STORAGES + 1]; /* the last is a second wrap of the first's memory */
    float *memory[STORAGES];
} world;

static world world_create(mlxn_device *device, uint64_t seed) {
    world w;
    for (size_t i = 0; i < STORAGES; i++) {
        w.memory[i] = aligned_alloc(64, ELEMENTS * sizeof(float));
        assert_non_null(w.memory[i]);
        for (size_t k = 0; k < ELEMENTS; k++)
            w.memory[i][k] = random_unit(&seed);
    }
    for (size_t i = 0; i <= STORAGES; i++)
        OK(mlxn_buffer_wrap(device, MLXN_F32, 1, (const int64_t[]){ELEMENTS}, w.memory[i % STORAGES], NULL,
                            &w.storage[i]));
    return w;
}

static void world_destroy(world *w) {
    for (size_t i = 0; i <= STORAGES; i++)
        mlxn_buffer_destroy(w->storage[i]);
    for (size_t i = 0; i < STORAGES; i++)
        free(w->memory[i]);
}

/* One random op on random views; the same in both worlds. */
typedef struct step {
    const mlxn_op_info *op;
    mlxn_mode mode;
    size_t storage[MLXN_MAX_ARGUMENTS], rank[MLXN_MAX_ARGUMENTS];
    int64_t offset[MLXN_MAX_ARGUMENTS], shape[MLXN_MAX_ARGUMENTS][MLXN_MAX_RANK];
} step;

static step step_draw(uint64_t *state) {
    step s = {.op = mlxn_op_at((size_t)random_between(state, 0, (int64_t)mlxn_op_count() - 1))};
    s.mode = s.op->accumulates && random_between(state, 0, 1) != 0 ? MLXN_ACCUMULATE : MLXN_OVERWRITE;
    /* Mostly small, so that many lie side by side; sometimes large, so that threads share them. */
    const int64_t largest = random_between(state, 0, 3) == 0 ? ELEMENTS / 2 : 300;
    int64_t n = random_between(state, 1, largest), m = random_between(state, 1, largest);
    while (n * m > largest)
        *(n > m ? &n : &m) = (n > m ? n : m) / 2;
    for (size_t k = 0; k < s.op->input_count + s.op->output_count; k++) {
        int64_t count = 1;
        if (s.op->elementwise)
            s.shape[k][s.rank[k]++] = count = largest < 1000 ? n * m : largest - n % 7;
        for (const char *dim = s.op->arguments[k].dims; *dim != '\0'; dim++) {
            s.shape[k][s.rank[k]] = *dim == 'N' ? n : m;
            count *= s.shape[k][s.rank[k]++];
        }
        s.storage[k] = (size_t)random_between(state, 0, STORAGES);
        /* A few fixed places make exact aliases and near misses likely. */
        s.offset[k] = random_between(state, 0, 1) != 0 ? random_between(state, 0, ELEMENTS - count)
                                                       : random_between(state, 0, (ELEMENTS - count) / 256) * 256;
        if (random_between(state, 0, 2) != 0)
            s.offset[k] = s.offset[k] % 2048 + count <= ELEMENTS ? s.offset[k] % 2048 : 0;
    }
    return s;
}

static mlxn_status step_record(mlxn_encoder *encoder, const world *w, const step *s) {
    mlxn_buffer *views[MLXN_MAX_ARGUMENTS] = {NULL};
    const size_t count = s->op->input_count + s->op->output_count;
    for (size_t k = 0; k < count; k++)
        OK(mlxn_buffer_view(w->storage[s->storage[k]], s->offset[k], s->rank[k], s->shape[k], &views[k]));
    const mlxn_status status = mlxn_encode(encoder, s->op->name, views, count, s->mode);
    for (size_t k = 0; k < count; k++)
        mlxn_buffer_destroy(views[k]);
    return status;
}

static void compare_worlds(const world *a, const world *b, uint64_t seed, const char *when) {
    for (size_t i = 0; i < STORAGES; i++)
        for (size_t k = 0; k < ELEMENTS; k++)
            if (half_bits(a->memory[i][k]) != half_bits(b->memory[i][k]))
                test_fail(seed, "%s: storage %zu[%zu] is 0x%x as a list, 0x%x op by op", when, i, k,
                          half_bits(a->memory[i][k]), half_bits(b->memory[i][k]));
}

static size_t run_seed(mlxn_device *device, uint64_t seed) {
    world list_world = world_create(device, seed), single_world = world_create(device, seed);
    mlxn_encoder *list = test_encoder(device), *single = test_encoder(device);
    uint64_t state = seed;
    step steps[STEPS];
    size_t count = 0;
    for (int draw = 0; draw < 3 * STEPS && count < STEPS; draw++) {
        steps[count] = step_draw(&state);
        OK(mlxn_encoder_reset(single));
        if (step_record(single, &single_world, &steps[count]) != MLXN_OK)
            continue; /* overlapping output */
        OK(mlxn_encoder_commit_and_wait(single));
        OK(step_record(list, &list_world, &steps[count]));
        count++;
    }
    OK(mlxn_encoder_commit_and_wait(list));
    compare_worlds(&list_world, &single_world, seed, "first commit");
    /* Once more: the replay starts from what the list left. */
    for (size_t i = 0; i < count; i++) {
        OK(mlxn_encoder_reset(single));
        OK(step_record(single, &single_world, &steps[i]));
        OK(mlxn_encoder_commit_and_wait(single));
    }
    OK(mlxn_encoder_commit_and_wait(list));
    compare_worlds(&list_world, &single_world, seed, "replay");
    mlxn_encoder_destroy(list);
    mlxn_encoder_destroy(single);
    world_destroy(&list_world);
    world_destroy(&single_world);
    return count;
}

static void lists_equal_single_ops(void **state) {
    (void)state;
    const bool one = getenv("MLXN_TEST_SEED") != NULL;
    const uint64_t first = test_seed(1), seeds = one ? 1 : test_is_slow_here() ? 20 : 150;
    static const size_t threads[] = {2, 1, 5};
    mlxn_device *devices[3];
    size_t recorded = 0;
    for (size_t d = 0; d < 3; d++)
        devices[d] = test_device(threads[d]);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        for (size_t d = 0; d < (seed % 10 == 0 || one ? 3 : 1); d++)
            recorded += run_seed(devices[d], seed);
    for (size_t d = 0; d < 3; d++)
        mlxn_device_destroy(devices[d]);
    print_message("%zu ops recorded\n", recorded);
    assert_true(recorded > 10 * seeds);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_equal_single_ops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
