/* The default floating-point environment, for calls into drivers and compilers: they are as little made for traps, other
 * roundings and flushed subnormal numbers as most code is. Every call into a backend stands between mlxn_enter_driver and
 * mlxn_leave_driver, except for `forked`, where no driver may be called. */
#ifndef MLXN_CORE_ENVIRONMENT_H
#define MLXN_CORE_ENVIRONMENT_H

#include <fenv.h>
#include <stdbool.h>

#include "core/device.h"

/* What mlxn_leave_driver puts back. Such pairs may stand within each other. */
typedef struct mlxn_environment_kept {
    bool any;
    bool part;      /* only this: */
    unsigned mxcsr; /* of x86 */
    fenv_t callers; /* flags included */
} mlxn_environment_kept;

#if defined(__x86_64__)
#include <xmmintrin.h>

/* The part for x87, which is all but never touched: with it, changing the environment and back takes 0.2 us, without 20 ns. */
static inline bool mlxn_x87_is_default(void) {
    uint16_t control, status;
    __asm__ volatile("fnstcw %0\n\tfnstsw %1" : "=m"(control), "=m"(status));
    return control == 0x037f && (status & 0x7f) == 0;
}
#endif

/* For calls into all backends. */
static inline mlxn_environment_kept mlxn_enter_drivers(void) {
    mlxn_environment_kept kept;
    kept.any = true;
    kept.part = false;
#if defined(__x86_64__)
    if (mlxn_x87_is_default()) {
        kept.part = true;
        kept.mxcsr = _mm_getcsr();
        _mm_setcsr(0x1f80);
        return kept;
    }
#endif
    fegetenv(&kept.callers);
    fesetenv(FE_DFL_ENV);
#if defined(__aarch64__)
    /* Bits that C knows nothing of, such as default NaN, may be left as they were by that; fesetenv puts them back. */
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#endif
    return kept;
}

/* For calls into the device's backend. Nothing happens where that is no driver's: the CPU's sees to the environment itself,
 * and its small work is done sooner than this. */
static inline mlxn_environment_kept mlxn_enter_driver(const mlxn_device *device) {
    if (device->backend->compile != NULL) {
        return mlxn_enter_drivers();
    }
    mlxn_environment_kept kept;
    kept.any = kept.part = false;
    return kept;
}

static inline void mlxn_leave_driver(const mlxn_environment_kept *kept) {
    if (!kept->any) {
        return;
    }
#if defined(__x86_64__)
    if (kept->part) {
        if (!mlxn_x87_is_default()) {
            __asm__ volatile("fnclex"); /* flags that the driver has raised */
        }
        _mm_setcsr(kept->mxcsr);
        return;
    }
#endif
    fesetenv(&kept->callers);
}

#endif
