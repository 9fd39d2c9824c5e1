/* The list of OpenCL devices: their names, and why one cannot be opened. */
#include <sys/wait.h>
#include <unistd.h>

#include "opencl_test.h"

/* Properties of a device, as clGetDeviceInfo calls them. */
enum {
    SINGLE = 0x101b,
    LITTLE = 0x1026,
    AVAILABLE = 0x1027,
    COMPILER = 0x1028,
    DRIVER = 0x102d,
    PROFILE = 0x102e,
    VERSION = 0x102f
};

/* A property of the device that a child changes: the bits `clear` are taken from it. */
static struct {
    unsigned what;
    uint64_t clear;
    const char *text; /* instead */
} change;

typedef int (*get_info)(void *of, unsigned what, size_t bytes, void *value, size_t *needed);

static int changed_device_info(void *device, unsigned what, size_t bytes, void *value, size_t *needed) {
    get_info real;
    *(void **)&real = real_function("clGetDeviceInfo");
    const int error = real(device, what, bytes, value, needed);
    /* A driver that is refused by its version is taken for another, so that it is seen what else it may be refused for. */
    if (error == 0 && what == DRIVER && what != change.what && value != NULL)
        snprintf(value, bytes, "of the tests' own");
    if (error == 0 && what == change.what && value != NULL) {
        if (change.text != NULL)
            snprintf(value, bytes, "%s", change.text);
        else
            for (size_t i = 0; i < bytes && i < 8; i++)
                ((unsigned char *)value)[i] &= (unsigned char)~(change.clear >> 8 * i);
    }
    return error;
}

/* Every platform takes itself for PoCL. */
static int pocl_platform_info(void *platform, unsigned what, size_t bytes, void *value, size_t *needed) {
    enum { NAME = 0x902 };
    get_info real;
    *(void **)&real = real_function("clGetPlatformInfo");
    const int error = real(platform, what, bytes, value, needed);
    if (error == 0 && what == NAME && value != NULL)
        snprintf(value, bytes, "Portable Computing Language");
    return error;
}

static int no_platforms(unsigned room, void **platforms, unsigned *count) {
    (void)room;
    (void)platforms;
    (void)count;
    return -1001;
}

static int no_devices(void *platform, uint64_t type, unsigned room, void **devices, unsigned *count) {
    (void)platform;
    (void)type;
    (void)room;
    (void)devices;
    (void)count;
    return -6;
}

static int failing_platforms(unsigned room, void **platforms, unsigned *count) {
    (void)room;
    (void)platforms;
    (void)count;
    return -6;
}

/* In a child, whose library has not looked for devices yet: every OpenCL entry must say `expected`. */
static int entries_say(const char *expected) {
    mlxn_device_info info = {.size = sizeof info};
    int found = 0;
    for (size_t i = 0; i < mlxn_device_count(); i++) {
        if (mlxn_device_at(i, &info) != MLXN_OK)
            return 1;
        if (strncmp(info.name, "opencl", 6) != 0)
            continue;
        found++;
        if (info.available || strstr(info.reason, expected) == NULL) {
            print_error("%s says \"%s\", expected \"%s\"\n", info.name, info.reason, expected);
            return 2;
        }
        mlxn_device *device = NULL;
        if (mlxn_device_open(info.name, NULL, &device) != MLXN_NOT_FOUND ||
            strstr(mlxn_last_error(), expected) == NULL || device != NULL)
            return 3;
    }
    mlxn_device *device = NULL; /* the processor works all the same */
    if (mlxn_device_open("cpu", NULL, &device) != MLXN_OK)
        return 4;
    mlxn_device_destroy(device);
    return found > 0 ? 0 : 5;
}

/* Asks in a child, so that this process does not look for devices before its time. */
static bool in_child(bool (*question)(void)) {
    const pid_t child = fork();
    if (child == 0)
        _exit(question() ? 0 : 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static bool built_with_opencl(void) {
    mlxn_device_info info = {.size = sizeof info};
    for (size_t i = 0; i < mlxn_device_count(); i++)
        if (mlxn_device_at(i, &info) == MLXN_OK && strstr(info.reason, "this build of mlxn has no OpenCL") != NULL)
            return false;
    return true;
}

static void reasons(void **state) {
    (void)state;
    static const struct {
        const char *expected;
        bool no_loader, no_platforms, failing_platforms, no_devices, pocl;
        const char *missing;
        unsigned what;
        uint64_t clear;
        const char *text;
    } cases[] = {
        {"no OpenCL loader", .no_loader = true},
        {"no driver is installed", .no_platforms = true},
        {"clGetPlatformIDs gave CL_OUT_OF_HOST_MEMORY (-6)", .failing_platforms = true},
        {" gave CL_OUT_OF_HOST_MEMORY (-6)", .no_devices = true},
        {"clGetDeviceIDs of ", .no_devices = true},
        {"older than OpenCL 1.2", .missing = "clEnqueueFillBuffer"},
        {"not available", .what = AVAILABLE, .clear = 1},
        {"no compiler", .what = COMPILER, .clear = 1},
        {"big-endian", .what = LITTLE, .clear = 1},
        {"subnormal", .what = SINGLE, .clear = 1},
        {"infinities", .what = SINGLE, .clear = 2},
        {"round f32 to nearest", .what = SINGLE, .clear = 4},
        {"fused multiply-add", .what = SINGLE, .clear = 32},
        {"not correctly rounded", .what = SINGLE, .clear = 128},
        {"embedded profile", .what = PROFILE, .text = "EMBEDDED_PROFILE"},
        {"older than OpenCL 1.2", .what = VERSION, .text = "OpenCL 1.1 of a vendor"},
        {"PoCL 5.0", .pocl = true, .what = DRIVER, .text = "5.0+debian"},
    };
    if (!in_child(built_with_opencl))
        skip();
    const bool drivers = in_child(opencl_is_here); /* else only the missing loader can be seen */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!drivers && !cases[i].no_loader)
            continue;
        const pid_t child = fork();
        if (child == 0) {
            fake_no_loader = cases[i].no_loader;
            fake_missing_function = cases[i].missing;
            change.what = cases[i].what;
            change.clear = cases[i].clear;
            change.text = cases[i].text;
            fake_function("clGetDeviceInfo", (void *)(uintptr_t)changed_device_info);
            if (cases[i].pocl)
                fake_function("clGetPlatformInfo", (void *)(uintptr_t)pocl_platform_info);
            if (cases[i].no_platforms)
                fake_function("clGetPlatformIDs", (void *)(uintptr_t)no_platforms);
            if (cases[i].failing_platforms)
                fake_function("clGetPlatformIDs", (void *)(uintptr_t)failing_platforms);
            if (cases[i].no_devices)
                fake_function("clGetDeviceIDs", (void *)(uintptr_t)no_devices);
            _exit(entries_say(cases[i].expected));
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            fail_msg("\"%s\": step %d, signal %d", cases[i].expected, WEXITSTATUS(status), WTERMSIG(status));
    }
}

static void without_f64(void **state) {
    (void)state;
    if (!in_child(opencl_is_here))
        skip();
    const pid_t child = fork();
    if (child == 0) {
        change.what = 0x1032; /* the f64 properties: no fused multiply-add */
        change.clear = 32;
        fake_function("clGetDeviceInfo", (void *)(uintptr_t)changed_device_info);
        mlxn_device *device = NULL;
        mlxn_device_info info = {.size = sizeof info};
        _exit(mlxn_device_open("opencl:0", NULL, &device) == MLXN_OK &&
                      mlxn_device_get_info(device, &info) == MLXN_OK && strstr(info.detail, "no f64") != NULL
                  ? 0
                  : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void the_list(void **state) {
    (void)state;
    if (!opencl_is_here())
        skip();
    int count = 0;
    for (size_t i = 0; i < mlxn_device_count(); i++) {
        mlxn_device_info info = {.size = sizeof info};
        OK(mlxn_device_at(i, &info));
        if (strncmp(info.name, "opencl", 6) != 0)
            continue;
        char expected[32];
        snprintf(expected, sizeof expected, "opencl:%d", count++);
        assert_string_equal(info.name, expected);
        assert_non_null(strstr(info.description, ": "));
        assert_non_null(strstr(info.detail, "driver "));
        assert_int_equal(info.available, info.reason[0] == '\0');
        if (!info.available)
            continue;
        mlxn_device *device = NULL;
        mlxn_device_info opened = {.size = sizeof opened};
        OK(mlxn_device_open(info.name, NULL, &device));
        OK(mlxn_device_get_info(device, &opened));
        assert_string_equal(opened.description, info.description);
        assert_string_equal(opened.detail, info.detail);
        assert_true(mlxn_registry_count(device) > 0);
        mlxn_device_destroy(device);
    }
    mlxn_device *device = NULL;
    FAILS(MLXN_NOT_FOUND, mlxn_device_open("opencl:999", NULL, &device));
    FAILS(MLXN_NOT_FOUND, mlxn_device_open("opencl", NULL, &device));
}

/* The list says what an open device says. */
static void expect_detail(const char *name, const char *part) {
    mlxn_device *device = NULL;
    mlxn_device_info opened = {.size = sizeof opened}, listed = {.size = sizeof listed};
    OK(mlxn_device_open(name, NULL, &device));
    OK(mlxn_device_get_info(device, &opened));
    assert_non_null(strstr(opened.detail, part));
    for (size_t i = 0; strcmp(listed.name, name) != 0; i++)
        OK(mlxn_device_at(i, &listed));
    assert_string_equal(listed.detail, opened.detail);
    mlxn_device_destroy(device);
}

static void the_switch_for_f64(void **state) {
    (void)state;
    if (!opencl_is_here())
        skip();
    mlxn_device *device = NULL;
    mlxn_device_info info = {.size = sizeof info};
    OK(mlxn_device_open("opencl:0", NULL, &device));
    OK(mlxn_device_get_info(device, &info));
    mlxn_device_destroy(device);
    const bool f64 = strstr(info.detail, "no f64") == NULL;
    setenv("MLXN_OPENCL_F64", "off", 1);
    expect_detail("opencl:0", f64 ? ", f64 switched off" : ", no f64");
    setenv("MLXN_OPENCL_F64", "on", 1);
    expect_detail("opencl:0", f64 ? ", f64" : ", no f64");
    setenv("MLXN_OPENCL_F64", "", 1);
    expect_detail("opencl:0", f64 ? ", f64" : ", no f64");
    static const char *const wrong[] = {"maybe", "OFF", "0", " "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char expected[80];
        setenv("MLXN_OPENCL_F64", wrong[i], 1);
        snprintf(expected, sizeof expected, "MLXN_OPENCL_F64 is \"%s\", expected on or off", wrong[i]);
        device = NULL;
        FAILS_WITH(MLXN_INVALID_ARGUMENT, expected, mlxn_device_open("opencl:0", NULL, &device));
        assert_null(device);
    }
    unsetenv("MLXN_OPENCL_F64");
}

static void the_default(void **state) {
    (void)state;
    if (!opencl_is_here())
        skip();
    setenv("MLXN_DEVICE", "opencl:0", 1);
    mlxn_device *device = NULL;
    mlxn_device_info info = {.size = sizeof info};
    OK(mlxn_device_open(NULL, NULL, &device));
    OK(mlxn_device_get_info(device, &info));
    assert_string_equal(info.name, "opencl:0");
    mlxn_device_destroy(device);
    unsetenv("MLXN_DEVICE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons), /* before this process looks for devices itself */
        cmocka_unit_test(without_f64), cmocka_unit_test(the_list), cmocka_unit_test(the_switch_for_f64),
        cmocka_unit_test(the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
