/* Which kernel of the outer product serves, and how many groups a multiprocessor is to work on at a time, for what is larger than
 * the cache: what shows in no result, but in the time. On a device without memory. */
#include "support/op_case.h"
#include "support/planning.h"

static char kernel[64];
static uint32_t residents, dispatches;

static void see(const mlxn_record *record) {
    snprintf(kernel, sizeof kernel, "%s", record->kernel->name);
    residents = record->resident_groups;
    dispatches++;
}

/* The plan of a dtype and a shape, whose arguments lie so many elements beyond aligned places. */
static void plan(mlxn_device *device, mlxn_dtype dtype, const int64_t shape[3], const int64_t shift[2]) {
    mlxn_buffer *memory[3], *argument[3];
    const int64_t count[3] = {shape[0] * shape[1], shape[0] * shape[2], shape[0] * shape[1] * shape[2]};
    const int64_t extent[3][3] = {{shape[0], shape[1]}, {shape[0], shape[2]}, {shape[0], shape[1], shape[2]}};
    for (size_t i = 0; i < 3; i++) {
        const int64_t at = i == 0 ? 0 : shift[i - 1];
        memory[i] = test_vector(device, dtype, count[i] + at);
        OK(mlxn_buffer_view(memory[i], at, i < 2 ? 2 : 3, extent[i], &argument[i]));
    }
    mlxn_encoder *encoder = test_encoder(device);
    dispatches = 0;
    OK(mlxn_encode(encoder, "outer_product", argument, 3, MLXN_OVERWRITE));
    OK(mlxn_encoder_commit(encoder));
    mlxn_encoder_destroy(encoder);
    for (size_t i = 0; i < 3; i++) {
        mlxn_buffer_destroy(argument[i]);
        mlxn_buffer_destroy(memory[i]);
    }
    assert_int_equal(dispatches, 1);
}

enum { F32 = MLXN_F32, F16 = MLXN_F16, BF16 = MLXN_BF16, CACHE = 60 << 20 };

static const struct {
    int dtype;
    int64_t shape[3]; /* batch, n, m */
    int64_t shift[2]; /* of rhs and y */
    const char *way;
    uint32_t residents;
} plans[] = {
    /* Much is read beside: short rows, and few long ones. */
    {F32, {1, 1 << 26, 4}, {0}, "by_rows", 4},
    {F32, {1, 1 << 25, 8}, {0}, "by_rows", 6},
    {F32, {1, 1 << 20, 256}, {0}, "by_rows", 4},
    {BF16, {1, 1 << 26, 8}, {0}, "by_rows", 3},
    {F16, {1, 1 << 24, 64}, {0}, "by_rows", 4},
    {F32, {1, 4, 1 << 26}, {0}, "by_rows", 3},
    {F32, {1, 3, 89478484}, {0}, "by_rows", 4},
    {F32, {1, 8, 1 << 25}, {0}, "by_rows", 3},
    {F32, {1, 12, 22369620}, {0}, "by_rows", 3},
    {F16, {1, 4, 1 << 27}, {0}, "by_rows", 5},
    {BF16, {1, 8, 1 << 26}, {0}, "by_rows", 3},
    {F32, {1, 53687092, 5}, {0}, "by_items", 3},
    {F32, {1, 29826164, 9}, {0}, "by_items", 4},
    {F32, {1, 13421772, 20}, {0}, "by_items", 3},
    {BF16, {1, 13421772, 40}, {0}, "by_items", 3},
    /* Little is, or arithmetic decides. */
    {F32, {1, 16384, 16384}, {0}, "by_rows", 0},
    {F32, {1, 256, 1 << 20}, {0}, "by_rows", 0},
    {F32, {1, 64, 1 << 22}, {0}, "by_rows", 0},
    {BF16, {1, 16, 1 << 25}, {0}, "by_rows", 0},
    {BF16, {1, 59652328, 9}, {0}, "by_items", 0},
    {F32, {1, 894784, 301}, {0}, "by_items", 0},
    {F32, {1, 9, 29826163}, {0}, "by_items", 0},
    {F32, {1, 16384, 16383}, {0}, "by_shifts", 0},
    {F16, {1, 16384, 16384}, {1, 1}, "by_shifts", 0},
    {BF16, {1, 16384, 16384}, {0, 1}, "by_shifts", 0},
    {F32, {1, 67, 4006499}, {0}, "by_shifts", 0},
    {F32, {1, 33, 8134407}, {0}, "by_items", 0},
    {BF16, {1, 1 << 27, 4}, {0}, "by_lines", 0},
    {F32, {1 << 22, 8, 8}, {0}, "by_lines", 0},
    /* What is not larger than twice the cache. */
    {F32, {1, 1 << 20, 4}, {0}, "by_rows", 0},
    {F32, {1, 7864320, 4}, {0}, "by_rows", 0},
    {F32, {1, 7864321, 4}, {0}, "by_rows", 4},
};

static void ways_and_residents(void **state) {
    (void)state;
    mlxn_device *device = planning_open(48 << 10);
    device->info.cache_bytes = CACHE;
    planning_sees = see;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        plan(device, (mlxn_dtype)plans[i].dtype, plans[i].shape, plans[i].shift);
        char expected[64];
        snprintf(expected, sizeof expected, "outer_product_%s_%s", plans[i].way,
                 mlxn_dtype_name((mlxn_dtype)plans[i].dtype));
        if (strcmp(kernel, expected) != 0 || residents != plans[i].residents)
            fail_msg("%lld x %lld: %s with %u groups, expected %s with %u", (long long)plans[i].shape[1],
                     (long long)plans[i].shape[2], kernel, residents, expected, plans[i].residents);
    }
    device->info.cache_bytes = 0; /* not known */
    plan(device, MLXN_F32, plans[0].shape, plans[0].shift);
    assert_int_equal(residents, 0);
    planning_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_and_residents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
