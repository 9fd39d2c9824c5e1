/* The default floating-point environment, for calls into drivers and compilers: they are as little made for traps, other
 * roundings and flushed subnormal numbers as most code is. */
#ifndef MLXN_CORE_ENVIRONMENT_H
#define MLXN_CORE_ENVIRONMENT_H

#include <fenv.h>

/* Puts the default in place and gives the caller's, flags included, which mlxn_leave_driver puts back. */
static inline fenv_t mlxn_enter_driver(void) {
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    return callers;
}

static inline void mlxn_leave_driver(const fenv_t *callers) {
    fesetenv(callers);
}

#endif
