/* The vector exp functions of other libraries, over arrays and on several threads, for bench/peers.py.
 *
 *     cc -O3 -march=native -fopenmp -fPIC -shared [-DWITH_SLEEF] peers.c [-lsleef] -lmvec -lm -o peers.so
 *
 * `streaming` gives a function the non-temporal stores that mlxn uses for outputs larger than the cache, so that the
 * arithmetic and not the kind of store is compared. Arrays are aligned to 64 bytes; counts are multiples of 16.
 */
#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#ifdef WITH_SLEEF
#include <sleef.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
typedef __m512 vector;
vector _ZGVeN16v_expf(vector x);
#define MVEC_EXP _ZGVeN16v_expf
#define SLEEF_EXP Sleef_expf16_u10avx512f
#define LOAD _mm512_load_ps
#define STORE _mm512_store_ps
#define STREAM _mm512_stream_ps
#elif defined(__AVX2__)
enum { LANES = 8 };
typedef __m256 vector;
vector _ZGVdN8v_expf(vector x);
#define MVEC_EXP _ZGVdN8v_expf
#define SLEEF_EXP Sleef_expf8_u10avx2
#define LOAD _mm256_load_ps
#define STORE _mm256_store_ps
#define STREAM _mm256_stream_ps
#else
#error "the peers need AVX2"
#endif

typedef vector (*vector_function)(vector x);

static inline __attribute__((always_inline)) void run(vector_function function, const float *x, float *y, size_t count,
                                                      int threads, bool streaming) {
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        if (streaming) {
#pragma omp for schedule(static)
            for (size_t i = 0; i < count; i += LANES)
                STREAM(y + i, function(LOAD(x + i)));
            _mm_sfence();
        } else {
#pragma omp for schedule(static)
            for (size_t i = 0; i < count; i += LANES)
                STORE(y + i, function(LOAD(x + i)));
        }
    }
}

#ifdef WITH_SLEEF
void peers_exp_sleef(const float *x, float *y, size_t count, int threads, bool streaming) {
    run(SLEEF_EXP, x, y, count, threads, streaming);
}
#endif

void peers_exp_mvec(const float *x, float *y, size_t count, int threads, bool streaming) {
    run(MVEC_EXP, x, y, count, threads, streaming);
}

void peers_exp_libm(const float *x, float *y, size_t count, int threads, bool streaming) {
    (void)streaming;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (size_t i = 0; i < count; i++)
        y[i] = expf(x[i]);
}
