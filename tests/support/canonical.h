/* The canonical sums, in scalar C from the words of docs/numerics.md: the oracle for bits. */
#ifndef MLXN_TESTS_SUPPORT_CANONICAL_H
#define MLXN_TESTS_SUPPORT_CANONICAL_H

#include <stdint.h>

/* The sum of a[j] * b[j] along a row of `count` elements. */
float canonical_row(const float *a, const float *b, int64_t count);

/* The sum of a[i * step] * b[i] down a column of `count` rows. */
float canonical_column(const float *a, int64_t step, const float *b, int64_t count);

#endif
