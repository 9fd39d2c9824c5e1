/* The CUDA driver, opened at run time: its types, its functions, and how it is found. Nothing of CUDA's is needed to
 * build this; the types have the driver's names and its binary interface. */
#ifndef MLXN_BACKEND_CUDA_DRIVER_H
#define MLXN_BACKEND_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

typedef struct CUDA_KERNEL_NODE_PARAMS_st {
    CUfunction function;
    unsigned grid[3], group[3];
    unsigned local_bytes;
    void **arguments;
    void **extra;
} CUDA_KERNEL_NODE_PARAMS;

/* How a kernel is launched, and what more the launch says of itself. */
typedef struct CUlaunchAttribute_st {
    int id;
    int unused;
    union {
        int programmatic; /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
        unsigned long long all[8];
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
    unsigned grid[3], group[3];
    unsigned local_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned attribute_count;
} CUlaunchConfig;

/* What an edge of a graph waits for. */
typedef struct CUgraphEdgeData_st {
    unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_CONTAINED = 226,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
    CUDA_ERROR_UNKNOWN = 999,

    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_COMPUTEMODE_PROHIBITED = 2,

    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2, /* y and z follow */
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,

    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,

    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1,
    CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1,
};

typedef struct mlxn_cuda_driver {
#define FUNCTION(name, symbol, arguments) CUresult(*name) arguments;
#define OPTIONAL FUNCTION
#include "backend/cuda/driver.def"
#undef FUNCTION
#undef OPTIONAL
} mlxn_cuda_driver;

/* Filled by mlxn_cuda_load. */
extern mlxn_cuda_driver mlxn_cuda;

/* Opens and starts the driver when first called. NULL if that worked; else why it did not. */
const char *mlxn_cuda_load(void);

/* After a successful load: devices of the driver, and the version of CUDA it is made for, such as 13000. */
int mlxn_cuda_device_count(void);
int mlxn_cuda_version(void);

/* True in a child of the process that started the driver: nothing of the driver works there. */
bool mlxn_cuda_forked(void);

/* The driver's words for an error; "unknown error", "CUDA_ERROR_123" if it has none. */
typedef struct mlxn_cuda_error {
    const char *text;
    char name[64];
} mlxn_cuda_error;
mlxn_cuda_error mlxn_cuda_error_of(CUresult result);

#endif
