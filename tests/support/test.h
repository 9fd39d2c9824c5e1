/* What every test needs: cmocka, checks of a status with the library's own message, and the command that repeats a
 * failure. */
#ifndef MLXN_TESTS_SUPPORT_TEST_H
#define MLXN_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <mlxn/mlxn.h>

/* The call must succeed; a failure shows the library's message. */
#define OK(call) test_ok((call), #call, __FILE__, __LINE__)

/* The call must fail with exactly this status, and leave a message. */
#define FAILS(status, call) test_fails((status), (call), #call, __FILE__, __LINE__)

/* The same, and the message contains `text`. */
#define FAILS_WITH(status, text, call) test_fails_with((status), (text), (call), #call, __FILE__, __LINE__)

void test_ok(mlxn_status status, const char *call, const char *file, int line);
void test_fails(mlxn_status expected, mlxn_status status, const char *call, const char *file, int line);
void test_fails_with(mlxn_status expected, const char *text, mlxn_status status, const char *call, const char *file,
                     int line);

/* Fails the test with a printf text, followed by the command that repeats it: this program with MLXN_TEST_SEED set to
 * `seed`. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void test_fail(uint64_t seed, const char *format, ...);

/* The seed in $MLXN_TEST_SEED, else `otherwise`. */
uint64_t test_seed(uint64_t otherwise);

/* Whether $MLXN_TEST_OP is unset, equal to the op's name, or "elementwise" and the op is. */
bool test_wants_op(const char *op);

/* True under qemu, sanitizers or $MLXN_TEST_QUICK, and on a GPU device that a processor stands in for, such as PoCL:
 * where long loops are shortened. */
bool test_is_slow_here(void);

/* True under an emulator of another architecture, such as qemu-user, which cannot start threads in a forked child. */
bool test_is_emulated(void);

/* The device under test: $MLXN_TEST_DEVICE, or "cpu". */
const char *test_device_name(void);
bool test_on_cpu(void);

/* First thing in the main function of a test that runs on any device: where the device under test is not available,
 * prints "skipped: " with the reason and exits with TEST_SKIPPED, which ctest knows. It fails instead if
 * $MLXN_TEST_REQUIRE begins the device's name: a machine that must have it shall not pass for the lack of it. */
void test_needs_device(void);
enum { TEST_SKIPPED = 77 };

/* Opens the device under test; the CPU with so many threads (0 = as many as there are). */
mlxn_device *test_device(size_t threads);

/* Opens the CPU device, whatever the device under test is. */
mlxn_device *test_cpu(size_t threads);

/* The same with MLXN_MAX_ISA set to `isa`. */
mlxn_device *test_device_isa(const char *isa, size_t threads);

/* The instruction sets to step through: the names MLXN_MAX_ISA takes on this architecture. */
extern const char *const test_isas[];
extern const size_t test_isa_count;

mlxn_encoder *test_encoder(mlxn_device *device);
mlxn_buffer *test_buffer(mlxn_device *device, mlxn_dtype dtype, size_t rank, const int64_t *shape);
mlxn_buffer *test_vector(mlxn_device *device, mlxn_dtype dtype, int64_t count);
mlxn_buffer *test_matrix(mlxn_device *device, mlxn_dtype dtype, int64_t rows, int64_t columns);

/* Writes all of a buffer, and gives a copy of all of it, which the caller frees. On every device, which mapping is
 * not. */
void test_write(mlxn_buffer *buffer, const void *data);
void *test_contents(const mlxn_buffer *buffer);

#endif
