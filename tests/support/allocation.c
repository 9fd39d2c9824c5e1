#include "allocation.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* In front of each block, 64 bytes: its size and where it really starts; behind it, a pattern. */
typedef struct header {
    size_t size;
    void *start;
} header;
enum { HEADER = 64, TAIL = 16, PATTERN = 0xc3 };

static void *allocate(void *context, size_t size, size_t alignment) {
    counting *c = context;
    const size_t number = atomic_fetch_add(&c->allocations, 1) + 1;
    if (alignment == 0 || alignment > 64 || (alignment & (alignment - 1)) != 0)
        atomic_store(&c->wrong, 1);
    if (number == atomic_load(&c->fail_at))
        return NULL;
    if (size > SIZE_MAX / 2)
        return NULL;
    char *start = NULL;
    if (posix_memalign((void **)&start, 64, HEADER + size + TAIL) != 0)
        return NULL;
    char *block = start + HEADER;
    memcpy(block - sizeof(header), &(header){size, start}, sizeof(header));
    memset(block, 0xdb, size); /* nothing may count on zeros */
    memset(block + size, PATTERN, TAIL);
    atomic_fetch_add(&c->live, 1);
    atomic_fetch_add(&c->live_bytes, size);
    return block;
}

static void release(void *context, void *memory, size_t size) {
    counting *c = context;
    header h;
    memcpy(&h, (char *)memory - sizeof h, sizeof h);
    if (h.size != size)
        atomic_store(&c->wrong, 2);
    for (size_t i = 0; i < TAIL; i++)
        if (((unsigned char *)memory)[h.size + i] != PATTERN)
            atomic_store(&c->wrong, 3);
    atomic_fetch_sub(&c->live, 1);
    atomic_fetch_sub(&c->live_bytes, h.size);
    free(h.start);
}

mlxn_allocator counting_allocator(counting *c) {
    return (mlxn_allocator){allocate, release, c};
}
