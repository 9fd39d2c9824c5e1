/* Whether the arguments of a dispatch suit a user's kernel. A driver that is given others may crash: PoCL takes a pointer's
 * bytes for whatever the kernel declares. */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/opencl.h"

enum { MAX_TYPE = 48 };

/* ---- what the kernel declares --------------------------------------------------------------------- */

/* Whether the name is OpenCL's own name of a number or a vector of numbers; a typedef's name tells nothing. */
static bool is_number(const char *type) {
    static const char *const numbers[] = {"char", "uchar", "short", "ushort", "int",  "uint",
                                          "long", "ulong", "float", "double", "half", "bool"};
    const size_t length = strcspn(type, "0123456789");
    if (type[length + strspn(type + length, "0123456789")] != '\0') {
        return false;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strlen(numbers[i]) == length && strncmp(type, numbers[i], length) == 0) {
            return true;
        }
    }
    return false;
}

static mlxn_opencl_argument classify(cl_kernel_arg_address_qualifier address, bool pointer, bool opaque,
                                     const char *type) {
    if (opaque) {
        return MLXN_OPENCL_OTHER;
    }
    switch (address) {
    case CL_KERNEL_ARG_ADDRESS_GLOBAL:
    case CL_KERNEL_ARG_ADDRESS_CONSTANT:
        return MLXN_OPENCL_MEMORY;
    case CL_KERNEL_ARG_ADDRESS_LOCAL:
        return MLXN_OPENCL_LOCAL;
    default:
        return pointer                      ? MLXN_OPENCL_OTHER
               : strcmp(type, "ulong") == 0 ? MLXN_OPENCL_ULONG
               : is_number(type)            ? MLXN_OPENCL_NUMBER
                                            : MLXN_OPENCL_VALUE;
    }
}

/* The kind of an argument, and its declaration as a text. MLXN_OPENCL_UNKNOWN where the driver does not tell. */
static mlxn_opencl_argument kind_of(cl_kernel kernel, cl_uint index, char *text, size_t bytes) {
    cl_kernel_arg_address_qualifier address = CL_KERNEL_ARG_ADDRESS_PRIVATE;
    cl_kernel_arg_access_qualifier access = CL_KERNEL_ARG_ACCESS_NONE;
    char type[256] = "";
    size_t needed = 0;
    snprintf(text, bytes, "an unknown type");
    if (mlxn_cl.GetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address, &address, NULL) !=
            CL_SUCCESS ||
        mlxn_cl.GetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof access, &access, NULL) !=
            CL_SUCCESS ||
        mlxn_cl.GetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, 0, NULL, &needed) != CL_SUCCESS) {
        return MLXN_OPENCL_UNKNOWN;
    }
    /* A name that does not fit is no number's; a pointer of that name has its address space. */
    if (needed > sizeof type ||
        mlxn_cl.GetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, sizeof type - 1, type, NULL) != CL_SUCCESS) {
        snprintf(type, sizeof type, "a type with a long name");
    }
    const bool pointer = strchr(type, '*') != NULL;
    const bool opaque = !pointer && (access != CL_KERNEL_ARG_ACCESS_NONE || strncmp(type, "image", 5) == 0 ||
                                     strcmp(type, "sampler_t") == 0);
    const char *space = opaque                                      ? ""
                        : address == CL_KERNEL_ARG_ADDRESS_GLOBAL   ? "__global "
                        : address == CL_KERNEL_ARG_ADDRESS_CONSTANT ? "__constant "
                        : address == CL_KERNEL_ARG_ADDRESS_LOCAL    ? "__local "
                                                                    : "";
    snprintf(text, bytes, "%s%.*s", space, MAX_TYPE, type);
    return classify(address, pointer, opaque, type);
}

void mlxn_opencl_note_arguments(mlxn_opencl_kernel *compiled) {
    char text[MAX_TYPE + 16];
    for (cl_uint i = 0; i < compiled->arguments && i < MLXN_OPENCL_MAX_ARGUMENTS; i++) {
        compiled->kinds[i] = (unsigned char)kind_of(compiled->kernel, i, text, sizeof text);
    }
}

/* ---- what the dispatch gives ---------------------------------------------------------------------- */

static mlxn_status check_kind(const mlxn_device *device, const mlxn_record *record, cl_uint index, unsigned suiting,
                              const char *expected) {
    const mlxn_opencl_kernel *compiled = record->kernel->compiled;
    if ((suiting | 1u << MLXN_OPENCL_UNKNOWN) >> compiled->kinds[index] & 1) {
        return MLXN_OK;
    }
    char text[MAX_TYPE + 16];
    kind_of(compiled->kernel, index, text, sizeof text);
    return mlxn_fail(MLXN_INVALID_ARGUMENT, "%s: argument %u of %.80s is %s, expected %s", device->info.name, index,
                     record->kernel->name, text, expected);
}

static mlxn_status check_kinds(const mlxn_device *device, const mlxn_record *record) {
    const unsigned memory = 1u << MLXN_OPENCL_MEMORY, local = 1u << MLXN_OPENCL_LOCAL;
    const unsigned offset = 1u << MLXN_OPENCL_ULONG | 1u << MLXN_OPENCL_VALUE;
    const unsigned value = offset | 1u << MLXN_OPENCL_NUMBER;
    cl_uint index = 0;
    mlxn_status status = MLXN_OK;
    for (uint32_t i = 0; i < record->slice_count && status == MLXN_OK; i++) {
        status = check_kind(device, record, index++, memory, "a __global pointer to a buffer's memory");
        if (status == MLXN_OK) {
            status = check_kind(device, record, index++, offset, "a ulong, where in the memory a buffer begins");
        }
    }
    if (status == MLXN_OK && record->constant_bytes > 0) {
        status = check_kind(device, record, index++, value, "the constants, a struct or a number by value");
    }
    if (status == MLXN_OK && record->local_bytes > 0) {
        status = check_kind(device, record, index, local, "a __local pointer to local memory");
    }
    return status;
}

/* Whether the kernel has taken arguments of these sizes before. All other sizes are the same in every dispatch. */
static bool is_taken(const mlxn_opencl_kernel *compiled, const mlxn_record *record) {
    return compiled->taken && compiled->taken_constant_bytes == record->constant_bytes &&
           compiled->taken_local_bytes == record->local_bytes;
}

mlxn_status mlxn_opencl_check_arguments(const mlxn_device *device, const mlxn_record *record) {
    mlxn_opencl_kernel *compiled = record->kernel->compiled;
    if (is_taken(compiled, record)) {
        return MLXN_OK;
    }
    mlxn_status status = check_kinds(device, record);
    if (status == MLXN_OK) {
        status = mlxn_opencl_set_arguments(device, record);
    }
    if (status == MLXN_OK) {
        compiled->taken = true;
        compiled->taken_constant_bytes = record->constant_bytes;
        compiled->taken_local_bytes = record->local_bytes;
    }
    return status;
}
