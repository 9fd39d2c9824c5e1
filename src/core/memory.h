/* Host memory, through the caller's functions where there are any. */
#ifndef MLXN_CORE_MEMORY_H
#define MLXN_CORE_MEMORY_H

#include "mlxn/mlxn.h"

/* The C library's memory functions. */
extern const mlxn_allocator mlxn_default_allocator;

/* NULL if there is no memory; the caller of these says so with mlxn_fail. `alignment` is a power of two,
 * at most 64. */
void *mlxn_allocate(const mlxn_allocator *allocator, size_t size, size_t alignment);
void mlxn_free(const mlxn_allocator *allocator, void *memory, size_t size);

/* The same, filled with zeros and aligned to 64 bytes, for data. */
void *mlxn_allocate_zeroed(const mlxn_allocator *allocator, size_t size);

/* Doubles a list of `*capacity` items of `item` bytes, keeping its contents. False if there is no memory. */
bool mlxn_grow(const mlxn_allocator *allocator, void **list, size_t *capacity, size_t item);

#endif
