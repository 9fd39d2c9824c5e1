/* mlxn-io: .npy and .safetensors files as buffers, and buffers as files.
 *
 * A library of its own beside mlxn. An open file holds any number of tensors: a .npy file one, without a
 * name, a .safetensors file as many as it lists.
 *
 *     mlxn_buffer *weight;
 *     mlxn_load(device, "model.safetensors:layer.0.weight", &weight);
 *     ...
 *     mlxn_save_npy("y.npy", y);
 *
 * Errors. As in mlxn.h: every function that can fail returns mlxn_status; on failure nothing was changed,
 * handles passed by pointer are set to NULL, and mlxn_io_last_error() says which file and tensor, what
 * was expected and what was found. NULL for an argument is MLXN_INVALID_ARGUMENT, except where "may be
 * NULL" is said. MLXN_FILE_FAILED means that the operating system refused, MLXN_BAD_FORMAT that the file's
 * contents are at fault, MLXN_UNSUPPORTED that they are sound but hold what mlxn has no dtype for. The library
 * never prints, aborts or exits, and no file, however malformed, makes it read out of bounds or take
 * memory out of proportion to the bytes that are really there.
 *
 * Threads. An open file may be used by several threads at once; closing it while another thread uses it is
 * a fault of the caller's. Buffers loaded from it are independent of it.
 *
 * Memory maps. Regular files are mapped, so that a load on a device that works in host memory copies
 * nothing. What a map shows follows the file: if another program rewrites the file in place, the numbers
 * change, and if it cuts the file short, touching the lost part raises SIGBUS, as for any map. Replacing a
 * file by a rename, as the functions here and most programs do, is harmless. Where files may be
 * changed in place, set mlxn_file_options.copy: nothing is then mapped, and a file that became shorter is an
 * error of the load. Headers, and all data that needs converting, are never read through the map.
 *
 * Numbers. Elements are given and taken in the machine's byte order and row-major order; files may
 * hold them otherwise.
 */
#ifndef MLXN_IO_H
#define MLXN_IO_H

#include <mlxn/mlxn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mlxn_format { MLXN_NPY, MLXN_SAFETENSORS } mlxn_format;

typedef struct mlxn_file mlxn_file;

/* The message of the last mlxn-io call that failed in this thread, "" before the first. A call that
 * succeeds leaves it alone. The text belongs to the library and stays until the thread's next failing
 * call. Never NULL. */
MLXN_API const char *mlxn_io_last_error(void);

/* The format that the ending of `path` names: ".npy" or ".safetensors". MLXN_NOT_FOUND for any other. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_format_from_path(const char *path, mlxn_format *format);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct mlxn_file_options {
    size_t size; /* sizeof(mlxn_file_options) */
    bool copy;   /* never map the file: every load copies */
} mlxn_file_options;

/* Opens a file and checks all of its header. The contents decide the format, the ending of `path` only
 * where they are neither. `options` may be NULL. A pipe or another file that cannot be mapped is read to
 * its end into memory. Close it with mlxn_file_close.
 *
 * .npy: versions 1, 2 and 3; f2, f4, f8, u1, u2, u4, i4 and i8, little- or big-endian, in C or Fortran order.
 * NumPy has no bf16 of its own: the two-byte void 'V2', which is what NumPy writes for the bfloat16 of
 * ml_dtypes, is read as bf16. Anything after the data is an error. Other dtypes are MLXN_UNSUPPORTED; Python
 * objects are always refused.
 *
 * .safetensors: F32, F16, BF16, F64, U8, U16, U32, I32 and I64; tensors of the format's other dtypes are
 * listed but cannot be loaded. The header is checked as the format demands: offsets that cover the data
 * exactly, without overlap or hole, and agree with each shape; no key twice. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_file_open(const char *path, const mlxn_file_options *options,
                                                   mlxn_file **file);

/* Opens a file that lies in memory, of either format. The caller keeps `data` as it is until the file is
 * closed; loads copy. `name` stands for the path in messages; it may be NULL. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_file_open_memory(const void *data, size_t size, const char *name,
                                                          mlxn_file **file);

/* Closes the file. Buffers loaded from it stay valid. NULL is fine. */
MLXN_API void mlxn_file_close(mlxn_file *file);

/* The format of the file, MLXN_NPY for NULL, and the number of tensors in it, 0 for NULL. */
MLXN_API mlxn_format mlxn_file_format(const mlxn_file *file);
MLXN_API size_t mlxn_file_count(const mlxn_file *file);

typedef struct mlxn_tensor_info {
    size_t size;            /* sizeof(mlxn_tensor_info), set by the caller */
    const char *name;       /* in UTF-8; "" in a .npy file. Valid until the file is closed */
    const char *file_dtype; /* the dtype in the file's own words: ">f4", "BF16". Valid until then, too */
    bool supported;         /* mlxn has this dtype; false: the tensor cannot be loaded */
    mlxn_dtype dtype;       /* MLXN_U8 where not supported */
    size_t rank;
    int64_t shape[MLXN_MAX_RANK];
    int64_t count; /* elements */
    size_t bytes;  /* of the data */
} mlxn_tensor_info;

/* Describes tensor `index` (from 0, in the order of the file's header). info->size must be set. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_file_at(const mlxn_file *file, size_t index, mlxn_tensor_info *info);

/* Finds the tensor called `name`. MLXN_NOT_FOUND if there is none. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_file_find(const mlxn_file *file, const char *name, size_t *index);

/* The metadata of a .safetensors file: the number of entries, and entry `index` (from 0) as two UTF-8
 * texts, valid until the file is closed. */
MLXN_API size_t mlxn_file_metadata_count(const mlxn_file *file);
MLXN_API MLXN_NODISCARD mlxn_status mlxn_file_metadata_at(const mlxn_file *file, size_t index, const char **key,
                                                          const char **value);

/* Copies tensor `index` into `data`, `size` bytes, which must be the tensor's info.bytes exactly. For a
 * size of 0 `data` may be NULL. Needs no device. On failure what `data` holds is undefined. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_file_read(const mlxn_file *file, size_t index, void *data, size_t size);

/* The tensor's elements where they lie, without copying: valid until the file is closed, read-only, aligned
 * for their dtype. MLXN_UNSUPPORTED where that cannot be had: not aligned in the file, of another byte or
 * element order, or not mapped. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_file_data(const mlxn_file *file, size_t index, const void **data);

/* Makes a buffer of tensor `index` on a device. Where mlxn_file_data would succeed and the device works in
 * host memory, the buffer is the file's map, read-only, and copies nothing; otherwise it is a new
 * buffer with a copy. Destroy it with mlxn_buffer_destroy, before or after closing the file. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_file_load(mlxn_file *file, size_t index, mlxn_device *device,
                                                   mlxn_buffer **buffer);

/* Opens, loads, closes. `reference` is PATH, a file with exactly one tensor, or PATH:TENSOR where PATH ends in
 * ".safetensors". `options` may be NULL. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_load(mlxn_device *device, const char *reference,
                                              const mlxn_file_options *options, mlxn_buffer **buffer);

/* ---- writing --------------------------------------------------------------------------------- */

/* A file is written whole or not at all: into a new file beside the target, brought to disk, and then
 * renamed over it. On any failure the target is as it was and the new file is gone; a file of the name
 * ".mlxn-*.tmp" stays behind only if the process is killed. A target that exists keeps its permissions,
 * and one that may not be written is refused; a symbolic link is followed. A target that is not a regular
 * file, such as a pipe, a terminal or /dev/null, cannot be replaced and gets the bytes directly, as do
 * /dev/stdout, /dev/stderr and /dev/fd/N, at the descriptor's own position. Writing waits for committed work
 * on the buffers. A device's data passes through a few MiB of host memory, never all at once. A closed
 * pipe or a file size limit is MLXN_FILE_FAILED, not a signal. */

/* Writes a buffer as .npy, version 1, with the bytes that numpy.save writes. bf16 becomes '<V2': NumPy
 * reads it back as void, and array.view(ml_dtypes.bfloat16) gives the numbers. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_save_npy(const char *path, const mlxn_buffer *buffer);

typedef struct mlxn_named_buffer {
    const char *name; /* UTF-8; ignored in a .npy file and may be NULL there */
    const mlxn_buffer *buffer;
} mlxn_named_buffer;

typedef struct mlxn_metadata {
    const char *key;   /* UTF-8 */
    const char *value; /* UTF-8 */
} mlxn_metadata;

typedef struct mlxn_save_file {
    size_t size; /* sizeof(mlxn_save_file) */
    const char *path;
    mlxn_format format;
    const mlxn_named_buffer *tensors; /* exactly one in a .npy file */
    size_t tensor_count;
    const mlxn_metadata *metadata; /* .safetensors only; may be NULL if metadata_count is 0 */
    size_t metadata_count;
} mlxn_save_file;

/* Writes one file. In .safetensors no two tensors and no two keys may have one name, "__metadata__" is not
 * a name, and the data are laid out by falling element size, so that all are aligned. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_save(const mlxn_save_file *file);

/* Writes several files all or none: first each beside its target, then all are renamed; should a rename
 * fail, those done are undone. The targets must be different files. What went to a target that is not a
 * regular file cannot be taken back; those are written last before the renames. */
MLXN_API MLXN_NODISCARD mlxn_status mlxn_save_all(const mlxn_save_file *files, size_t count);

#ifdef __cplusplus
}
#endif

#endif
