/* What the sources of mlxn-io share. */
#ifndef MLXN_IO_INTERNAL_H
#define MLXN_IO_INTERNAL_H

#include <mlxn/io.h>

#include <jansson.h>
#include <stdatomic.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "mlxn-io takes the machine's own byte order to be little-endian"
#endif

/* ---- messages (error.c) ---- */

/* Sets the thread's message, with control characters replaced. */
void mlxn_io_explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Explains and is the status. A macro, so that compilers and analyzers see that it is not MLXN_OK. */
#define mlxn_io_fail(status, ...) (mlxn_io_explain(__VA_ARGS__), (status))

static inline mlxn_status mlxn_io_out_of_memory(const char *path, size_t bytes) {
    return mlxn_io_fail(MLXN_OUT_OF_MEMORY, "%s: out of memory, %zu bytes wanted", path, bytes);
}

/* The failure of a call into mlxn: its message behind what mlxn-io was doing. */
static inline mlxn_status mlxn_io_fail_core(mlxn_status status, const char *path, const char *doing) {
    return mlxn_io_fail(status, "%s: %s: %s", path, doing, mlxn_last_error());
}

/* ---- an open file ---- */

typedef struct mlxn_io_tensor {
    const char *name;
    const char *file_dtype;
    bool supported;
    bool swapped; /* the file's byte order is not the machine's */
    bool fortran; /* the first index runs fastest in the file */
    mlxn_dtype dtype;
    size_t rank;
    int64_t shape[MLXN_MAX_RANK];
    int64_t count;
    size_t bytes;
    size_t offset; /* from the start of the file */
} mlxn_io_tensor;

typedef enum mlxn_io_view {
    MLXN_IO_NO_VIEW,
    MLXN_IO_MAPPED,   /* mmap */
    MLXN_IO_OWNED,    /* malloc */
    MLXN_IO_BORROWED, /* the caller's */
} mlxn_io_view;

struct mlxn_file {
    atomic_size_t users; /* the handle, and every buffer that shows the view */
    char *path;
    mlxn_format format;
    int fd; /* of a regular file, else -1 */
    size_t size;
    mlxn_io_view view_kind;
    const unsigned char *view; /* the whole file in memory; NULL if there is no view */
    mlxn_io_tensor *tensors;
    size_t count;
    const mlxn_io_tensor **by_name; /* sorted by name */
    char descr[24];                 /* .npy */
    json_t *header;                 /* .safetensors; owns every name and the metadata's texts */
    mlxn_metadata *metadata;
    size_t metadata_count;
};

/* ---- bytes of a file (source.c) ---- */

/* Fills fd, size and view. */
mlxn_status mlxn_io_source_open(mlxn_file *file, bool copy);

/* Drops the descriptor, which loaded buffers do not need. */
void mlxn_io_source_close(mlxn_file *file);

/* Drops the view. */
void mlxn_io_source_release(mlxn_file *file);

/* Copies bytes of the file; never through the map, so that a file cut short is an error. The range lies
 * within file->size. */
mlxn_status mlxn_io_fetch(const mlxn_file *file, size_t offset, size_t size, void *data);

/* ---- formats (npy.c, safetensors.c) ---- */

#define MLXN_NPY_MAGIC "\x93NUMPY"
#define MLXN_NPY_MAGIC_BYTES 6
#define MLXN_SAFETENSORS_MAX_HEADER 100000000

/* Parse the header and fill tensors, count and what belongs to the format. What they allocated before a failure
 * is freed with the file. */
mlxn_status mlxn_io_npy_parse(mlxn_file *file);
mlxn_status mlxn_io_safetensors_parse(mlxn_file *file);

/* The bytes of a .npy file before the data. NumPy pads them to a multiple of 64, with room for the first extent to
 * grow; for every shape that 64 bits can count, of which the longest text has 104 bytes, that is 128. */
#define MLXN_NPY_HEADER 128
void mlxn_io_npy_header(const mlxn_buffer *buffer, char header[MLXN_NPY_HEADER]);

/* The header of a .safetensors file, length field and padding included, in *header (free it), and the order in
 * which the data follow, in order[file->tensor_count]. Checks names and metadata. */
mlxn_status mlxn_io_safetensors_header(const mlxn_save_file *file, char **header, size_t *size, size_t *order);

/* Sets count and bytes from dtype_bits and shape; false where 64 bits cannot count them, whatever extents of 0
 * there are beside. */
bool mlxn_io_measure(mlxn_io_tensor *tensor, size_t dtype_bits);

/* ---- elements (convert.c) ---- */

/* Whether the file's bytes of the tensor are its elements as the machine has them. */
bool mlxn_io_is_native(const mlxn_io_tensor *tensor);

/* Reads `size` bytes of elements from byte `offset` of the tensor, in the machine's byte order. Not for Fortran
 * order. */
mlxn_status mlxn_io_read_range(const mlxn_file *file, const mlxn_io_tensor *tensor, size_t offset, size_t size,
                               void *data);

/* Reads all elements, row-major. */
mlxn_status mlxn_io_read_all(const mlxn_file *file, const mlxn_io_tensor *tensor, void *data);

/* Data is read, converted and written in pieces of this many bytes. */
#define MLXN_IO_PIECE ((size_t)4 << 20)

/* ---- writing (target.c) ---- */

typedef struct mlxn_io_target {
    const char *name; /* the caller's path, for messages */
    char *path;       /* with symbolic links of the last component followed */
    bool stream;      /* not a regular file: gets the bytes directly */
    int stream_fd;    /* the descriptor that the path names, or -1 */
    bool existed;
    unsigned mode;
    unsigned uid, gid;
    unsigned long long device, inode; /* of the file; where there is none yet, of its folder */
    char *temporary;                  /* exists from begin to publish or discard */
    char *backup;                     /* the old file, while several targets are published */
    bool renamed;
    int fd;
} mlxn_io_target;

/* Looks at the target and refuses what cannot be written. */
mlxn_status mlxn_io_target_prepare(mlxn_io_target *target, const char *path);

/* Whether writing one would replace the other. */
bool mlxn_io_target_same(const mlxn_io_target *a, const mlxn_io_target *b);

/* Opens the temporary file or the stream. */
mlxn_status mlxn_io_target_begin(mlxn_io_target *target);

mlxn_status mlxn_io_target_write(mlxn_io_target *target, const void *data, size_t size);

/* Brings the file to disk and closes it. */
mlxn_status mlxn_io_target_finish(mlxn_io_target *target);

/* Renames all, or none. */
mlxn_status mlxn_io_targets_publish(mlxn_io_target *targets, size_t count);

/* Removes what is left of a target and frees it; the published file stays. */
void mlxn_io_target_discard(mlxn_io_target *target);

#endif
