/* Compiled kernels on disk. All of it is best effort: where a file cannot be read or written, a kernel is compiled. */
#ifndef MLXN_CORE_CACHE_H
#define MLXN_CORE_CACHE_H

#include "core/device.h"

/* Names an entry. */
typedef struct mlxn_cache_key {
    uint64_t low, high;
} mlxn_cache_key;

/* Where entries are: options->cache_folder, $MLXN_CACHE_DIR, $XDG_CACHE_HOME/mlxn or $HOME/.cache/mlxn, the first that is
 * set, as an absolute path. NULL where none is, where MLXN_CACHE is "off", and without memory. The folder need not
 * exist. The device frees the text (strlen + 1 bytes). `options` may be NULL. */
char *mlxn_cache_folder(const mlxn_allocator *allocator, const mlxn_device_options *options);

/* The key of everything that a compiled kernel depends on: texts, ended by NULL. */
mlxn_cache_key mlxn_cache_key_of(const char *const *texts);

/* The entry's data and its size, to be freed with mlxn_free; NULL if there is none, or one that is damaged. */
void *mlxn_cache_load(const mlxn_device *device, mlxn_cache_key key, size_t *bytes);

/* Writes an entry, or replaces it, in one step for everybody who looks. Makes the folder. */
void mlxn_cache_store(const mlxn_device *device, mlxn_cache_key key, const void *data, size_t bytes);

#endif
