#include "cuda_test.h"

#include "core/encoder.h"
#include "core/registry.h"

static mlxn_status add_own_kernels(mlxn_device *device) {
    static const char *const texts[][2] = {{"KERNEL(own_add, 1024, 1)(...) { AWAIT(); }", NULL},
                                           {"KERNEL(own_sum, 1024, 1)(...) { AWAIT(); }", NULL},
                                           {"KERNEL(own_twice, 1024, 1)(...) { AWAIT(); }", NULL}};
    static const char *const names[] = {"own_add", "own_sum", "own_twice"};
    mlxn_status status = MLXN_OK;
    for (size_t i = 0; status == MLXN_OK && i < sizeof names / sizeof *names; i++)
        status = mlxn_registry_add_built_in(device, &(mlxn_kernel){.name = names[i], .text = texts[i]});
    return status;
}

mlxn_status cuda_add_kernels(mlxn_device *device) {
    static const char *const names[] = {"add", "sum", "twice", "trap", "narrow"};
    mlxn_status status = add_own_kernels(device);
    for (size_t i = 0; status == MLXN_OK && i < sizeof names / sizeof *names; i++) {
        char text[80];
        /* A user's text may have any word in it. */
        snprintf(text, sizeof text, "extern \"C\" __global__ void %s(...) { %s }", names[i],
                 strcmp(names[i], "twice") == 0 ? "AWAIT();" : "");
        status = mlxn_registry_add_source(device, names[i], text);
    }
    return status;
}

mlxn_device *cuda_device(void) {
    setenv("MLXN_CACHE", "off", 1);
    mlxn_device *device;
    OK(mlxn_device_open("cuda:0", NULL, &device));
    OK(cuda_add_kernels(device));
    return device;
}

mlxn_dispatch cuda_dispatch(const char *kernel, const mlxn_binding *bindings, size_t count,
                            const fake_constants *constants) {
    return (mlxn_dispatch){.size = sizeof(mlxn_dispatch),
                           .kernel = kernel,
                           .bindings = bindings,
                           .binding_count = count,
                           .constants = constants,
                           .constant_bytes = sizeof *constants,
                           .grid = {(constants->n + 63) / 64, 1, 1},
                           .group = {64, 1, 1}};
}

/* As an op does it. */
static void record_own(mlxn_encoder *encoder, const mlxn_dispatch *dispatch) {
    mlxn_slice slices[3];
    for (size_t i = 0; i < dispatch->binding_count; i++)
        slices[i] = mlxn_slice_of(dispatch->bindings[i].buffer, dispatch->bindings[i].access);
    mlxn_recording recording = {.kernel = dispatch->kernel,
                                .slices = slices,
                                .slice_count = dispatch->binding_count,
                                .constants = dispatch->constants,
                                .constant_bytes = dispatch->constant_bytes};
    memcpy(recording.grid, dispatch->grid, sizeof recording.grid);
    memcpy(recording.group, dispatch->group, sizeof recording.group);
    mlxn_status status = mlxn_encoder_open_for(encoder, dispatch->kernel);
    if (status == MLXN_OK)
        status = mlxn_encoder_record(encoder, &recording);
    if (status != MLXN_OK)
        mlxn_encoder_fail(encoder, status);
}

void cuda_record(mlxn_encoder *encoder, const char *kernel, mlxn_buffer *const *buffers, size_t count, float by) {
    mlxn_binding bindings[3];
    for (size_t i = 0; i < count; i++)
        bindings[i] = (mlxn_binding){buffers[i], i + 1 < count ? MLXN_READ : count == 1 ? MLXN_READ_WRITE : MLXN_WRITE};
    const fake_constants constants = {by, (unsigned)mlxn_buffer_count(buffers[0])};
    const mlxn_dispatch dispatch = cuda_dispatch(kernel, bindings, count, &constants);
    if (strncmp(kernel, "own_", 4) == 0) {
        record_own(encoder, &dispatch);
        return;
    }
    mlxn_encoder_dispatch(encoder, &dispatch); /* a failure is the encoder's */
}

void cuda_expect(const mlxn_buffer *buffer, float expected) {
    const size_t bytes = mlxn_buffer_bytes(buffer);
    float *data = malloc(bytes);
    OK(mlxn_buffer_read(buffer, 0, bytes, data));
    for (size_t i = 0; i < bytes / sizeof *data; i++)
        if (data[i] != expected)
            fail_msg("element %zu is %g, expected %g", i, (double)data[i], (double)expected);
    free(data);
}

int cuda_teardown(void **state) {
    (void)state;
    fake_run_all();
    const bool clean = fake.complaints == 0 && fake.contexts == 0 && fake_current() == 0;
    if (!clean)
        print_error("%d complaints, %d contexts retained, %d current\n", fake.complaints, fake.contexts,
                    fake_current());
    fake.complaints = 0;
    fake.no_graphs = fake.no_pinned = fake.no_nvrtc = fake.refuse_image = false;
    fake.no_early = fake.no_early_graphs = false;
    fake.capability = fake.newest = 90;
    fake.fail_at = 0;
    return clean ? 0 : -1;
}
