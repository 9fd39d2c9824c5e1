/* The functions of the OpenCL loader, opened at run time, and the names of its errors. */
#ifndef MLXN_BACKEND_OPENCL_API_H
#define MLXN_BACKEND_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>

/* Every function that is called, without the cl before its name. */
#define MLXN_OPENCL_FUNCTIONS(X) \
    X(GetPlatformIDs)            \
    X(GetPlatformInfo)           \
    X(GetDeviceIDs)              \
    X(GetDeviceInfo)             \
    X(CreateContext)             \
    X(ReleaseContext)            \
    X(CreateCommandQueue)        \
    X(ReleaseCommandQueue)       \
    X(CreateBuffer)              \
    X(ReleaseMemObject)          \
    X(CreateProgramWithSource)   \
    X(CreateProgramWithBinary)   \
    X(BuildProgram)              \
    X(GetProgramInfo)            \
    X(GetProgramBuildInfo)       \
    X(ReleaseProgram)            \
    X(CreateKernel)              \
    X(SetKernelArg)              \
    X(GetKernelInfo)             \
    X(GetKernelWorkGroupInfo)    \
    X(ReleaseKernel)             \
    X(EnqueueNDRangeKernel)      \
    X(EnqueueReadBuffer)         \
    X(EnqueueWriteBuffer)        \
    X(EnqueueFillBuffer)         \
    X(WaitForEvents)             \
    X(GetEventInfo)              \
    X(GetEventProfilingInfo)     \
    X(ReleaseEvent)              \
    X(Flush)                     \
    X(Finish)

typedef struct mlxn_opencl_api {
#define MEMBER(name) __typeof__(&cl##name) name;
    MLXN_OPENCL_FUNCTIONS(MEMBER)
#undef MEMBER
} mlxn_opencl_api;

/* The functions; used after mlxn_opencl_load has returned NULL. */
extern mlxn_opencl_api mlxn_cl;

/* Opens the loader. NULL, or why there is none. Called once. */
const char *mlxn_opencl_load(void);

/* "CL_OUT_OF_RESOURCES", or "an unknown error". */
const char *mlxn_opencl_error(cl_int error);

#endif
