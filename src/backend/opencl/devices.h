/* The OpenCL devices of this machine, looked for once. */
#ifndef MLXN_BACKEND_OPENCL_DEVICES_H
#define MLXN_BACKEND_OPENCL_DEVICES_H

#include "backend/opencl/api.h"
#include "mlxn/mlxn.h"

/* An entry of the device list; where `device` is NULL it tells why there is none. */
typedef struct mlxn_opencl_entry {
    cl_platform_id platform;
    cl_device_id device;
    bool f64;
    char driver[36]; /* its version */
    mlxn_device_info info;
} mlxn_opencl_entry;

size_t mlxn_opencl_count(void);
const mlxn_opencl_entry *mlxn_opencl_entry_at(size_t index);
void mlxn_opencl_describe(size_t index, mlxn_device_info *info);

/* Fills info->detail, by whether kernels may use f64 where the device has it. */
void mlxn_opencl_write_detail(const mlxn_opencl_entry *entry, bool allowed, mlxn_device_info *info);

/* Whether MLXN_OPENCL_F64 is "off": kernels do without f64 where the device has it, for tests. */
bool mlxn_opencl_f64_is_off(void);

/* A text that the driver has: never longer than `bytes`, "" if there is none. Returns `text`. */
const char *mlxn_opencl_platform_text(cl_platform_id platform, cl_platform_info what, char *text, size_t bytes);
const char *mlxn_opencl_device_text(cl_device_id device, cl_device_info what, char *text, size_t bytes);

/* Numbers that the driver has; 0 where it does not tell. */
uint64_t mlxn_opencl_number(cl_device_id device, cl_device_info what); /* of 4 or 8 bytes */

#endif
