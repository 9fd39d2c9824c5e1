/* The files that mlxn run reads and writes. */
#ifndef MLXN_TOOL_FILES_H
#define MLXN_TOOL_FILES_H

#include <mlxn/io.h>

#include "args.h"

/* Loads FILE.npy, FILE.safetensors or FILE.safetensors:TENSOR onto a device. On failure says so, with `what`
 * in front, and returns NULL. */
mlxn_buffer *tool_load(mlxn_device *device, const char *reference, const char *what);

/* A new buffer with the elements of `source` as f32, f16 or bf16, rounded once to nearest even. On failure says so,
 * with `what` in front, and returns NULL. */
mlxn_buffer *tool_convert(mlxn_device *device, const mlxn_buffer *source, mlxn_dtype dtype, const char *what);

/* Where an output goes. */
typedef struct tool_output {
    char *path;
    const char *tensor; /* in a .safetensors file; else NULL */
    mlxn_format format;
    mlxn_buffer *buffer;
} tool_output;

/* Takes an output reference apart; `name` is the tensor's name where the reference gives none. The caller frees
 * output->path. On failure says so, with `op` in front, and returns false. */
bool tool_parse_output(const char *op, const char *reference, const char *name, tool_output *output);

/* Writes all outputs or none. Tensors that an existing .safetensors file holds besides are kept. On failure says so,
 * with `op` in front, and returns false. */
bool tool_save(mlxn_device *device, const char *op, const tool_output *outputs, size_t count);

#endif
