/* The one place that joins the core, the backends and the op families. */
#include "core/backend.h"
#include "core/op.h"

extern const mlxn_family mlxn_elementwise_family;
extern const mlxn_family mlxn_outer_product_family;

const mlxn_family *const mlxn_families[] = {
    &mlxn_elementwise_family,
    &mlxn_outer_product_family,
};
const size_t mlxn_family_count = sizeof mlxn_families / sizeof *mlxn_families;

extern const mlxn_backend mlxn_cpu_backend;
extern const mlxn_backend mlxn_cuda_backend;
extern const mlxn_backend mlxn_opencl_backend;

/* In the order of the device list. mlxn_device_open(NULL) takes the first graphics processor of it, else the first device
 * that is available. */
const mlxn_backend *const mlxn_backends[] = {
    &mlxn_cpu_backend,
    &mlxn_cuda_backend,
    &mlxn_opencl_backend,
};
const size_t mlxn_backend_count = sizeof mlxn_backends / sizeof *mlxn_backends;
