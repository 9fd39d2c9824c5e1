/* The floating-point environment: work runs in the default one, and the caller's is restored exactly, its
 * exception flags too. */
#ifndef MLXN_BACKEND_CPU_ENVIRONMENT_H
#define MLXN_BACKEND_CPU_ENVIRONMENT_H

#include <stdint.h>

#if defined(__x86_64__)

#include <xmmintrin.h>

typedef unsigned mlxn_environment;

/* Round to nearest, nothing flushed, all traps masked, no flags. */
static inline mlxn_environment mlxn_environment_enter(void) {
    const unsigned callers = _mm_getcsr();
    if (callers != 0x1f80u) {
        _mm_setcsr(0x1f80u);
    }
    return callers;
}

static inline void mlxn_environment_leave(mlxn_environment callers) {
    _mm_setcsr(callers);
}

/* Non-temporal stores before this are seen by whoever sees a store after it. */
static inline void mlxn_store_fence(void) {
    _mm_sfence();
}

#else

typedef struct mlxn_environment {
    uint64_t control, status;
} mlxn_environment;

static inline mlxn_environment mlxn_environment_enter(void) {
    mlxn_environment callers;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(callers.control), "=r"(callers.status));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return callers;
}

static inline void mlxn_environment_leave(mlxn_environment callers) {
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(callers.control), "r"(callers.status));
}

static inline void mlxn_store_fence(void) {
    __asm__ volatile("dmb ishst" : : : "memory");
}

#endif

#endif
