/* What the tests of OpenCL devices share: the device, and functions of the driver that a test replaces. */
#ifndef MLXN_TESTS_OPENCL_OPENCL_TEST_H
#define MLXN_TESTS_OPENCL_OPENCL_TEST_H

#include "support/test.h"

/* The first OpenCL device that is available, opened; its cache is off unless `options` names a folder. The test is skipped,
 * and says why, where there is none. */
mlxn_device *opencl_device(const mlxn_device_options *options);

/* Whether there is one; if not, says why. */
bool opencl_is_here(void);

/* Adds a kernel whose name is "k". */
void opencl_kernel(mlxn_device *device, const char *source);

/* A dispatch of "k". `bindings` ends with a NULL buffer. */
typedef struct opencl_dispatch {
    const mlxn_binding *bindings;
    const void *constants;
    size_t constant_bytes;
    uint64_t grid[3]; /* 0 means 1 */
    uint32_t group[3];
    uint32_t local_bytes;
} opencl_dispatch;
mlxn_status opencl_record(mlxn_encoder *encoder, const opencl_dispatch *dispatch);

/* Runs it at once. */
void opencl_run(mlxn_device *device, const opencl_dispatch *dispatch);

/* ---- replaced functions of the driver: before the first call of the library -------------------------- */

/* Makes `function` what the library finds as `name` ("clCreateBuffer"). */
void fake_function(const char *name, void *function);

/* The driver's own function of that name, for the replacement to call. */
void *real_function(const char *name);

/* Makes the library find no loader, or one that lacks a function. */
extern bool fake_no_loader;
extern const char *fake_missing_function;

#endif
