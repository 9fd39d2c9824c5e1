/* Kernels of OpenCL devices: from the disk cache where they are there, else compiled. */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/devices.h"
#include "backend/opencl/opencl.h"
#include "core/cache.h"
#include "kernels/text.h"

enum { MAX_PIECES = 24 };

/* The text of a kernel: pieces, ended by NULL. */
typedef struct source {
    const char *pieces[MAX_PIECES + 1];
    cl_uint count;
    char options[128];
} source;

static mlxn_status source_of(const mlxn_device *device, const mlxn_kernel *kernel, source *made) {
    const mlxn_opencl_state *state = device->state;
    *made = (source){.count = 0};
    /* OpenCL C fuses a * b + c unless it is told not to; the number of a user's line stays what it is. */
    made->pieces[made->count++] = kernel->built_in ? mlxn_text_opencl : "#pragma OPENCL FP_CONTRACT OFF\n#line 1\n";
    for (const char *const *piece = kernel->text; *piece != NULL; piece++) {
        if (made->count == MAX_PIECES) {
            return mlxn_fail(MLXN_COMPILE_FAILED, "%s: kernel \"%.80s\" has more than %d pieces of text",
                             device->info.name, kernel->name, MAX_PIECES);
        }
        made->pieces[made->count++] = *piece;
    }
    snprintf(made->options, sizeof made->options,
             "-w -cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt -DMLXN_F64=%d%s", state->f64,
             kernel->built_in ? "" : " -cl-kernel-arg-info"); /* arguments.c asks for it */
    return MLXN_OK;
}

/* What a compiled program depends on. */
static mlxn_cache_key key_of(const mlxn_opencl_state *state, const source *from) {
    char platform[256], platform_version[256], device[256], device_version[256], driver[256];
    const char *texts[MAX_PIECES + 8] = {
        "opencl",
        mlxn_opencl_platform_text(state->platform, CL_PLATFORM_NAME, platform, sizeof platform),
        mlxn_opencl_platform_text(state->platform, CL_PLATFORM_VERSION, platform_version, sizeof platform_version),
        mlxn_opencl_device_text(state->device, CL_DEVICE_NAME, device, sizeof device),
        mlxn_opencl_device_text(state->device, CL_DEVICE_VERSION, device_version, sizeof device_version),
        mlxn_opencl_device_text(state->device, CL_DRIVER_VERSION, driver, sizeof driver),
        from->options,
    };
    memcpy(texts + 7, from->pieces, from->count * sizeof *from->pieces);
    return mlxn_cache_key_of(texts);
}

/* ---- programs ------------------------------------------------------------------------------------- */

/* Whether the text or the lack of memory is at fault: only that may pass. Some drivers use the vaguest of its names. */
static mlxn_status blame(cl_int error) {
    return error == CL_OUT_OF_HOST_MEMORY || error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES
               ? MLXN_OUT_OF_MEMORY
               : MLXN_COMPILE_FAILED;
}

/* Fails with the compiler's log. */
static mlxn_status explain_build(const mlxn_device *device, const mlxn_kernel *kernel, cl_program program,
                                 cl_int error) {
    const mlxn_opencl_state *state = device->state;
    size_t bytes = 0;
    char *report = NULL;
    mlxn_cl.GetProgramBuildInfo(program, state->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
    if (bytes > 0 && (report = mlxn_allocate(&device->allocator, bytes + 1, 1)) != NULL) {
        report[0] = report[bytes] = '\0';
        mlxn_cl.GetProgramBuildInfo(program, state->device, CL_PROGRAM_BUILD_LOG, bytes, report, NULL);
    }
    const mlxn_status status =
        mlxn_fail(blame(error), "%s: kernel \"%.80s\" does not compile: %s (%d): %s", device->info.name, kernel->name,
                  mlxn_opencl_error(error), (int)error, report != NULL ? report : "no report");
    mlxn_free(&device->allocator, report, bytes + 1);
    return status;
}

static mlxn_status build_source(mlxn_device *device, const mlxn_kernel *kernel, source *from, cl_program *program) {
    const mlxn_opencl_state *state = device->state;
    cl_int error = CL_SUCCESS;
    *program = mlxn_cl.CreateProgramWithSource(state->context, from->count, from->pieces, NULL, &error);
    if (*program == NULL) {
        return mlxn_opencl_failed(device, "clCreateProgramWithSource", kernel->name, error);
    }
    error = mlxn_cl.BuildProgram(*program, 1, &state->device, from->options, NULL, NULL);
    if (error == CL_SUCCESS) {
        return MLXN_OK;
    }
    const mlxn_status status = explain_build(device, kernel, *program, error);
    mlxn_cl.ReleaseProgram(*program);
    return status;
}

/* The program of the cache's binary, or NULL: the driver need not take it. */
static cl_program build_binary(mlxn_device *device, mlxn_cache_key key, const char *options) {
    const mlxn_opencl_state *state = device->state;
    size_t bytes;
    unsigned char *binary = mlxn_cache_load(device, key, &bytes);
    if (binary == NULL) {
        return NULL;
    }
    cl_int error = CL_SUCCESS, taken = CL_SUCCESS;
    cl_program program = mlxn_cl.CreateProgramWithBinary(state->context, 1, &state->device, &bytes,
                                                         (const unsigned char **)&binary, &taken, &error);
    mlxn_free(&device->allocator, binary, bytes);
    if (program != NULL &&
        (taken != CL_SUCCESS || mlxn_cl.BuildProgram(program, 1, &state->device, options, NULL, NULL) != CL_SUCCESS)) {
        mlxn_cl.ReleaseProgram(program);
        program = NULL;
    }
    return program;
}

static void keep_binary(mlxn_device *device, mlxn_cache_key key, cl_program program) {
    size_t bytes = 0;
    if (device->cache_folder == NULL ||
        mlxn_cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS ||
        bytes == 0) {
        return;
    }
    unsigned char *binary = mlxn_allocate(&device->allocator, bytes, 64);
    if (binary == NULL) {
        return;
    }
    if (mlxn_cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS) {
        mlxn_cache_store(device, key, binary, bytes);
    }
    mlxn_free(&device->allocator, binary, bytes);
}

/* PoCL keeps what it has compiled, by the text; and to hand out a binary it compiles the kernel once more, for groups of
 * any size. One that takes 6 seconds then takes 18. */
static bool driver_keeps(const mlxn_opencl_state *state) {
    char name[64];
    return strcmp(mlxn_opencl_platform_text(state->platform, CL_PLATFORM_NAME, name, sizeof name),
                  "Portable Computing Language") == 0;
}

/* ---- kernels -------------------------------------------------------------------------------------- */

/* What the driver tells of the kernel. */
static cl_int describe(const mlxn_opencl_state *state, mlxn_opencl_kernel *made) {
    cl_ulong local_bytes = 0;
    const struct {
        cl_kernel_work_group_info what;
        size_t bytes;
        void *to;
    } questions[] = {
        {CL_KERNEL_WORK_GROUP_SIZE, sizeof made->most_threads, &made->most_threads},
        {CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof made->group, made->group},
        {CL_KERNEL_LOCAL_MEM_SIZE, sizeof local_bytes, &local_bytes},
    };
    cl_int error =
        mlxn_cl.GetKernelInfo(made->kernel, CL_KERNEL_NUM_ARGS, sizeof made->arguments, &made->arguments, NULL);
    for (size_t i = 0; i < sizeof questions / sizeof *questions && error == CL_SUCCESS; i++) {
        error = mlxn_cl.GetKernelWorkGroupInfo(made->kernel, state->device, questions[i].what, questions[i].bytes,
                                               questions[i].to, NULL);
    }
    made->local_bytes = local_bytes;
    return error;
}

/* The kernel of a program, which is released if that fails. */
static mlxn_status finish_kernel(mlxn_device *device, const mlxn_kernel *kernel, cl_program program,
                                 mlxn_opencl_kernel *made) {
    cl_int error = CL_SUCCESS;
    *made = (mlxn_opencl_kernel){.program = program};
    made->kernel = mlxn_cl.CreateKernel(program, kernel->name, &error);
    if (made->kernel != NULL) {
        error = describe(device->state, made);
        if (error == CL_SUCCESS) {
            if (!kernel->built_in) {
                mlxn_opencl_note_arguments(made);
            }
            return MLXN_OK;
        }
        mlxn_cl.ReleaseKernel(made->kernel);
    }
    mlxn_cl.ReleaseProgram(program);
    return mlxn_fail(blame(error), "%s: kernel \"%.80s\": %s: %s (%d)", device->info.name, kernel->name,
                     error == CL_INVALID_KERNEL_NAME ? "the text has no entry point of that name"
                                                     : "the driver refuses the compiled kernel",
                     mlxn_opencl_error(error), (int)error);
}

mlxn_status mlxn_opencl_compile(mlxn_device *device, mlxn_kernel *kernel) {
    source from;
    mlxn_status status = mlxn_opencl_check_fork(device);
    if (status == MLXN_OK) {
        status = source_of(device, kernel, &from);
    }
    if (status != MLXN_OK) {
        return status;
    }
    mlxn_opencl_kernel *compiled = mlxn_allocate(&device->allocator, sizeof *compiled, _Alignof(mlxn_opencl_kernel));
    if (compiled == NULL) {
        return mlxn_fail(MLXN_OUT_OF_MEMORY, "%s: no memory for kernel \"%.80s\"", device->info.name, kernel->name);
    }
    const mlxn_cache_key key = key_of(device->state, &from);
    const bool keep = !driver_keeps(device->state);
    cl_program program = keep ? build_binary(device, key, from.options) : NULL;
    if (program == NULL || finish_kernel(device, kernel, program, compiled) != MLXN_OK) {
        status = build_source(device, kernel, &from, &program);
        if (status == MLXN_OK) {
            status = finish_kernel(device, kernel, program, compiled);
        }
        if (status == MLXN_OK && keep) {
            keep_binary(device, key, program);
        }
    }
    if (status == MLXN_OK) {
        kernel->compiled = compiled;
    } else {
        mlxn_free(&device->allocator, compiled, sizeof *compiled);
    }
    return status;
}

void mlxn_opencl_unload(mlxn_device *device, mlxn_kernel *kernel) {
    const mlxn_opencl_state *state = device->state;
    mlxn_opencl_kernel *compiled = kernel->compiled;
    if (!state->forked) {
        mlxn_cl.ReleaseKernel(compiled->kernel);
        mlxn_cl.ReleaseProgram(compiled->program);
    }
    mlxn_free(&device->allocator, compiled, sizeof *compiled);
}
