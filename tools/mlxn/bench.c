/* mlxn bench: which ops, dtypes and shapes, and the report. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "memory.h"
#include "report_file.h"
#include "text.h"
#include "verbs.h"

#define DEFAULT_REPS 9

/* From the innermost cache to well beyond the last. */
static const size_t default_sizes[] = {(size_t)16 << 10, (size_t)256 << 10, (size_t)4 << 20, (size_t)256 << 20};

/* Shapes of an op with N and M, measured at the largest size besides the square one; 0 is what the size gives. */
static const int64_t narrow_shapes[][2] = {{0, 256}, {256, 0}, {0, 4}, {4, 0}};

/* What a graphics processor is measured at: far beyond its caches, then at places and row lengths that vectors do not
 * suit. `offset` elements precede every argument in its memory. */
static const struct {
    int64_t n, m;
    size_t offset;
} gpu_shapes[] = {{1 << 14, 1 << 14, 0}, {1 << 20, 1 << 8, 0},        {1 << 8, 1 << 20, 0}, {1 << 26, 4, 0},
                  {4, 1 << 26, 0},       {1 << 14, (1 << 14) - 1, 0}, {1 << 14, 1 << 14, 1}};

static const mlxn_dtype dtypes[] = {MLXN_F32, MLXN_F16, MLXN_BF16};

#define COUNT(array) (sizeof(array) / sizeof *(array))

char *bench_extents_text(const mlxn_op_info *op, const tool_extents *extents, size_t offset, char text[48]) {
    char rest[24] = "";
    if (offset > 0) {
        snprintf(rest, sizeof rest, "+%zu", offset);
    }
    if (op->elementwise) {
        snprintf(text, 48, "%lld%s", (long long)extents->batch[0], rest);
    } else {
        snprintf(text, 48, "%lldx%lld%s", (long long)extents->n, (long long)extents->m, rest);
    }
    return text;
}

/* ---- what to measure ---- */

typedef struct bench_plan {
    const tool_arguments *arguments;
    const mlxn_op_info **ops;
    size_t op_count;
    size_t sizes[TOOL_MAX_SIZES];
    size_t size_count; /* 0: the shapes of a graphics processor, or the one asked for */
    bench_report report;
} bench_plan;

static int64_t at_least_one(double value) {
    return value < 1 ? 1 : (int64_t)value;
}

static tool_extents elementwise_extents(double count) {
    return (tool_extents){1, {at_least_one(count), 1}, 1, 1};
}

/* The extents with which an op moves about `bytes` bytes; n and m as given where they are not 0. */
static tool_extents extents_for(const mlxn_op_info *op, mlxn_dtype dtype, double bytes, int64_t n, int64_t m) {
    const double elements = bytes / (double)mlxn_dtype_size(dtype);
    if (op->elementwise) {
        return elementwise_extents(elements / (double)(op->input_count + op->output_count));
    }
    tool_extents extents = {0, {1, 1}, n, m};
    if (n == 0 && m == 0) {
        extents.n = extents.m = at_least_one(floor(sqrt(elements)));
    } else if (n == 0) {
        extents.n = at_least_one(elements / (double)m);
    } else if (m == 0) {
        extents.m = at_least_one(elements / (double)n);
    }
    return extents;
}

static void add(bench_plan *plan, const mlxn_op_info *op, mlxn_dtype dtype, tool_extents extents, size_t offset,
                bool in_plot) {
    plan->report.results[plan->report.result_count++] =
        (bench_result){.op = op, .dtype = dtype, .extents = extents, .offset = offset, .in_plot = in_plot};
}

static tool_extents extents_of_shape(const mlxn_op_info *op, int64_t n, int64_t m) {
    return op->elementwise ? elementwise_extents((double)n * (double)m) : (tool_extents){0, {1, 1}, n, m};
}

/* An elementwise op sees the first and the last of the shapes alone: the others have its element count too, or nearly. */
static void add_gpu_shapes(bench_plan *plan, const mlxn_op_info *op, mlxn_dtype dtype) {
    const size_t step = op->elementwise ? COUNT(gpu_shapes) - 1 : 1;
    for (size_t i = 0; i < COUNT(gpu_shapes); i += step) {
        add(plan, op, dtype, extents_of_shape(op, gpu_shapes[i].n, gpu_shapes[i].m), gpu_shapes[i].offset, i == 0);
    }
}

static void add_sizes(bench_plan *plan, const mlxn_op_info *op, mlxn_dtype dtype) {
    const tool_arguments *arguments = plan->arguments;
    if (tool_given(arguments, TOOL_OPTION_SHAPE)) {
        add(plan, op, dtype, extents_of_shape(op, arguments->n, arguments->m), 0, true);
        return;
    }
    if (plan->size_count == 0) {
        add_gpu_shapes(plan, op, dtype);
        return;
    }
    for (size_t i = 0; i < plan->size_count; i++) {
        add(plan, op, dtype, extents_for(op, dtype, (double)plan->sizes[i], 0, 0), 0, true);
    }
    for (size_t i = 0; i < COUNT(narrow_shapes) && !op->elementwise; i++) {
        double largest = (double)plan->sizes[plan->size_count - 1];
        add(plan, op, dtype, extents_for(op, dtype, largest, narrow_shapes[i][0], narrow_shapes[i][1]), 0, false);
    }
}

static void plan_passes(bench_plan *plan, const bench_result *largest) {
    if (bench_has_separate(largest->op)) {
        plan->report.passes[plan->report.pass_count++] =
            (bench_passes){.op = largest->op, .dtype = largest->dtype, .extents = largest->extents};
    }
}

/* The first elementwise forward is small work enough, if none was asked for. */
static bool is_small_work(const bench_plan *plan, const mlxn_op_info *op) {
    return op->elementwise &&
           (plan->arguments->operand_count > 0 || (!op->forward && plan->report.overhead_count == 0));
}

static void make_plan(bench_plan *plan) {
    const size_t combinations = plan->op_count * COUNT(dtypes);
    const size_t per_combination = TOOL_MAX_SIZES + COUNT(narrow_shapes);
    plan->report.results = tool_allocate(combinations * per_combination, sizeof *plan->report.results);
    plan->report.passes = tool_allocate(combinations, sizeof *plan->report.passes);
    plan->report.overheads = tool_allocate(combinations, sizeof *plan->report.overheads);
    for (size_t i = 0; i < plan->op_count; i++) {
        for (size_t d = 0; d < COUNT(dtypes); d++) {
            const mlxn_op_info *op = plan->ops[i];
            if (tool_given(plan->arguments, TOOL_OPTION_DTYPE) && plan->arguments->dtype != dtypes[d]) {
                continue;
            }
            if (!tool_given(plan->arguments, TOOL_OPTION_OVERHEAD)) {
                size_t first = plan->report.result_count;
                add_sizes(plan, op, dtypes[d]);
                const bool by_shape = tool_given(plan->arguments, TOOL_OPTION_SHAPE) || plan->size_count == 0;
                plan_passes(plan, &plan->report.results[first + (by_shape ? 0 : plan->size_count - 1)]);
            } else if (is_small_work(plan, op)) {
                plan->report.overheads[plan->report.overhead_count++] = (bench_overhead){.op = op, .dtype = dtypes[d]};
            }
        }
    }
}

static int by_size(const void *left, const void *right) {
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return (a > b) - (a < b);
}

/* The sizes asked for, in order; those that the machine's memory cannot hold twice are left out, with a word. A graphics
 * processor has memory of its own, of which only it can tell. */
static bool choose_sizes(bench_plan *plan) {
    const tool_arguments *arguments = plan->arguments;
    const bool chosen = arguments->size_count > 0, gpu = plan->report.device.gpu;
    if (gpu && !chosen) {
        return true;
    }
    const size_t *sizes = chosen ? arguments->sizes : default_sizes;
    const size_t count = chosen ? arguments->size_count : COUNT(default_sizes);
    const double available = tool_available_memory();
    for (size_t i = 0; i < count; i++) {
        char text[16];
        if (gpu || 2.5 * (double)sizes[i] <= available) {
            plan->sizes[plan->size_count++] = sizes[i];
        } else if (chosen) {
            tool_error("%s is more than the memory at hand allows", tool_bytes(text, (double)sizes[i]));
            return false;
        }
    }
    qsort(plan->sizes, plan->size_count, sizeof *plan->sizes, by_size);
    if (plan->size_count == 0) {
        tool_error("too little memory");
    }
    return plan->size_count > 0;
}

/* ---- the report ---- */

static void print_title(const bench_plan *plan) {
    const mlxn_device_info *info = &plan->report.device;
    printf("mlxn %s on %s: %s (%s), medians of %zu\n", mlxn_version(), info->name, info->description, info->detail,
           plan->report.reps);
    fflush(stdout);
}

static void print_header(const bench_plan *plan) {
    if (plan->report.result_count) {
        printf("%-27s %-5s %-17s %9s %12s %8s  %-5s %8s %6s\n", "op", "dtype", "shape", "bytes", "median", "GB/s",
               "limit", "GB/s", "ratio");
    }
}

static void print_result(const bench_result *result) {
    char shape[48], bytes[16];
    printf("%-27s %-5s %-17s %9s %9.2f us %8.2f", result->op->name, mlxn_dtype_name(result->dtype),
           bench_extents_text(result->op, &result->extents, result->offset, shape), tool_bytes(bytes, result->bytes),
           result->seconds * 1e6, bench_speed(result));
    if (result->has_limit) {
        printf("  %-5s %8.2f %6.2f", bench_limit_names[result->limit], bench_limit_speed(result),
               result->limit_seconds / result->seconds);
    }
    putchar('\n');
    fflush(stdout);
}

static void print_passes(const bench_passes *passes) {
    char shape[48];
    printf("%-27s %-5s %-17s one pass %.0f us, the separate gradients %.0f us: %.2f times as fast\n", passes->op->name,
           mlxn_dtype_name(passes->dtype), bench_extents_text(passes->op, &passes->extents, 0, shape),
           passes->seconds * 1e6, passes->separate_seconds * 1e6, passes->separate_seconds / passes->seconds);
    fflush(stdout);
}

static void print_overhead(const bench_overhead *overhead) {
    printf(
        "%-27s %-5s 64 elements: encode, commit and wait %.3f us; encode and commit of 1000 dispatches %.3f us each; "
        "replay %.3f us each\n",
        overhead->op->name, mlxn_dtype_name(overhead->dtype), overhead->single_seconds * 1e6,
        overhead->encoded_seconds * 1e6, overhead->replayed_seconds * 1e6);
    fflush(stdout);
}

/* ---- measuring it all ---- */

/* The most bytes that a job moves. */
static double most_bytes(const bench_report *report) {
    double most = 0;
    for (size_t i = 0; i < report->result_count; i++) {
        const bench_result *result = &report->results[i];
        double bytes = 0;
        for (size_t k = 0; k < result->op->input_count + result->op->output_count; k++) {
            bytes += (double)tool_argument_count(&result->op->arguments[k], &result->extents) *
                     (double)mlxn_dtype_size(result->dtype);
        }
        most = fmax(most, bytes);
    }
    return most;
}

/* Untouched pages may all be one page of zeros, and some processors do not write zeros out to memory: what is read,
 * copied and written on a CPU is ones. */
static mlxn_status fill_with_ones(mlxn_buffer *pool) {
    const size_t bytes = mlxn_buffer_bytes(pool), piece = (size_t)1 << 20;
    char *ones = tool_allocate(piece, 1);
    memset(ones, 0xff, piece);
    mlxn_status status = MLXN_OK;
    for (size_t at = 0; at < bytes && status == MLXN_OK; at += piece) {
        status = mlxn_buffer_write(pool, at, bytes - at < piece ? bytes - at : piece, ones);
    }
    free(ones);
    return status;
}

static bool create_pool(const bench_plan *plan, bench_setting *setting) {
    const double most = most_bytes(&plan->report);
    if (!plan->report.device.gpu && 2.2 * most > tool_available_memory()) {
        char text[16];
        tool_error("%s are more than the memory at hand allows", tool_bytes(text, most));
        return false;
    }
    if (setting->kind == BENCH_NO_LIMITS || plan->report.result_count == 0) {
        return true;
    }
    setting->pool_bytes = (size_t)most;
    const int64_t bytes = (int64_t)bench_pool_bytes(setting->pool_bytes);
    mlxn_status status = mlxn_buffer_create(setting->session->device, MLXN_U8, 1, &bytes, &setting->pool);
    if (status == MLXN_OK) {
        status = setting->kind == BENCH_FUNCTIONS ? fill_with_ones(setting->pool)
                                                  : bench_fill(setting, MLXN_F32, TOOL_SEED(0), setting->pool);
    }
    if (status != MLXN_OK) {
        tool_error("%s", mlxn_last_error());
    }
    return status == MLXN_OK;
}

/* Only the device can tell whether a job fits a graphics processor's memory: what does not is left out, with a word. */
static bool leave_out(const bench_plan *plan, const bench_result *result, mlxn_status status) {
    char shape[48];
    if (status != MLXN_OUT_OF_MEMORY || !plan->report.device.gpu) {
        return false;
    }
    printf("%-27s %-5s %-17s left out: %s\n", result->op->name, mlxn_dtype_name(result->dtype),
           bench_extents_text(result->op, &result->extents, result->offset, shape), mlxn_last_error());
    return true;
}

static mlxn_status measure_all(bench_plan *plan, const bench_setting *setting) {
    print_header(plan);
    bench_report *report = &plan->report;
    const size_t planned = report->result_count;
    mlxn_status status = MLXN_OK;
    report->result_count = 0;
    for (size_t i = 0; i < planned && status == MLXN_OK; i++) {
        bench_result result = report->results[i];
        tool_progress("%zu of %zu: %s %s", i + 1, planned, result.op->name, mlxn_dtype_name(result.dtype));
        status = bench_measure(setting, &result);
        tool_progress_end();
        if (status == MLXN_OK) {
            print_result(&result);
            report->results[report->result_count++] = result;
        } else if (leave_out(plan, &result, status)) {
            status = MLXN_OK;
        }
    }
    for (size_t i = 0; i < report->pass_count && status == MLXN_OK; i++) {
        tool_progress("%s: one pass or two", report->passes[i].op->name);
        status = bench_measure_passes(setting, &report->passes[i]);
        tool_progress_end();
        if (status == MLXN_OK) {
            print_passes(&report->passes[i]);
        }
    }
    for (size_t i = 0; i < report->overhead_count && status == MLXN_OK; i++) {
        status = bench_measure_overhead(setting, &report->overheads[i]);
        if (status == MLXN_OK) {
            print_overhead(&report->overheads[i]);
        }
    }
    return status;
}

static bool run_plan(bench_plan *plan, tool_session *session) {
    const tool_arguments *arguments = plan->arguments;
    bench_setting setting = {.arguments = arguments, .session = session, .reps = plan->report.reps};
    setting.kind = bench_add_limits(session->device, &session->info);
    make_plan(plan);
    bool good = create_pool(plan, &setting);
    if (good) {
        print_title(plan);
        good = (!setting.pool || bench_calibrate(&setting) == MLXN_OK) && measure_all(plan, &setting) == MLXN_OK;
        if (!good) {
            tool_error("%s", mlxn_last_error());
        }
    }
    good = good && (!arguments->json || bench_write_json(&plan->report, arguments->json));
    good = good && (!arguments->plot || bench_plot(&plan->report, arguments->plot));
    mlxn_buffer_destroy(setting.pool);
    free(plan->report.results);
    free(plan->report.passes);
    free(plan->report.overheads);
    return good;
}

static tool_exit bench_ops(bench_plan *plan) {
    /* Nobody wants to learn of these after minutes of measuring. */
    const tool_arguments *arguments = plan->arguments;
    if ((arguments->plot && !bench_can_plot()) || !tool_can_write(arguments->json) ||
        !tool_can_write(arguments->plot)) {
        return TOOL_FAILURE;
    }
    tool_session session;
    if (!tool_open(arguments, &session)) {
        return TOOL_FAILURE;
    }
    plan->report.device = session.info;
    plan->report.reps = arguments->reps ? arguments->reps : DEFAULT_REPS;
    bool good = choose_sizes(plan) && run_plan(plan, &session);
    tool_close(&session);
    return good ? TOOL_SUCCESS : TOOL_FAILURE;
}

tool_exit tool_bench(const tool_arguments *arguments) {
    if (tool_given(arguments, TOOL_OPTION_SHAPE) && tool_given(arguments, TOOL_OPTION_SIZE)) {
        tool_error("bench: --size and --shape exclude each other");
        return TOOL_USAGE;
    }
    if (tool_given(arguments, TOOL_OPTION_OVERHEAD) && arguments->plot) {
        tool_error("bench: --overhead gives nothing to plot");
        return TOOL_USAGE;
    }
    bench_plan plan = {.arguments = arguments, .ops = tool_allocate(mlxn_op_count(), sizeof(mlxn_op_info *))};
    tool_exit code = tool_select_ops(arguments, plan.ops, &plan.op_count) ? bench_ops(&plan) : TOOL_USAGE;
    free(plan.ops);
    return code;
}
