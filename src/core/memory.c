#include "core/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* From this size on data is mapped: the pages come zeroed when first touched, and may be huge, which keeps
 * streaming kernels out of the page tables. */
static const size_t mapped_from = (size_t)4 << 20;

static void *default_allocate(void *context, size_t size, size_t alignment) {
    (void)context;
    if (size >= mapped_from) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            return NULL;
        }
        madvise(memory, size, MADV_HUGEPAGE);
        return memory;
    }
    if (alignment < sizeof(void *)) {
        alignment = sizeof(void *);
    }
    void *memory = NULL;
    return posix_memalign(&memory, alignment, size > 0 ? size : 1) == 0 ? memory : NULL;
}

static void default_free(void *context, void *memory, size_t size) {
    (void)context;
    if (size >= mapped_from) {
        munmap(memory, size);
    } else {
        free(memory);
    }
}

const mlxn_allocator mlxn_default_allocator = {default_allocate, default_free, NULL};

void *mlxn_allocate(const mlxn_allocator *allocator, size_t size, size_t alignment) {
    return allocator->allocate(allocator->context, size, alignment);
}

void mlxn_free(const mlxn_allocator *allocator, void *memory, size_t size) {
    if (memory != NULL) {
        allocator->free(allocator->context, memory, size);
    }
}

void *mlxn_allocate_zeroed(const mlxn_allocator *allocator, size_t size) {
    void *memory = mlxn_allocate(allocator, size, 64);
    const bool already_zero = allocator->allocate == default_allocate && size >= mapped_from;
    if (memory != NULL && !already_zero) {
        memset(memory, 0, size);
    }
    return memory;
}

bool mlxn_grow(const mlxn_allocator *allocator, void **list, size_t *capacity, size_t item) {
    const size_t larger = *capacity > 0 ? 2 * *capacity : 16;
    void *grown = mlxn_allocate(allocator, larger * item, 64);
    if (grown == NULL) {
        return false;
    }
    if (*capacity > 0) {
        memcpy(grown, *list, *capacity * item);
        mlxn_free(allocator, *list, *capacity * item);
    }
    *list = grown;
    *capacity = larger;
    return true;
}
