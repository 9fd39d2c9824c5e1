/* The functions of the OpenCL loader, opened at run time, and the names of its errors. */
#ifndef MLXN_BACKEND_OPENCL_API_H
#define MLXN_BACKEND_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>

/* The functions of functions.def, without the cl before their names. */
typedef struct mlxn_opencl_api {
#define FUNCTION(name) __typeof__(&cl##name) name;
#include "backend/opencl/functions.def"
#undef FUNCTION
} mlxn_opencl_api;

/* The functions; used after mlxn_opencl_load has returned NULL. */
extern mlxn_opencl_api mlxn_cl;

/* Opens the loader. NULL, or why there is none. Called once. */
const char *mlxn_opencl_load(void);

/* "CL_OUT_OF_RESOURCES", or "an unknown error". */
const char *mlxn_opencl_error(cl_int error);

#endif
