#include "support/planning.h"

#include "core/op.h"

static uintptr_t next_address;
static size_t live_bytes;

void (*planning_sees)(const mlxn_record *record);

size_t planning_live_bytes(void) {
    return live_bytes;
}

static mlxn_status plan_allocate(mlxn_device *device, size_t bytes, mlxn_memory *memory) {
    (void)device;
    *memory = (mlxn_memory){.address = next_address, .bytes = bytes};
    next_address += (bytes + 255) / 256 * 256;
    live_bytes += bytes;
    return MLXN_OK;
}

static void plan_release(mlxn_device *device, mlxn_memory *memory) {
    (void)device;
    live_bytes -= memory->bytes;
}

static mlxn_status plan_compile(mlxn_device *device, mlxn_kernel *kernel) {
    (void)device, (void)kernel;
    return MLXN_OK;
}

static mlxn_status plan_wait(mlxn_device *device, mlxn_list *list) {
    (void)device, (void)list;
    return MLXN_OK;
}

/* No dispatch writes what it reads elsewhere: sums that are added up in several passes go from one memory to another, since
 * groups of a dispatch run in any order. */
static mlxn_status plan_commit(mlxn_device *device, mlxn_list *list, bool timing) {
    (void)device, (void)timing;
    for (size_t r = 0; r < list->count; r++) {
        const mlxn_record *record = list->records[r];
        if (planning_sees != NULL)
            planning_sees(record);
        for (uint32_t i = 0; i < record->slice_count; i++)
            for (uint32_t k = 0; k < record->slice_count; k++)
                if (record->slices[i].access == MLXN_READ && record->slices[k].access != MLXN_READ &&
                    mlxn_slices_overlap(&record->slices[i], &record->slices[k]))
                    fail_msg("dispatch %zu, %s, writes argument %u over argument %u", r, record->kernel->name, k, i);
    }
    return MLXN_OK;
}

static const mlxn_backend *cpu_backend;
static mlxn_backend plan_backend;

/* The CPU device with the functions above in place of its own, and the names of the kernels of graphics processors. */
mlxn_device *planning_open(size_t local_bytes) {
    mlxn_device *device = test_cpu(1);
    cpu_backend = device->backend;
    plan_backend = *cpu_backend;
    plan_backend.allocate = plan_allocate;
    plan_backend.release = plan_release;
    plan_backend.compile = plan_compile;
    plan_backend.commit = plan_commit;
    plan_backend.wait = plan_wait;
    device->backend = &plan_backend;
    device->local_bytes = local_bytes;
    for (size_t i = 0; i < mlxn_family_count; i++)
        for (size_t k = 0; k < mlxn_families[i]->gpu->count; k++) {
            const mlxn_gpu_kernel *kernel = &mlxn_families[i]->gpu->list[k];
            const mlxn_status status =
                mlxn_registry_add_built_in(device, &(mlxn_kernel){.name = kernel->name, .text = kernel->text});
            assert_true(status == MLXN_OK || status == MLXN_ALREADY_EXISTS); /* the CPU has some of the same name */
        }
    next_address = 256;
    live_bytes = 0;
    return device;
}

void planning_close(mlxn_device *device) {
    planning_sees = NULL;
    device->backend = cpu_backend;
    mlxn_device_destroy(device);
}
