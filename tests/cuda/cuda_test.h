/* What the tests on the fake driver share. */
#ifndef MLXN_TESTS_CUDA_CUDA_TEST_H
#define MLXN_TESTS_CUDA_CUDA_TEST_H

#include "fake.h"
#include "support/test.h"

/* Opens cuda:0, without a disk cache, and adds the driver's kernels: those called "own_…" as the library's own, the
 * others as a user's. */
mlxn_device *cuda_device(void);
mlxn_status cuda_add_kernels(mlxn_device *device);

/* Records a kernel of the driver's over the whole of its buffers, the inputs first; the last one is written. */
void cuda_record(mlxn_encoder *encoder, const char *kernel, mlxn_buffer *const *buffers, size_t count, float by);
mlxn_dispatch cuda_dispatch(const char *kernel, const mlxn_binding *bindings, size_t count,
                            const fake_constants *constants);

/* All elements of a buffer must be `expected`. */
void cuda_expect(const mlxn_buffer *buffer, float expected);

/* A teardown: the driver has nothing to complain about, and nothing is left in it. */
int cuda_teardown(void **state);

#endif
