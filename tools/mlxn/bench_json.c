/* The results as JSON. */
#include <jansson.h>

#include "bench.h"
#include "report_file.h"

static json_t *extents_json(const mlxn_op_info *op, const tool_extents *extents) {
    return op->elementwise ? json_pack("[I]", (json_int_t)extents->batch[0])
                           : json_pack("[I, I]", (json_int_t)extents->n, (json_int_t)extents->m);
}

static json_t *result_json(const bench_result *result) {
    json_t *row = json_pack("{s:s, s:s, s:o, s:f, s:f, s:f}", "op", result->op->name, "dtype",
                            mlxn_dtype_name(result->dtype), "shape", extents_json(result->op, &result->extents),
                            "bytes", result->bytes, "seconds", result->seconds, "gb_per_s", bench_speed(result));
    if (result->offset > 0) {
        json_object_set_new(row, "offset", json_integer((json_int_t)result->offset));
    }
    if (result->has_limit) {
        json_object_set_new(row, "limit", json_string(bench_limit_names[result->limit]));
        json_object_set_new(row, "limit_gb_per_s", json_real(bench_limit_speed(result)));
        json_object_set_new(row, "ratio", json_real(result->limit_seconds / result->seconds));
    }
    return row;
}

static json_t *passes_json(const bench_passes *passes) {
    return json_pack("{s:s, s:s, s:o, s:f, s:f, s:f}", "op", passes->op->name, "dtype", mlxn_dtype_name(passes->dtype),
                     "shape", extents_json(passes->op, &passes->extents), "seconds", passes->seconds,
                     "separate_seconds", passes->separate_seconds, "speedup",
                     passes->separate_seconds / passes->seconds);
}

static json_t *overhead_json(const bench_overhead *overhead) {
    return json_pack("{s:s, s:s, s:f, s:f, s:f}", "op", overhead->op->name, "dtype", mlxn_dtype_name(overhead->dtype),
                     "encode_commit_wait_seconds", overhead->single_seconds, "encoded_dispatch_seconds",
                     overhead->encoded_seconds, "replayed_dispatch_seconds", overhead->replayed_seconds);
}

static json_t *report_json(const bench_report *report) {
    const mlxn_device_info *info = &report->device;
    json_t *results = json_array(), *passes = json_array(), *overheads = json_array();
    for (size_t i = 0; i < report->result_count; i++) {
        json_array_append_new(results, result_json(&report->results[i]));
    }
    for (size_t i = 0; i < report->pass_count; i++) {
        json_array_append_new(passes, passes_json(&report->passes[i]));
    }
    for (size_t i = 0; i < report->overhead_count; i++) {
        json_array_append_new(overheads, overhead_json(&report->overheads[i]));
    }
    return json_pack("{s:s, s:{s:s, s:s, s:s, s:I, s:I}, s:I, s:o, s:o, s:o}", "mlxn", mlxn_version(), "device", "name",
                     info->name, "description", info->description, "detail", info->detail, "threads",
                     (json_int_t)info->threads, "cache_bytes", (json_int_t)info->cache_bytes, "reps",
                     (json_int_t)report->reps, "results", results, "passes", passes, "overheads", overheads);
}

bool bench_write_json(const bench_report *report, const char *path) {
    json_t *root = report_json(report);
    const bool good = tool_write_json(root, path);
    json_decref(root);
    return good;
}
