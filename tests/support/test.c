#define _GNU_SOURCE
#include "test.h"

#include <errno.h>

#if defined(__x86_64__)
const char *const test_isas[] = {"baseline", "avx2", "avx512"};
#elif defined(__aarch64__)
const char *const test_isas[] = {"neon"};
#else
const char *const test_isas[] = {"baseline"};
#endif
const size_t test_isa_count = sizeof test_isas / sizeof test_isas[0];

void test_ok(mlxn_status status, const char *call, const char *file, int line) {
    if (status == MLXN_OK)
        return;
    print_error("%s\n  gave \"%s\": %s\n", call, mlxn_status_text(status), mlxn_last_error());
    _fail(file, line);
}

void test_fails(mlxn_status expected, mlxn_status status, const char *call, const char *file, int line) {
    if (status == expected && mlxn_last_error()[0] != '\0')
        return;
    print_error("%s\n  gave \"%s\" (%s), expected \"%s\" and a message\n", call, mlxn_status_text(status),
                mlxn_last_error(), mlxn_status_text(expected));
    _fail(file, line);
}

void test_fails_with(mlxn_status expected, const char *text, mlxn_status status, const char *call, const char *file,
                     int line) {
    test_fails(expected, status, call, file, line);
    if (strstr(mlxn_last_error(), text) != NULL)
        return;
    print_error("%s\n  says      \"%s\"\n  should be \"%s\"\n", call, mlxn_last_error(), text);
    _fail(file, line);
}

void test_fail(uint64_t seed, const char *format, ...) {
    va_list list;
    va_start(list, format);
    char text[1024];
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fail_msg("%s\n  repeat: MLXN_TEST_DEVICE=%s MLXN_TEST_SEED=%llu %s", text, test_device_name(),
             (unsigned long long)seed, program_invocation_name);
}

uint64_t test_seed(uint64_t otherwise) {
    const char *text = getenv("MLXN_TEST_SEED");
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

bool test_wants_op(const char *op) {
    const char *wanted = getenv("MLXN_TEST_OP");
    if (wanted == NULL || wanted[0] == '\0')
        return true;
    return strcmp(wanted, "elementwise") == 0 ? mlxn_op_find(op)->elementwise : strcmp(wanted, op) == 0;
}

const char *test_device_name(void) {
    const char *name = getenv("MLXN_TEST_DEVICE");
    return name != NULL && name[0] != '\0' ? name : "cpu";
}

bool test_on_cpu(void) {
    return strcmp(test_device_name(), "cpu") == 0;
}

/* The device called `name`; else false, and what stands in the list for all devices of its kind, if anything does. */
static bool find_device(const char *name, mlxn_device_info *info) {
    const size_t kind = strcspn(name, ":");
    mlxn_device_info found = {.size = sizeof found};
    *info = found;
    for (size_t i = 0; i < mlxn_device_count(); i++) {
        OK(mlxn_device_at(i, &found));
        if (strcmp(found.name, name) == 0) {
            *info = found;
            return true;
        }
        if (strncmp(found.name, name, kind) == 0 && found.name[kind] == '\0')
            *info = found;
    }
    return false;
}

void test_needs_device(void) {
    mlxn_device_info info;
    const char *name = test_device_name(), *required = getenv("MLXN_TEST_REQUIRE");
    if (find_device(name, &info) && info.available)
        return;
    const bool fails = required != NULL && required[0] != '\0' && strncmp(name, required, strlen(required)) == 0;
    printf("%s: ", fails ? "required, and not here" : "skipped");
    if (info.reason[0] != '\0')
        puts(info.reason);
    else
        printf("there is no device %s\n", name);
    exit(fails ? 1 : TEST_SKIPPED);
}

bool test_is_slow_here(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
    return true;
#endif
#endif
    const char *quick = getenv("MLXN_TEST_QUICK");
    mlxn_device_info info;
    if (quick != NULL && quick[0] != '\0')
        return true;
    if (!test_on_cpu() && find_device(test_device_name(), &info) && !info.gpu)
        return true;
#if defined(__aarch64__)
    return true; /* qemu, nearly always; on hardware the shorter loops do no harm */
#else
    return false;
#endif
}

bool test_is_emulated(void) {
#if defined(__x86_64__)
    return false;
#else
    /* The emulator passes the host's own list of processors on; only x86 calls a line of it so. */
    char line[256];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, "vendor_id", 9) == 0;
    if (file != NULL)
        fclose(file);
    return found;
#endif
}

static mlxn_device *open_device(const char *name, size_t threads) {
    mlxn_device_options options = {.size = sizeof options, .threads = threads};
    mlxn_device *device = NULL;
    OK(mlxn_device_open(name, &options, &device));
    assert_non_null(device);
    return device;
}

mlxn_device *test_device(size_t threads) {
    return open_device(test_device_name(), threads);
}

mlxn_device *test_cpu(size_t threads) {
    return open_device("cpu", threads);
}

mlxn_device *test_device_isa(const char *isa, size_t threads) {
    assert_int_equal(setenv("MLXN_MAX_ISA", isa, 1), 0);
    mlxn_device *device = test_cpu(threads);
    assert_int_equal(unsetenv("MLXN_MAX_ISA"), 0);
    return device;
}

mlxn_encoder *test_encoder(mlxn_device *device) {
    mlxn_encoder *encoder = NULL;
    OK(mlxn_encoder_create(device, NULL, &encoder));
    assert_non_null(encoder);
    return encoder;
}

mlxn_buffer *test_buffer(mlxn_device *device, mlxn_dtype dtype, size_t rank, const int64_t *shape) {
    mlxn_buffer *buffer = NULL;
    OK(mlxn_buffer_create(device, dtype, rank, shape, &buffer));
    assert_non_null(buffer);
    return buffer;
}

mlxn_buffer *test_vector(mlxn_device *device, mlxn_dtype dtype, int64_t count) {
    return test_buffer(device, dtype, 1, &count);
}

mlxn_buffer *test_matrix(mlxn_device *device, mlxn_dtype dtype, int64_t rows, int64_t columns) {
    return test_buffer(device, dtype, 2, (const int64_t[]){rows, columns});
}

void test_write(mlxn_buffer *buffer, const void *data) {
    OK(mlxn_buffer_write(buffer, 0, mlxn_buffer_bytes(buffer), data));
}

void *test_contents(const mlxn_buffer *buffer) {
    const size_t bytes = mlxn_buffer_bytes(buffer);
    void *contents = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(contents);
    OK(mlxn_buffer_read(buffer, 0, bytes, contents));
    return contents;
}
