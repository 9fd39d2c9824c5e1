/* Memory between two pages that nobody may touch: a read or write outside the array faults at once. */
#ifndef MLXN_TESTS_SUPPORT_GUARD_H
#define MLXN_TESTS_SUPPORT_GUARD_H

#include <stddef.h>

typedef enum guard_place { GUARD_AT_START, GUARD_AT_END } guard_place;

typedef struct guard {
    void *memory;  /* the array's first byte */
    size_t size;   /* its bytes */
    void *mapping; /* of the pages, guards included */
    size_t mapped;
} guard;

/* An array of `size` bytes which starts `shift` bytes after the page before it, or ends `shift` bytes before the page
 * after it. The bytes between are filled with a pattern that guard_intact checks. */
guard guard_create(size_t size, guard_place place, size_t shift);

/* Whether the bytes of the pages outside the array still hold the pattern. */
int guard_intact(const guard *g);

void guard_destroy(guard *g);

#endif
