#define _GNU_SOURCE
#include "guard.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

enum { PATTERN = 0xa7 };

guard guard_create(size_t size, guard_place place, size_t shift) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inner = (size + shift + page - 1) / page * page + (size + shift == 0 ? page : 0);
    guard g = {.size = size, .mapped = inner + 2 * page};
    g.mapping = mmap(NULL, g.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(g.mapping, MAP_FAILED);
    char *first = (char *)g.mapping + page;
    assert_int_equal(mprotect(first, inner, PROT_READ | PROT_WRITE), 0);
    g.memory = place == GUARD_AT_START ? first + shift : first + inner - shift - size;
    memset(first, PATTERN, (size_t)((char *)g.memory - first));
    memset((char *)g.memory + size, PATTERN, (size_t)(first + inner - (char *)g.memory) - size);
    return g;
}

int guard_intact(const guard *g) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const unsigned char *byte = (const unsigned char *)g->mapping + page;
    const unsigned char *end = (const unsigned char *)g->mapping + g->mapped - page;
    const unsigned char *array = g->memory;
    for (; byte < end; byte++) {
        if (byte == array)
            byte += g->size;
        if (byte < end && *byte != PATTERN)
            return 0;
    }
    return 1;
}

void guard_destroy(guard *g) {
    if (g->mapping != NULL)
        munmap(g->mapping, g->mapped);
    memset(g, 0, sizeof *g);
}
