#include "backend/opencl/api.h"

#include <string.h>

#include "backend/opencl/library.h"

mlxn_opencl_api mlxn_cl;

const char *mlxn_opencl_load(void) {
    void *library = mlxn_opencl_open_library();
    if (library == NULL) {
        return "there is no OpenCL loader (libOpenCL.so.1)";
    }
    const struct {
        const char *name;
        void *function;
    } functions[] = {
#define FUNCTION(name) {"cl" #name, &mlxn_cl.name},
#include "backend/opencl/functions.def"
#undef FUNCTION
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = mlxn_opencl_find_function(library, functions[i].name);
        if (function == NULL) {
            return "the OpenCL loader (libOpenCL.so.1) is older than OpenCL 1.2";
        }
        memcpy(functions[i].function, &function, sizeof function);
    }
    return NULL;
}

const char *mlxn_opencl_error(cl_int error) {
    static const struct {
        cl_int error;
        const char *name;
    } names[] = {
#define NAME(error) {error, #error}
        NAME(CL_DEVICE_NOT_FOUND),
        NAME(CL_DEVICE_NOT_AVAILABLE),
        NAME(CL_COMPILER_NOT_AVAILABLE),
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
        NAME(CL_OUT_OF_RESOURCES),
        NAME(CL_OUT_OF_HOST_MEMORY),
        NAME(CL_BUILD_PROGRAM_FAILURE),
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        NAME(CL_INVALID_VALUE),
        NAME(CL_INVALID_DEVICE),
        NAME(CL_INVALID_CONTEXT),
        NAME(CL_INVALID_COMMAND_QUEUE),
        NAME(CL_INVALID_MEM_OBJECT),
        NAME(CL_INVALID_BINARY),
        NAME(CL_INVALID_BUILD_OPTIONS),
        NAME(CL_INVALID_PROGRAM),
        NAME(CL_INVALID_PROGRAM_EXECUTABLE),
        NAME(CL_INVALID_KERNEL_NAME),
        NAME(CL_INVALID_KERNEL_DEFINITION),
        NAME(CL_INVALID_KERNEL),
        NAME(CL_INVALID_ARG_INDEX),
        NAME(CL_INVALID_ARG_VALUE),
        NAME(CL_INVALID_ARG_SIZE),
        NAME(CL_INVALID_KERNEL_ARGS),
        NAME(CL_INVALID_WORK_DIMENSION),
        NAME(CL_INVALID_WORK_GROUP_SIZE),
        NAME(CL_INVALID_WORK_ITEM_SIZE),
        NAME(CL_INVALID_EVENT),
        NAME(CL_INVALID_OPERATION),
        NAME(CL_INVALID_BUFFER_SIZE),
        NAME(CL_INVALID_GLOBAL_WORK_SIZE),
#undef NAME
        {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].error == error) {
            return names[i].name;
        }
    }
    return "an unknown error";
}
