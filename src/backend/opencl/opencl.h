/* What the parts of the OpenCL backend share: the state of an open device, and compiled kernels. */
#ifndef MLXN_BACKEND_OPENCL_OPENCL_H
#define MLXN_BACKEND_OPENCL_OPENCL_H

#include "backend/opencl/api.h"
#include "core/device.h"
#include "core/encoder.h"

typedef struct mlxn_opencl_state {
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue work;   /* in order: dispatches and copies */
    cl_command_queue memory; /* fills new memory, without waiting for work */
    cl_command_queue timing; /* measures; made when a commit first needs it, with the device's lock held */
    bool f64;
    bool forked; /* this is a child's copy: the driver is not to be touched */
    size_t most_threads;
    size_t most_threads_of[3]; /* in x, y, z */
    _Atomic(uintptr_t) next_address;
} mlxn_opencl_state;

/* What a user's kernel declares an argument to be. A value may be of a typedef's name, and so a ulong too. */
typedef enum mlxn_opencl_argument {
    MLXN_OPENCL_UNKNOWN, /* the driver does not tell */
    MLXN_OPENCL_MEMORY,  /* a __global or __constant pointer */
    MLXN_OPENCL_LOCAL,   /* a __local pointer */
    MLXN_OPENCL_ULONG,
    MLXN_OPENCL_NUMBER, /* another number, or a vector */
    MLXN_OPENCL_VALUE,  /* of another type */
    MLXN_OPENCL_OTHER,  /* an image, a sampler */
} mlxn_opencl_argument;

enum { MLXN_OPENCL_MAX_ARGUMENTS = 2 * MLXN_MAX_BINDINGS + 2 }; /* of a dispatch */

/* kernel->compiled. A kernel's arguments are set with the device's lock held. */
typedef struct mlxn_opencl_kernel {
    cl_program program;
    cl_kernel kernel;
    cl_uint arguments;
    size_t most_threads;
    size_t group[3];      /* what the text demands, or zeros */
    uint64_t local_bytes; /* that the text declares */
    unsigned char kinds[MLXN_OPENCL_MAX_ARGUMENTS];
    bool taken; /* the driver took arguments, with so many bytes of constants and of local memory */
    uint32_t taken_constant_bytes, taken_local_bytes;
} mlxn_opencl_kernel;

/* The failure of a driver's function. `of` names what it was called for. */
mlxn_status mlxn_opencl_failed(const mlxn_device *device, const char *function, const char *of, cl_int error);

/* MLXN_DEVICE_FAILED in a forked child, else MLXN_OK. */
mlxn_status mlxn_opencl_check_fork(const mlxn_device *device);

mlxn_status mlxn_opencl_compile(mlxn_device *device, mlxn_kernel *kernel);
void mlxn_opencl_unload(mlxn_device *device, mlxn_kernel *kernel);

/* Asks the driver for the kinds of the arguments of a user's kernel. */
void mlxn_opencl_note_arguments(mlxn_opencl_kernel *compiled);

/* Fails if they are not what the dispatch gives, which is as many, or the driver does not take it. Called before anything
 * of a list runs. */
mlxn_status mlxn_opencl_check_arguments(const mlxn_device *device, const mlxn_record *record);

/* Sets the kernel's arguments, with the device's lock held. */
mlxn_status mlxn_opencl_set_arguments(const mlxn_device *device, const mlxn_record *record);

mlxn_status mlxn_opencl_commit(mlxn_device *device, mlxn_list *list, bool timing);
mlxn_status mlxn_opencl_wait(mlxn_device *device, mlxn_list *list);
void mlxn_opencl_forget(mlxn_device *device, mlxn_list *list);

#endif
