/* How much memory a benchmark may take. */
#ifndef MLXN_TOOL_MEMORY_H
#define MLXN_TOOL_MEMORY_H

/* Bytes that this process can still take without pressing others to disk or meeting its control group's limit. */
double tool_available_memory(void);

#endif
