#include "opencl_test.h"

static mlxn_device_info find(void) {
    mlxn_device_info info = {.size = sizeof info};
    char reason[sizeof info.reason] = "the library has no OpenCL";
    for (size_t i = 0; i < mlxn_device_count(); i++) {
        OK(mlxn_device_at(i, &info));
        if (strncmp(info.name, "opencl", 6) != 0)
            continue;
        if (info.available)
            return info;
        snprintf(reason, sizeof reason, "%s", info.reason);
    }
    info.available = false;
    snprintf(info.reason, sizeof info.reason, "%s", reason);
    return info;
}

bool opencl_is_here(void) {
    const mlxn_device_info info = find();
    if (!info.available)
        print_message("skipped: no OpenCL device: %s\n", info.reason);
    return info.available;
}

mlxn_device *opencl_device(const mlxn_device_options *options) {
    if (!opencl_is_here())
        skip();
    if (options == NULL || options->cache_folder == NULL)
        setenv("MLXN_CACHE", "off", 1);
    else
        unsetenv("MLXN_CACHE");
    mlxn_device *device = NULL;
    OK(mlxn_device_open(find().name, options, &device));
    return device;
}

void opencl_kernel(mlxn_device *device, const char *source) {
    OK(mlxn_registry_add_source(device, "k", source));
}

mlxn_status opencl_record(mlxn_encoder *encoder, const opencl_dispatch *dispatch) {
    mlxn_dispatch full = {.size = sizeof full,
                          .kernel = "k",
                          .bindings = dispatch->bindings,
                          .constants = dispatch->constants,
                          .constant_bytes = dispatch->constant_bytes,
                          .local_bytes = dispatch->local_bytes};
    while (dispatch->bindings != NULL && dispatch->bindings[full.binding_count].buffer != NULL)
        full.binding_count++;
    for (int i = 0; i < 3; i++) {
        full.grid[i] = dispatch->grid[i] > 0 ? dispatch->grid[i] : 1;
        full.group[i] = dispatch->group[i] > 0 ? dispatch->group[i] : 1;
    }
    return mlxn_encoder_dispatch(encoder, &full);
}

void opencl_run(mlxn_device *device, const opencl_dispatch *dispatch) {
    mlxn_encoder *encoder = test_encoder(device);
    OK(opencl_record(encoder, dispatch));
    OK(mlxn_encoder_commit_and_wait(encoder));
    mlxn_encoder_destroy(encoder);
}
