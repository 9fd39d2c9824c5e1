/* Hostile floating-point environments, and the control word and flags to the bit. */
#ifndef MLXN_TESTS_SUPPORT_ENVIRONMENT_H
#define MLXN_TESTS_SUPPORT_ENVIRONMENT_H

#include <fenv.h>
#include <stdint.h>
#include <string.h>

typedef struct environment {
    const char *name;
    uint64_t control; /* MXCSR, or FPCR */
    uint64_t flags;   /* FPSR; on x86 part of MXCSR */
} environment;

#if defined(__x86_64__)
#include <xmmintrin.h>
/* Bits: 6 denormals-are-zero, 7–12 masks, 13–14 rounding, 15 flush-to-zero, 0–5 flags. */
static const environment ENVIRONMENTS[] = {
    {"flush to zero, denormals are zero", 0x9fc0, 0},
    {"upward", 0x5f80, 0},
    {"downward", 0x3f80, 0},
    {"towards zero", 0x7f80, 0},
    {"all traps enabled", 0, 0},
    {"all at once", 0xe040, 0},
    {"default, all flags raised", 0x1fbf, 0},
    {"some flags", 0x1f95, 0},
};

static inline environment environment_get(void) {
    return (environment){"", _mm_getcsr(), 0};
}

static inline void environment_set(environment e) {
    _mm_setcsr((unsigned)e.control);
}
#else
/* FPCR bits: 22–23 rounding, 24 flush-to-zero, 25 default NaN. Trap enables read as zero on most machines. */
static const environment ENVIRONMENTS[] = {
    {"flush to zero", UINT64_C(1) << 24, 0},  {"upward", UINT64_C(1) << 22, 0},
    {"downward", UINT64_C(2) << 22, 0},       {"towards zero", UINT64_C(3) << 22, 0},
    {"default NaN", UINT64_C(1) << 25, 0x1f}, {"all flags raised", 0, 0x9f},
};

static inline environment environment_get(void) {
    environment e = {.name = ""};
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(e.control), "=r"(e.flags));
    return e;
}

static inline void environment_set(environment e) {
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(e.control), "r"(e.flags));
}
#endif

enum { ENVIRONMENT_COUNT = sizeof ENVIRONMENTS / sizeof ENVIRONMENTS[0] };

#endif
