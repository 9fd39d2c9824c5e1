/* Errors of the driver, and which of them end a device. */
#include <stdio.h>

#include "backend/cuda/state.h"

/* After these the context answers every call with an error. */
static bool ends_the_context(CUresult result) {
    switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED;
    }
}

void mlxn_cuda_break(mlxn_cuda_state *state, const char *text) {
    int sound = 0;
    if (atomic_compare_exchange_strong(&state->broken, &sound, 1)) {
        snprintf(state->broken_text, sizeof state->broken_text, "%s", text);
        atomic_store(&state->broken, 2);
    }
}

mlxn_status mlxn_cuda_failed(mlxn_cuda_state *state, const char *call, CUresult result) {
    const mlxn_cuda_error error = mlxn_cuda_error_of(result);
    if (state != NULL && ends_the_context(result)) {
        char text[sizeof state->broken_text];
        snprintf(text, sizeof text, "%s: %s (%s)", call, error.text, error.name);
        mlxn_cuda_break(state, text);
    }
    return mlxn_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? MLXN_OUT_OF_MEMORY : MLXN_DEVICE_FAILED, "%s: %s (%s)", call,
                     error.text, error.name);
}

mlxn_status mlxn_cuda_usable(mlxn_cuda_state *state) {
    if (mlxn_cuda_forked()) {
        return mlxn_fail(MLXN_DEVICE_FAILED,
                         "cuda:%d: the process has forked since CUDA was started, which CUDA does "
                         "not survive",
                         state->device);
    }
    const int broken = atomic_load_explicit(&state->broken, memory_order_acquire);
    if (broken != 0) {
        return mlxn_fail(MLXN_DEVICE_FAILED, "cuda:%d: an earlier failure has ended the device's work: %s",
                         state->device, broken == 2 ? state->broken_text : "the driver reported it just now");
    }
    return MLXN_OK;
}

mlxn_status mlxn_cuda_enter(mlxn_cuda_state *state) {
    return CU(state, CtxPushCurrent, state->context);
}

void mlxn_cuda_leave(void) {
    CUcontext ours;
    mlxn_cuda.CtxPopCurrent(&ours);
}
