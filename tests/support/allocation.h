/* Allocators that count and fail on request: one for mlxn_device_options, and one in place of the C library's. */
#ifndef MLXN_TESTS_SUPPORT_ALLOCATION_H
#define MLXN_TESTS_SUPPORT_ALLOCATION_H

#include <stdatomic.h>
#include <stddef.h>

#include <mlxn/mlxn.h>

typedef struct counting {
    atomic_size_t allocations; /* asked for so far */
    atomic_size_t live;        /* not freed yet */
    atomic_size_t live_bytes;
    atomic_size_t fail_at; /* the number of the allocation that fails, from 1; 0 = none */
    atomic_int wrong;      /* a bad alignment, a wrong size at free, or a write past the end */
} counting;

/* An allocator that counts in `c`. */
mlxn_allocator counting_allocator(counting *c);

#endif
