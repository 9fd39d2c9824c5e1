/* Every built-in kernel is compiled by NVRTC, where there is one, for the devices that it is meant for; that takes no
 * driver. Several threads compile at once, as a program's may. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "backend/cuda/nvrtc.h"
#include "backend/cuda/state.h"
#include "core/memory.h"
#include "core/op.h"
#include "support/test.h"

/* Hopper has all kernels; older devices, which have other ways in the prelude, every so many. */
static const struct {
    int capability;
    const char *option;
    size_t step;
} targets[] = {
    {90, "--gpu-architecture=sm_90a", 1}, {80, "--gpu-architecture=sm_80", 7}, {75, "--gpu-architecture=sm_75", 7}};
enum { TARGETS = sizeof targets / sizeof *targets, MOST_KERNELS = 400, MOST_THREADS = 16 };

static struct job {
    const mlxn_gpu_kernel *kernel;
    const mlxn_nvrtc_target *target;
} jobs[TARGETS * MOST_KERNELS];
static size_t job_count;
static atomic_size_t next_job, failures;

static void add_job(const mlxn_gpu_kernel *kernel, const mlxn_nvrtc_target *target) {
    assert_true(job_count < sizeof jobs / sizeof *jobs);
    jobs[job_count++] = (struct job){kernel, target};
}

/* An image is an ELF file that has the entry point's name in it. */
static bool is_image_of(const char *name, const char *image, size_t bytes) {
    const size_t length = strlen(name) + 1;
    bool found = false;
    for (size_t i = 0; !found && i + length <= bytes; i++)
        found = memcmp(image + i, name, length) == 0;
    return found && memcmp(image, "\177ELF", 4) == 0;
}

static bool compile(const struct job *job) {
    const mlxn_kernel described = {.name = job->kernel->name, .text = job->kernel->text, .built_in = true};
    size_t text_bytes, bytes = 0;
    void *image = NULL;
    char *text = mlxn_cuda_text(&mlxn_default_allocator, &described, &text_bytes);
    bool good = text != NULL;
    if (good && mlxn_nvrtc_compile(&mlxn_default_allocator, job->target, described.name, text, &image, &bytes) != 0) {
        fprintf(stderr, "%s: %s\n", job->target->architecture, mlxn_last_error());
        good = false;
    } else if (good && !is_image_of(described.name, image, bytes)) {
        fprintf(stderr, "%s: %s: what came of it has no such kernel\n", job->target->architecture, described.name);
        good = false;
    }
    mlxn_free(&mlxn_default_allocator, image, bytes);
    mlxn_free(&mlxn_default_allocator, text, text_bytes);
    return good;
}

static void *work(void *unused) {
    for (size_t i; (i = atomic_fetch_add(&next_job, 1)) < job_count;)
        if (!compile(&jobs[i]))
            atomic_fetch_add(&failures, 1);
    return unused;
}

static void every_kernel_compiles(void **state) {
    (void)state;
    static mlxn_nvrtc_target made[TARGETS];
    size_t all = 0;
    for (size_t t = 0; t < TARGETS; t++) {
        OK(mlxn_nvrtc_target_for(13000, targets[t].capability, &made[t]));
        if (!made[t].cubin) {
            print_message("skipped: %s does not compile for %d\n", made[t].compiler, targets[t].capability);
            continue;
        }
        assert_string_equal(made[t].architecture, targets[t].option);
        size_t seen = 0;
        for (size_t f = 0; f < mlxn_family_count; f++) {
            const mlxn_gpu_kernels *kernels = mlxn_families[f]->gpu;
            assert_true(kernels != NULL && kernels->count > 0);
            for (size_t k = 0; k < kernels->count; k++)
                if (seen++ % targets[t].step == 0)
                    add_job(&kernels->list[k], &made[t]);
        }
        all = seen;
    }
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[MOST_THREADS];
    int started = 0;
    while (started < MOST_THREADS - 1 && started < processors - 1 &&
           pthread_create(&threads[started], NULL, work, NULL) == 0)
        started++;
    work(NULL);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    print_message("%s: %zu kernels, compiled %zu times by %d threads\n", made[0].compiler, all, job_count, started + 1);
    assert_true(failures == 0);
}

/* The prelude does not hide mistakes: a text that is none fails, with the compiler's own words. */
static void a_mistake_is_reported(void **state) {
    (void)state;
    const char *const text[] = {"KERNEL(wrong, 32, 1)(CONSTANTS(u32, c)) { nowhere = c; }\n", NULL};
    const mlxn_kernel kernel = {.name = "wrong", .text = text, .built_in = true};
    mlxn_nvrtc_target target;
    OK(mlxn_nvrtc_target_for(13000, 90, &target));
    size_t bytes, image_bytes;
    void *image;
    char *whole = mlxn_cuda_text(&mlxn_default_allocator, &kernel, &bytes);
    assert_non_null(whole);
    FAILS_WITH(MLXN_COMPILE_FAILED, "\"nowhere\" is undefined",
               mlxn_nvrtc_compile(&mlxn_default_allocator, &target, "wrong", whole, &image, &image_bytes));
    mlxn_free(&mlxn_default_allocator, whole, bytes);
}

int main(void) {
    if (test_is_slow_here()) {
        printf("skipped: the compiler is not for sanitizers or emulators to run\n");
        return TEST_SKIPPED;
    }
    mlxn_nvrtc_target target;
    if (mlxn_nvrtc_target_for(13000, 90, &target) != MLXN_OK) {
        printf("skipped: %s\n", mlxn_last_error());
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mistake_is_reported),
        cmocka_unit_test(every_kernel_compiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
