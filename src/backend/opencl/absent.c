/* In the place of all other files of this folder, where the build has no OpenCL headers or leaves OpenCL out. */
#include <stdio.h>

#include "core/backend.h"

static size_t absent_count(void) {
    return 1;
}

static void absent_describe(size_t index, mlxn_device_info *info) {
    (void)index;
    snprintf(info->name, sizeof info->name, "opencl");
    snprintf(info->description, sizeof info->description, "OpenCL");
    snprintf(info->reason, sizeof info->reason, "this build of mlxn has no OpenCL");
}

/* Nothing else is called of a backend without an available device. */
extern const mlxn_backend mlxn_opencl_backend;
const mlxn_backend mlxn_opencl_backend = {.prefix = "opencl", .count = absent_count, .describe = absent_describe};
