/* Every built-in kernel is compiled by NVRTC, where there is one, for the devices that it is meant for; that takes no
 * driver. Several threads compile at once, as a program's may. And every one waits for the kernel before it, before it
 * does anything else that shows (backend/cuda/launch.c). */
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

/* What is wrong with a kernel. */
typedef struct complaint {
    char text[1024];
} complaint;

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

/* The next statement of PTX: a label, or an instruction or directive without what guards it; NULL at the end. `*length` is
 * that of its first word, which says what it is. */
static const char *next_statement(const char **at, size_t *length) {
    const char *p = *at;
    for (;;) {
        p += strspn(p, " \t\r\n;{}");
        if (*p == '@')
            p += strcspn(p, " \t\n");
        else if (p[0] == '/' && p[1] == '/')
            p += strcspn(p, "\n");
        else
            break;
    }
    *length = strcspn(p, " \t\r\n;{}");
    *at = p + strcspn(p, "\n;{}");
    return *p != '\0' ? p : NULL;
}

static bool is_one_of(const char *word, size_t length, const char *const *list) {
    for (; *list != NULL; list++)
        if (strlen(*list) == length && memcmp(*list, word, length) == 0)
            return true;
    return false;
}

/* Whether a statement may stand before the wait: it uses no memory but the thread's arguments and what is the group's or
 * the thread's own, and all threads go on to the next one. */
static bool may_come_early(const char *word, size_t length) {
    static const char *const uses[] = {"ld",        "ldu",      "st",      "atom",          "red",  "prefetch",
                                       "prefetchu", "cp",       "tex",     "tld4",          "suld", "sust",
                                       "sured",     "multimem", "discard", "applypriority", NULL};
    static const char *const leaves[] = {"bra", "brx", "call", "ret", "exit", "trap", NULL};
    static const char *const own[] = {"ld.param", "ld.const", "ld.shared", "st.shared", "ld.local", "st.local"};
    const size_t stem = strcspn(word, ". \t\r\n;");
    if (is_one_of(word, stem, leaves) || word[length - 1] == ':')
        return false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strncmp(word, own[i], strlen(own[i])) == 0)
            return true;
    return !is_one_of(word, stem, uses);
}

/* Whether the entry point waits for the kernel before it, before all that another kernel could see. A kernel that did not
 * would read what is not written yet, now and then. */
static bool awaits_first(const char *name, const char *ptx, complaint *about) {
    const size_t name_length = strlen(name);
    const char *at = ptx, *entry = NULL;
    while (entry == NULL && (at = strstr(at, ".entry ")) != NULL) {
        at += strlen(".entry ");
        if (strncmp(at, name, name_length) == 0 && at[name_length] == '(')
            entry = strchr(at, '{');
    }
    size_t length;
    for (const char *word; entry != NULL && (word = next_statement(&entry, &length)) != NULL;) {
        if (strncmp(word, "griddepcontrol.wait", length) == 0)
            return true;
        if (!may_come_early(word, length)) {
            snprintf(about->text, sizeof about->text, "before its wait: %.*s", (int)strcspn(word, "\n"), word);
            return false;
        }
    }
    snprintf(about->text, sizeof about->text, "it does not wait");
    return false;
}

static bool compile(const struct job *job, complaint *about) {
    const mlxn_kernel described = {.name = job->kernel->name, .text = job->kernel->text, .built_in = true};
    size_t text_bytes, bytes = 0;
    void *image = NULL;
    char *text = mlxn_cuda_text(&mlxn_default_allocator, &described, &text_bytes);
    bool good = text != NULL;
    snprintf(about->text, sizeof about->text, "no memory");
    if (good && mlxn_nvrtc_compile(&mlxn_default_allocator, job->target, described.name, text, &image, &bytes) != 0) {
        snprintf(about->text, sizeof about->text, "%s", mlxn_last_error());
        good = false;
    } else if (good && !job->target->cubin) {
        good = awaits_first(described.name, image, about);
    } else if (good && !is_image_of(described.name, image, bytes)) {
        snprintf(about->text, sizeof about->text, "what came of it has no such kernel");
        good = false;
    }
    mlxn_free(&mlxn_default_allocator, image, bytes);
    mlxn_free(&mlxn_default_allocator, text, text_bytes);
    return good;
}

static void *work(void *unused) {
    complaint about;
    for (size_t i; (i = atomic_fetch_add(&next_job, 1)) < job_count;)
        if (!compile(&jobs[i], &about)) {
            fprintf(stderr, "%s: %s: %s\n", jobs[i].target->architecture, jobs[i].kernel->name, about.text);
            atomic_fetch_add(&failures, 1);
        }
    return unused;
}

/* Gives the number of threads; no job may fail. */
static int do_jobs(void) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[MOST_THREADS];
    int started = 0;
    next_job = failures = 0;
    while (started < MOST_THREADS - 1 && started < processors - 1 &&
           pthread_create(&threads[started], NULL, work, NULL) == 0)
        started++;
    work(NULL);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    assert_true(failures == 0);
    return started + 1;
}

/* Every so many kernels of all families. Gives the number of all. */
static size_t add_kernels(const mlxn_nvrtc_target *target, size_t step) {
    size_t seen = 0;
    for (size_t f = 0; f < mlxn_family_count; f++) {
        const mlxn_gpu_kernels *kernels = mlxn_families[f]->gpu;
        assert_true(kernels != NULL && kernels->count > 0);
        for (size_t k = 0; k < kernels->count; k++)
            if (seen++ % step == 0)
                add_job(&kernels->list[k], target);
    }
    return seen;
}

static void every_kernel_compiles(void **state) {
    (void)state;
    static mlxn_nvrtc_target made[TARGETS];
    size_t all = 0;
    job_count = 0;
    for (size_t t = 0; t < TARGETS; t++) {
        OK(mlxn_nvrtc_target_for(13000, targets[t].capability, &made[t]));
        if (!made[t].cubin) {
            print_message("skipped: %s does not compile for %d\n", made[t].compiler, targets[t].capability);
            continue;
        }
        assert_string_equal(made[t].architecture, targets[t].option);
        all = add_kernels(&made[t], targets[t].step);
    }
    const int threads = do_jobs();
    print_message("%s: %zu kernels, compiled %zu times by %d threads\n", made[0].compiler, all, job_count, threads);
}

/* What kernels that may start early are compiled for, as text. */
static bool target_for_text(mlxn_nvrtc_target *target) {
    OK(mlxn_nvrtc_target_for(13000, 90, target));
    if (!target->cubin)
        print_message("skipped: %s does not compile for 90\n", target->compiler);
    snprintf(target->architecture, sizeof target->architecture, "--gpu-architecture=compute_90a");
    const bool known = target->cubin;
    target->cubin = false;
    return known;
}

static void every_kernel_awaits(void **state) {
    (void)state;
    static mlxn_nvrtc_target target;
    if (!target_for_text(&target))
        return;
    job_count = 0;
    add_kernels(&target, 1);
    do_jobs();
}

/* Kernels that do not, in one way each. */
static void what_comes_early_is_seen(void **state) {
    (void)state;
    static const struct {
        const char *body, *complaint;
    } kernels[] = {
        {"if (c == 0) { x[0] = c; }", "bra"},
        {"const u32 i = c;", "ret"},
        {"const u32 was = x[0]; AWAIT(); x[1] = was + c;", "ld.global"},
        {"x[0] = c; AWAIT(); x[1] = c;", "st.global"},
        {"prefetch_bytes(x); AWAIT(); x[0] = c;", "prefetch"},
        {"x[1] = read_word(c > 1, true, x); AWAIT(); x[2] = c;", "ld.global"},
        {"if (THREAD == c) { AWAIT(); } x[0] = c;", "bra"},
        {"if (THREAD == c) { return; } AWAIT(); x[0] = c;", "bra"},
    };
    complaint about;
    mlxn_nvrtc_target target;
    if (!target_for_text(&target))
        return;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const char *const text[] = {"KERNEL(hasty, 32, 1)(BUFFER(u32, x), CONSTANTS(u32, c)) { OPEN(u32, x); ",
                                    kernels[i].body, " }\n", NULL};
        const mlxn_gpu_kernel kernel = {.name = "hasty", .text = text};
        if (compile(&(struct job){&kernel, &target}, &about) || strstr(about.text, kernels[i].complaint) == NULL)
            fail_msg("%s: \"%s\", which should be \"%s\"", kernels[i].body, about.text, kernels[i].complaint);
    }
    const char *const text[] = {"KERNEL(patient, 32, 1)(BUFFER(u32, x), CONSTANTS(u32, c)) { OPEN(u32, x); "
                                "LOCAL_ARRAY(u32, own, 32); own[THREAD] = c; AWAIT(); x[0] = own[c] + x[THREAD]; }\n",
                                NULL};
    const mlxn_gpu_kernel kernel = {.name = "patient", .text = text};
    assert_true(compile(&(struct job){&kernel, &target}, &about));
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
        cmocka_unit_test(what_comes_early_is_seen),
        cmocka_unit_test(every_kernel_awaits),
        cmocka_unit_test(every_kernel_compiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
