#include "placed.h"

/* Elements. Places count from a multiple of 16 of them, as storage is aligned to 64 bytes at least. */
enum { ALIGNED = 16, MARGIN = 48, PATTERN = 0xff };

static bool is_cpu(const mlxn_device *device) {
    mlxn_device_info info = {.size = sizeof info};
    OK(mlxn_device_get_info(device, &info));
    return strcmp(info.name, "cpu") == 0;
}

static void wrap(placed *p, mlxn_device *device, const op_case *c, const op_arrays *a, const op_layout *layout) {
    for (size_t i = 0; i < p->count; i++) {
        p->guards[i] = guard_create(p->bytes[i], layout->place, layout->shift[i] * mlxn_dtype_size(c->dtype));
        memcpy(p->guards[i].memory, a->array[i], p->bytes[i]);
        int64_t shape[MLXN_MAX_RANK];
        const size_t rank = op_case_shape(c, i, shape);
        const mlxn_wrap_options options = {.size = sizeof options, .read_only = i < c->op->input_count};
        OK(mlxn_buffer_wrap(device, c->dtype, rank, shape, p->guards[i].memory, &options, &p->buffer[i]));
    }
}

/* The element where an argument begins that comes after element `end`. */
static size_t place(size_t end, size_t count, guard_place where, size_t shift) {
    const size_t begin = (end + MARGIN + ALIGNED - 1) / ALIGNED * ALIGNED;
    return begin + (where == GUARD_AT_START ? shift : (2 * ALIGNED - (count + shift) % ALIGNED) % ALIGNED);
}

static void copy(placed *p, mlxn_device *device, const op_case *c, const op_arrays *a, const op_layout *layout) {
    const size_t size = mlxn_dtype_size(c->dtype);
    size_t end = 0;
    for (size_t i = 0; i < p->count; i++) {
        const size_t begin = place(end, a->count[i], layout->place, layout->shift[i]);
        p->at[i] = begin * size;
        end = begin + a->count[i];
    }
    p->storage_bytes = (end + MARGIN) * size;
    p->contents = malloc(p->storage_bytes);
    assert_non_null(p->contents);
    memset(p->contents, PATTERN, p->storage_bytes);
    p->storage = test_vector(device, c->dtype, (int64_t)(end + MARGIN));
    for (size_t i = 0; i < p->count; i++) {
        memcpy(p->contents + p->at[i], a->array[i], p->bytes[i]);
        int64_t shape[MLXN_MAX_RANK];
        const size_t rank = op_case_shape(c, i, shape);
        OK(mlxn_buffer_view(p->storage, (int64_t)(p->at[i] / size), rank, shape, &p->buffer[i]));
    }
    test_write(p->storage, p->contents);
}

placed placed_create(mlxn_device *device, const op_case *c, const op_arrays *a, const op_layout *layout) {
    placed p = {.count = op_case_arguments(c)};
    for (size_t i = 0; i < p.count; i++)
        p.bytes[i] = a->count[i] * mlxn_dtype_size(c->dtype);
    if (is_cpu(device))
        wrap(&p, device, c, a, layout);
    else
        copy(&p, device, c, a, layout);
    return p;
}

void placed_finish(placed *p) {
    if (p->storage != NULL)
        OK(mlxn_buffer_read(p->storage, 0, p->storage_bytes, p->contents));
    mlxn_buffer_destroy(p->storage);
    for (size_t i = 0; i < p->count; i++)
        mlxn_buffer_destroy(p->buffer[i]);
}

const void *placed_result(const placed *p, size_t argument) {
    return p->contents != NULL ? p->contents + p->at[argument] : p->guards[argument].memory;
}

bool placed_intact(const placed *p, size_t argument) {
    if (p->contents == NULL)
        return guard_intact(&p->guards[argument]);
    const size_t begin = p->at[argument], end = begin + p->bytes[argument];
    const size_t from = argument > 0 ? p->at[argument - 1] + p->bytes[argument - 1] : 0;
    const size_t to = argument + 1 < p->count ? p->at[argument + 1] : p->storage_bytes;
    for (size_t i = from; i < to; i++)
        if ((i < begin || i >= end) && p->contents[i] != PATTERN)
            return false;
    return true;
}

void placed_destroy(placed *p) {
    for (size_t i = 0; i < p->count; i++)
        guard_destroy(&p->guards[i]);
    free(p->contents);
    memset(p, 0, sizeof *p);
}
