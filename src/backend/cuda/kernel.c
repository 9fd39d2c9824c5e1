/* Kernels: from their text, or from the disk cache, to a function of the device. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/embedded.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/state.h"
#include "core/cache.h"
#include "kernels/text.h"

/* Built-in kernels are written in the dialect's words, which the prelude gives; users' are as they are. */
static const char *prelude_of(const mlxn_kernel *kernel) {
    return kernel->built_in ? mlxn_text_cuda : "";
}

char *mlxn_cuda_text(const mlxn_allocator *allocator, const mlxn_kernel *kernel, size_t *bytes) {
    const char *prelude = prelude_of(kernel);
    *bytes = strlen(prelude) + 1;
    for (const char *const *piece = kernel->text; *piece != NULL; piece++) {
        *bytes += strlen(*piece);
    }
    char *text = mlxn_allocate(allocator, *bytes, 1);
    if (text != NULL) {
        char *end = stpcpy(text, prelude);
        for (const char *const *piece = kernel->text; *piece != NULL; piece++) {
            end = stpcpy(end, *piece);
        }
    }
    return text;
}

/* Everything that decides what the compiled kernel is. */
static mlxn_cache_key key_of(const mlxn_device *device, const mlxn_nvrtc_target *target, const char *text) {
    enum { OWN = 5 };
    const char *texts[OWN + 16 + 2];
    char version[16];
    size_t count = 0;
    snprintf(version, sizeof version, "%d", mlxn_cuda_version());
    texts[count++] = "cuda";
    texts[count++] = device->info.description;
    texts[count++] = version;
    texts[count++] = target->compiler;
    texts[count++] = target->architecture;
    for (size_t i = 0; i < mlxn_nvrtc_option_count && i < 16; i++) {
        texts[count++] = mlxn_nvrtc_options[i];
    }
    texts[count++] = text;
    texts[count] = NULL;
    return mlxn_cache_key_of(texts);
}

/* What the driver tells of a kernel's arguments: the first that it does not know is behind the last. */
static mlxn_status learn_arguments(mlxn_cuda_state *state, mlxn_cuda_kernel *kernel) {
    if (mlxn_cuda.FuncGetParamInfo == NULL) {
        return MLXN_OK;
    }
    kernel->arguments_known = true;
    for (; kernel->argument_count <= MAX_ARGUMENTS; kernel->argument_count++) {
        size_t offset, bytes = 0;
        const CUresult result = mlxn_cuda.FuncGetParamInfo(kernel->function, kernel->argument_count, &offset, &bytes);
        if (result != CUDA_SUCCESS) {
            return result == CUDA_ERROR_INVALID_VALUE ? MLXN_OK : mlxn_cuda_failed(state, "cuFuncGetParamInfo", result);
        }
        if (kernel->argument_count < MAX_ARGUMENTS) {
            kernel->argument_bytes[kernel->argument_count] = bytes;
        }
    }
    return MLXN_OK;
}

/* Loads an image into the context, which is current. */
static mlxn_status load(const mlxn_device *device, const char *name, const void *image, mlxn_cuda_kernel *kernel) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    *kernel = (mlxn_cuda_kernel){0};
    mlxn_status status = CU(state, ModuleLoadData, &kernel->module, image);
    if (status != MLXN_OK) {
        return status;
    }
    int threads = 0, local = 0;
    const CUresult found = mlxn_cuda.ModuleGetFunction(&kernel->function, kernel->module, name);
    if (found == CUDA_ERROR_NOT_FOUND) {
        status =
            mlxn_fail(MLXN_COMPILE_FAILED,
                      "%s: the text has no such entry point, expected extern \"C\" __global__ void %s(…)", name, name);
    } else {
        status = mlxn_cuda_check(state, "cuModuleGetFunction", found);
    }
    if (status == MLXN_OK) {
        status = CU(state, FuncGetAttribute, &threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel->function);
    }
    if (status == MLXN_OK) {
        status = CU(state, FuncGetAttribute, &local, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel->function);
    }
    if (status == MLXN_OK) {
        status = learn_arguments(state, kernel);
    }
    if (status != MLXN_OK) {
        mlxn_cuda.ModuleUnload(kernel->module);
        return status;
    }
    kernel->threads = threads > 0 ? (uint64_t)threads : 0;
    kernel->local_bytes = local > 0 ? (size_t)local : 0;
    kernel->local_most = kernel->local_bytes < device->local_bytes ? device->local_bytes - kernel->local_bytes : 0;
    return MLXN_OK;
}

/* From the cache if it is there and the driver takes it, else from the text. With the context current. `*architecture` is
 * what it was compiled for. */
static mlxn_status make(mlxn_device *device, const char *name, const char *text, mlxn_cuda_kernel *kernel,
                        int *architecture) {
    const mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    mlxn_nvrtc_target target;
    mlxn_status status = mlxn_nvrtc_target_for(mlxn_cuda_version(), state->capability, &target);
    if (status != MLXN_OK) {
        const char *ptx = mlxn_cuda_embedded(text, state->capability, architecture);
        return ptx != NULL ? load(device, name, ptx, kernel) : status;
    }
    *architecture = target.number;
    const mlxn_cache_key key = key_of(device, &target, text);
    size_t bytes = 0;
    void *image = mlxn_cache_load(device, key, &bytes);
    if (image != NULL) {
        status = load(device, name, image, kernel);
        mlxn_free(&device->allocator, image, bytes);
        if (status == MLXN_OK || mlxn_cuda_usable(mlxn_cuda_state_of(device)) != MLXN_OK) {
            return status;
        }
    }
    status = mlxn_nvrtc_compile(&device->allocator, &target, name, text, &image, &bytes);
    if (status != MLXN_OK) {
        return status;
    }
    status = load(device, name, image, kernel);
    if (status == MLXN_OK) {
        mlxn_cache_store(device, key, image, bytes);
    }
    mlxn_free(&device->allocator, image, bytes);
    return status;
}

/* Whether a kernel that was compiled for this architecture may be started early: AWAIT is nothing before 9.0, and in a
 * user's text it is no word of ours. */
static bool awaits(const mlxn_kernel *kernel, int architecture) {
    bool found = false;
    for (const char *const *piece = kernel->text; !found && *piece != NULL; piece++) {
        found = strstr(*piece, "AWAIT();") != NULL;
    }
    return found && kernel->built_in && architecture >= 90;
}

mlxn_status mlxn_cuda_compile(mlxn_device *device, mlxn_kernel *kernel) {
    mlxn_cuda_state *state = mlxn_cuda_state_of(device);
    mlxn_status status = mlxn_cuda_usable(state);
    if (status != MLXN_OK) {
        return status;
    }
    size_t bytes = 0;
    char *text = mlxn_cuda_text(&device->allocator, kernel, &bytes);
    mlxn_cuda_kernel *made = mlxn_allocate(&device->allocator, sizeof *made, _Alignof(mlxn_cuda_kernel));
    if (text == NULL || made == NULL) {
        status = mlxn_fail(MLXN_OUT_OF_MEMORY, "%s: no memory to compile the kernel", kernel->name);
    } else {
        status = mlxn_cuda_enter(state);
    }
    if (status == MLXN_OK) {
        int architecture = 0;
        status = make(device, kernel->name, text, made, &architecture);
        made->awaits = status == MLXN_OK && awaits(kernel, architecture);
        mlxn_cuda_leave();
    }
    mlxn_free(&device->allocator, text, bytes);
    if (status == MLXN_OK) {
        atomic_store(&kernel->compiled, made);
    } else {
        mlxn_free(&device->allocator, made, sizeof *made);
    }
    return status;
}

void mlxn_cuda_unload(mlxn_device *device, mlxn_kernel *kernel) {
    mlxn_cuda_kernel *made = kernel->compiled;
    if (!mlxn_cuda_forked() && mlxn_cuda_enter(mlxn_cuda_state_of(device)) == MLXN_OK) {
        mlxn_cuda.ModuleUnload(made->module);
        mlxn_cuda_leave();
    }
    mlxn_free(&device->allocator, made, sizeof *made);
}
