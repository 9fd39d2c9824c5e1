/* What the CPU device knows of the machine. */
#ifndef MLXN_BACKEND_CPU_MACHINE_H
#define MLXN_BACKEND_CPU_MACHINE_H

#include "core/op.h"

/* The processor's name. */
void mlxn_cpu_name(char *text, size_t size);

/* The best instruction set of the machine that $MLXN_MAX_ISA allows; false if the variable names none of this
 * architecture's, whose names are then in *names. */
bool mlxn_cpu_isa(mlxn_isa *isa, const char **names);
const char *mlxn_cpu_isa_name(mlxn_isa isa);

/* The processors that this thread may run on, as affinity says. */
size_t mlxn_cpu_processors(void);

/* As many threads as affinity and the control group's quota allow, at least 1. */
size_t mlxn_cpu_default_threads(void);

/* The size of the last-level cache, or a guess where the system does not say. */
uint64_t mlxn_cpu_cache_bytes(void);

#endif
