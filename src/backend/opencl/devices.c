#include "backend/opencl/devices.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLATFORMS = 16, MAX_DEVICES = 64, MAX_TEXT = 4096 };

static mlxn_opencl_entry entries[MAX_DEVICES];
static size_t entry_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A driver's threads and what it has mapped do not survive a fork. */
static atomic_bool forked;
static const char forked_reason[] = "the process has forked since OpenCL was opened";

static void note_fork(void) {
    atomic_store(&forked, true);
}

/* ---- what a driver tells -------------------------------------------------------------------------- */

/* Copies a text, without spaces around it; what does not fit is cut. */
static const char *take_text(const char *found, char *text, size_t bytes) {
    found += strspn(found, " ");
    size_t length = strlen(found);
    while (length > 0 && found[length - 1] == ' ') {
        length--;
    }
    snprintf(text, bytes, "%.*s", (int)length, found);
    return text;
}

const char *mlxn_opencl_platform_text(cl_platform_id platform, cl_platform_info what, char *text, size_t bytes) {
    char found[MAX_TEXT] = "";
    const bool has = mlxn_cl.GetPlatformInfo(platform, what, sizeof found - 1, found, NULL) == CL_SUCCESS;
    return take_text(has ? found : "", text, bytes);
}

const char *mlxn_opencl_device_text(cl_device_id device, cl_device_info what, char *text, size_t bytes) {
    char found[MAX_TEXT] = "";
    const bool has = mlxn_cl.GetDeviceInfo(device, what, sizeof found - 1, found, NULL) == CL_SUCCESS;
    return take_text(has ? found : "", text, bytes);
}

uint64_t mlxn_opencl_number(cl_device_id device, cl_device_info what) {
    union {
        uint32_t small;
        uint64_t large;
    } number = {.large = 0};
    size_t bytes = 0;
    if (mlxn_cl.GetDeviceInfo(device, what, sizeof number, &number, &bytes) != CL_SUCCESS) {
        return 0;
    }
    return bytes == sizeof number.small ? number.small : number.large;
}

/* ---- what a device must have ---------------------------------------------------------------------- */

/* "OpenCL 1.2 …" or later. */
static bool is_recent(cl_device_id device) {
    char version[64];
    unsigned major = 0, minor = 0;
    mlxn_opencl_device_text(device, CL_DEVICE_VERSION, version, sizeof version);
    return sscanf(version, "OpenCL %u.%u", &major, &minor) == 2 && (major > 1 || minor >= 2);
}

/* PoCL 5.0, of which one run gives other bits than the next where kernels have barriers in loops, and which for some of
 * them stops the process. 3.1 and 6.0 do neither. */
static bool is_unsound_pocl(const char *platform, const char *driver) {
    return strcmp(platform, "Portable Computing Language") == 0 && strncmp(driver, "5.0", 3) == 0;
}

/* Why the device cannot keep the numeric contract, or NULL. */
static const char *lack_of(cl_device_id device, const char *platform, const char *driver) {
    const struct {
        uint64_t bit;
        const char *lack;
    } needs[] = {
        {CL_FP_FMA, "it has no fused multiply-add in f32"},
        {CL_FP_DENORM, "it flushes subnormal f32 numbers to zero"},
        {CL_FP_ROUND_TO_NEAREST, "it does not round f32 to nearest"},
        {CL_FP_INF_NAN, "it has no infinities and NaNs in f32"},
        {CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, "its f32 division and square root are not correctly rounded"},
    };
    char text[64];
    if (mlxn_opencl_number(device, CL_DEVICE_AVAILABLE) == 0) {
        return "its driver says that it is not available";
    }
    if (!is_recent(device)) {
        return "it is older than OpenCL 1.2";
    }
    if (strcmp(mlxn_opencl_device_text(device, CL_DEVICE_PROFILE, text, sizeof text), "FULL_PROFILE") != 0) {
        return "it has OpenCL's embedded profile, expected the full one";
    }
    if (mlxn_opencl_number(device, CL_DEVICE_COMPILER_AVAILABLE) == 0) {
        return "its driver has no compiler";
    }
    if (mlxn_opencl_number(device, CL_DEVICE_ENDIAN_LITTLE) == 0) {
        return "it is big-endian";
    }
    if (is_unsound_pocl(platform, driver)) {
        return "PoCL 5.0 compiles barriers in loops wrongly; 3.1 and 6.0 do not";
    }
    const uint64_t config = mlxn_opencl_number(device, CL_DEVICE_SINGLE_FP_CONFIG);
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        if ((config & needs[i].bit) == 0) {
            return needs[i].lack;
        }
    }
    return NULL;
}

/* ---- the list ------------------------------------------------------------------------------------- */

bool mlxn_opencl_f64_is_off(void) {
    const char *choice = getenv("MLXN_OPENCL_F64");
    return choice != NULL && strcmp(choice, "off") == 0;
}

void mlxn_opencl_write_detail(const mlxn_opencl_entry *entry, bool allowed, mlxn_device_info *info) {
    snprintf(info->detail, sizeof info->detail, "driver %s, %s", entry->driver,
             !entry->f64 ? "no f64"
             : allowed   ? "f64"
                         : "f64 switched off");
}

static void add_device(cl_platform_id platform, cl_device_id device) {
    mlxn_opencl_entry *entry = &entries[entry_count];
    mlxn_device_info *info = &entry->info;
    const uint64_t f64 = CL_FP_FMA | CL_FP_DENORM | CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN;
    entry->platform = platform;
    entry->device = device;
    entry->f64 = (mlxn_opencl_number(device, CL_DEVICE_DOUBLE_FP_CONFIG) & f64) == f64;

    char platform_name[46], name[96];
    mlxn_opencl_platform_text(platform, CL_PLATFORM_NAME, platform_name, sizeof platform_name);
    mlxn_opencl_device_text(device, CL_DEVICE_NAME, name, sizeof name);
    snprintf(info->name, sizeof info->name, "opencl:%zu", entry_count);
    snprintf(info->description, sizeof info->description, "%s: %.*s", platform_name, (int)sizeof info->description / 2,
             name);
    mlxn_opencl_device_text(device, CL_DRIVER_VERSION, entry->driver, sizeof entry->driver);
    const char *lack = lack_of(device, platform_name, entry->driver);
    info->available = lack == NULL;
    snprintf(info->reason, sizeof info->reason, "%s", lack != NULL ? lack : "");
    info->gpu = (mlxn_opencl_number(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) != 0;
    info->cache_bytes = mlxn_opencl_number(device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    entry_count++;
}

/* A function of the loader that failed, as the reason why there is no device. `on` names a platform, or is empty. */
static const char *failure(const char *function, const char *on, cl_int error) {
    static char text[sizeof entries->info.reason];
    snprintf(text, sizeof text, "%s%s%s gave %s (%d)", function, on[0] != '\0' ? " of " : "", on,
             mlxn_opencl_error(error), (int)error);
    return text;
}

/* Fills the list; returns why it is empty. */
static const char *find_devices(void) {
    enum { NO_PLATFORM = -1001 }; /* what the loader says without a driver: CL_PLATFORM_NOT_FOUND_KHR */
    const char *reason = mlxn_opencl_load();
    if (reason != NULL) {
        return reason;
    }
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint platform_count = 0;
    cl_int error = mlxn_cl.GetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count);
    if (error != CL_SUCCESS && error != NO_PLATFORM) {
        return failure("clGetPlatformIDs", "", error);
    }
    if (error != CL_SUCCESS || platform_count == 0) {
        return "the OpenCL loader knows no platform: no driver is installed";
    }
    reason = "OpenCL's platforms have no device";
    for (cl_uint i = 0; i < platform_count && i < MAX_PLATFORMS; i++) {
        cl_device_id devices[MAX_DEVICES];
        cl_uint device_count = 0;
        error = mlxn_cl.GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &device_count);
        if (error != CL_SUCCESS) {
            char name[46];
            mlxn_opencl_platform_text(platforms[i], CL_PLATFORM_NAME, name, sizeof name);
            reason = failure("clGetDeviceIDs", name, error);
            continue;
        }
        for (cl_uint k = 0; k < device_count && entry_count < MAX_DEVICES; k++) {
            add_device(platforms[i], devices[k]);
        }
    }
    return reason;
}

static void fill_list(void) {
    pthread_atfork(NULL, NULL, note_fork);
    const bool half_done = atomic_load(&forked); /* by another thread of the parent, which forked meanwhile */
    entry_count = 0;
    const char *reason = half_done ? forked_reason : find_devices();
    if (entry_count == 0) {
        entries[0] = (mlxn_opencl_entry){0};
        mlxn_device_info *info = &entries[0].info;
        snprintf(info->name, sizeof info->name, "opencl");
        snprintf(info->description, sizeof info->description, "OpenCL");
        snprintf(info->reason, sizeof info->reason, "%s", reason);
        entry_count = 1;
    }
}

size_t mlxn_opencl_count(void) {
    pthread_once(&once, fill_list);
    return entry_count;
}

const mlxn_opencl_entry *mlxn_opencl_entry_at(size_t index) {
    return &entries[index];
}

void mlxn_opencl_describe(size_t index, mlxn_device_info *info) {
    const size_t size = info->size;
    *info = entries[index].info;
    info->size = size;
    if (entries[index].device != NULL) {
        mlxn_opencl_write_detail(&entries[index], !mlxn_opencl_f64_is_off(), info);
    }
    if (info->available && atomic_load(&forked)) {
        info->available = false;
        snprintf(info->reason, sizeof info->reason, "%s", forked_reason);
    }
}
