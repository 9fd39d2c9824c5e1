/* The floating-point environment: the library's own work and drivers run in the default one (round to nearest, nothing
 * flushed, all traps masked, no flags), and the caller's is restored exactly, its exception flags too. Drivers and compilers
 * are as little made for another as most code is. Every call into a backend stands between mlxn_enter_driver and
 * mlxn_leave_driver, except for `forked`, where no driver may be called. */
#ifndef MLXN_CORE_ENVIRONMENT_H
#define MLXN_CORE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/device.h"

/* ---- the registers of vector arithmetic ----------------------------------------------------------- */

#if defined(__x86_64__)

#include <fenv.h>
#include <xmmintrin.h>

typedef unsigned mlxn_environment;

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

#endif

/* ---- all that a driver may use -------------------------------------------------------------------- */

/* What mlxn_leave_driver puts back. Such pairs may stand within each other. */
typedef struct mlxn_environment_kept {
    enum { MLXN_KEPT_NOTHING, MLXN_KEPT_REGISTERS, MLXN_KEPT_ALL } what;
    mlxn_environment registers;
#if defined(__x86_64__)
    fenv_t all; /* with the part for x87, which is all but never touched: it takes 0.2 us, the registers alone 20 ns */
#endif
} mlxn_environment_kept;

#if defined(__x86_64__)
static const uint16_t mlxn_x87_control = 0x037f;

static inline bool mlxn_x87_is_default(void) {
    uint16_t control, status;
    __asm__ volatile("fnstcw %0\n\tfnstsw %1" : "=m"(control), "=m"(status));
    return control == mlxn_x87_control && (status & 0x7f) == 0;
}
#endif

/* For calls into all backends. */
static inline mlxn_environment_kept mlxn_enter_drivers(void) {
    mlxn_environment_kept kept;
#if defined(__x86_64__)
    if (!mlxn_x87_is_default()) {
        kept.what = MLXN_KEPT_ALL;
        fegetenv(&kept.all);
        fesetenv(FE_DFL_ENV);
        return kept;
    }
#endif
    kept.what = MLXN_KEPT_REGISTERS;
    kept.registers = mlxn_environment_enter();
    return kept;
}

/* For calls into the device's backend. Nothing happens where that is no driver's: the CPU's sees to the environment itself,
 * and its small work is done sooner than this. */
static inline mlxn_environment_kept mlxn_enter_driver(const mlxn_device *device) {
    if (device->backend->compile != NULL) {
        return mlxn_enter_drivers();
    }
    mlxn_environment_kept kept;
    kept.what = MLXN_KEPT_NOTHING;
    return kept;
}

static inline void mlxn_leave_driver(const mlxn_environment_kept *kept) {
    if (kept->what == MLXN_KEPT_REGISTERS) {
#if defined(__x86_64__)
        if (!mlxn_x87_is_default()) { /* flags that the driver has raised, and what it may have set */
            __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(mlxn_x87_control));
        }
#endif
        mlxn_environment_leave(kept->registers);
    }
#if defined(__x86_64__)
    if (kept->what == MLXN_KEPT_ALL) {
        fesetenv(&kept->all);
    }
#endif
}

#endif
