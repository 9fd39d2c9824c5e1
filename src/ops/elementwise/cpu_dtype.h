/* The elementwise kernels of one dtype; included once for each by cpu.c, which defines
 *
 *   T                the dtype's name: f32, f16 or bf16
 *   ELEMENT          its type in C
 *   ALIGNMENT        the bytes that v16_stream_T wants its pointer aligned to
 *   ELEMENTARY(f, x) the elementary function f for it
 *   CANONICAL_BEFORE_STORE  whether NaNs are still to be made canonical when v16_store_T gets them
 *
 * Every op becomes a body, which computes 16 lanes of its outputs from 16 lanes of its inputs, and a kernel,
 * which is run_T() with that body in its loop. */

#define OF_DTYPE_JOINED(name, dtype) name##_##dtype
#define OF_DTYPE_EXPANDED(name, dtype) OF_DTYPE_JOINED(name, dtype)
#define OF_DTYPE(name) OF_DTYPE_EXPANDED(name, T)

/* One line of 16 elements, or its first `n` if n < 16. */
VEC_INLINE void OF_DTYPE(line)(const line_span *span, uint64_t at, size_t n, bool streaming, op_shape shape,
                               op_body body) {
    v16 in[MAX_INPUTS], out[MAX_OUTPUTS];
    for (size_t i = 0; i < shape.inputs; i++) {
        const ELEMENT *from = (const ELEMENT *)span->in[i] + at;
        in[i] = n < 16 ? OF_DTYPE(v16_load_part)(from, n) : OF_DTYPE(v16_load)(from);
    }
    body(in, out);
    for (size_t i = 0; i < shape.outputs; i++) {
        ELEMENT *to = (ELEMENT *)span->out[i] + at;
        v16 result = out[i];
        if (span->accumulate)
            result = v16_add(n < 16 ? OF_DTYPE(v16_load_part)(to, n) : OF_DTYPE(v16_load)(to), result);
        if (CANONICAL_BEFORE_STORE && !shape.canonical)
            result = v16_canonical(result);
        if (n < 16)
            OF_DTYPE(v16_store_part)(to, result, n);
        else if (streaming)
            OF_DTYPE(v16_stream)(to, result);
        else
            OF_DTYPE(v16_store)(to, result);
    }
}

/* Elements before the first output's next boundary for streaming; SIZE_MAX if the outputs do not share one. */
VEC_INLINE size_t OF_DTYPE(head)(const line_span *span, uint64_t at, op_shape shape) {
    size_t head = SIZE_MAX;
    for (size_t i = 0; i < shape.outputs; i++) {
        uintptr_t to = (uintptr_t)((ELEMENT *)span->out[i] + at);
        size_t own = (size_t)(-to % ALIGNMENT) / sizeof(ELEMENT);
        if (i > 0 && own != head)
            return SIZE_MAX;
        head = own;
    }
    return head;
}

/* Groups [begin, end): one run of consecutive elements. */
VEC_INLINE void OF_DTYPE(run)(const mlxn_call *call, uint64_t begin, uint64_t end, op_shape shape, op_body body) {
    const mlxn_elementwise_constants *constants = call->constants;
    line_span span = {.accumulate = shape.accumulates && constants->accumulate != 0};
    for (size_t i = 0; i < shape.inputs; i++)
        span.in[i] = call->buffers[i];
    for (size_t i = 0; i < shape.outputs; i++)
        span.out[i] = call->buffers[shape.inputs + i];
    uint64_t at = begin * MLXN_ELEMENTWISE_GROUP, stop = end * MLXN_ELEMENTWISE_GROUP;
    if (stop > constants->count)
        stop = constants->count;
    /* What accumulates has just read its output: an ordinary store then costs no more than a streaming one. */
    size_t head = call->streaming && !span.accumulate ? OF_DTYPE(head)(&span, at, shape) : SIZE_MAX;
    if (head < stop - at) {
        if (head > 0)
            OF_DTYPE(line)(&span, at, head, false, shape, body);
        for (at += head; stop - at >= 16; at += 16)
            OF_DTYPE(line)(&span, at, 16, true, shape, body);
    } else {
        for (; stop - at >= 16; at += 16)
            OF_DTYPE(line)(&span, at, 16, false, shape, body);
    }
    if (at < stop)
        OF_DTYPE(line)(&span, at, stop - at, false, shape, body);
}

/* clang-format off */
#define BODY(name) VEC_INLINE void OF_DTYPE(body_##name)(const v16 *in, v16 *out)
#define KERNEL(name) static void OF_DTYPE(name)(const mlxn_call *call, uint64_t begin, uint64_t end)
#define RUN(name, ...) OF_DTYPE(run)(call, begin, end, (op_shape){__VA_ARGS__}, OF_DTYPE(body_##name))
#define SPECIAL(...)

#define UNARY(name, forward, saved, gradient, ...) FORWARD1(name, forward) BACKWARD1(name, saved, gradient)
#define FORWARD1(name, forward) BODY(name) { const v16 x = in[0]; out[0] = forward; }
#define BACKWARD1(name, saved, dx) BODY(name##_backward) { const v16 saved = in[0], dy = in[1]; out[0] = dx; }
#define BINARY(name, forward, da, db, ...) FORWARD2(name, forward) BACKWARD2(name, da, db)
#define FORWARD2(name, forward) BODY(name) { const v16 a = in[0], b = in[1]; out[0] = forward; }
#define BACKWARD2(name, da, db) BODY(name##_backward) { BACKWARD2_IN; out[0] = da; out[1] = db; }
#define BACKWARD2_IN const v16 a = in[0], b = in[1], dy = in[2]
#include "ops/ops.def"
#undef UNARY
#undef BINARY

#define UNARY(name, forward, ...) KERNEL1(name, IS_ELEMENTARY(#forward)) KERNEL_BACKWARD(name, 2, 1)
#define BINARY(name, ...) KERNEL2(name) KERNEL_BACKWARD(name, 3, 2)
#define KERNEL1(name, canonical) KERNEL(name) { RUN(name, 1, 1, false, canonical); }
#define KERNEL2(name) KERNEL(name) { RUN(name, 2, 1, false, false); }
#define KERNEL_BACKWARD(name, ...) KERNEL(name##_backward) { RUN(name##_backward, __VA_ARGS__, true, false); }
#include "ops/ops.def"
#undef UNARY
#undef BINARY
/* clang-format on */

#undef BODY
#undef KERNEL
#undef RUN
#undef SPECIAL
#undef FORWARD1
#undef BACKWARD1
#undef FORWARD2
#undef BACKWARD2
#undef BACKWARD2_IN
#undef KERNEL1
#undef KERNEL2
#undef KERNEL_BACKWARD
#undef OF_DTYPE
#undef OF_DTYPE_EXPANDED
#undef OF_DTYPE_JOINED
#undef T
#undef ELEMENT
#undef ALIGNMENT
#undef ELEMENTARY
#undef CANONICAL_BEFORE_STORE
