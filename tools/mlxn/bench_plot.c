/* The results as a picture: for each limit its roof over the bytes moved, and the ops below it. Drawn by gnuplot. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "report_file.h"
#include "text.h"

#define MAX_SERIES 32

/* Runs gnuplot on a script, its picture going to `output`. Returns its exit status, or -1 with errno set. */
static int run_gnuplot(FILE *script, FILE *output) {
    posix_spawn_file_actions_t actions;
    pid_t process;
    int status;
    if (fflush(script) != 0 || fseek(script, 0, SEEK_SET) != 0 || posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(output), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    char *const words[] = {"gnuplot", "-", NULL};
    errno = posix_spawnp(&process, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (errno != 0 || waitpid(process, &status, 0) != process) {
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Runs gnuplot and says so if that fails. */
static bool draw(FILE *script, FILE *output) {
    int status = run_gnuplot(script, output);
    if (status == -1) {
        tool_error("--plot: cannot run gnuplot: %s", strerror(errno));
    } else if (status != 0) {
        tool_error("--plot: gnuplot failed with exit status %d", status);
    }
    return status == 0;
}

bool bench_can_plot(void) {
    FILE *script = tmpfile(), *output = fopen("/dev/null", "w");
    bool good = script && output;
    if (!good) {
        tool_error("--plot: %s", strerror(errno));
    } else {
        fputs("exit\n", script);
        good = draw(script, output);
    }
    if (script) {
        fclose(script);
    }
    if (output) {
        fclose(output);
    }
    return good;
}

static bool drawn(const bench_report *report, const bench_result *result, int limit) {
    return result->in_plot && result->dtype == report->results[0].dtype &&
           (limit == LIMIT_COUNT ? !result->has_limit : result->has_limit && (int)result->limit == limit);
}

/* The series of a panel: every op once, in order. */
static size_t find_series(const bench_report *report, int limit, const mlxn_op_info **ops) {
    size_t count = 0;
    for (size_t i = 0; i < report->result_count; i++) {
        const bench_result *result = &report->results[i];
        bool known = !drawn(report, result, limit);
        for (size_t k = 0; k < count; k++) {
            known = known || ops[k] == result->op;
        }
        if (!known && count < MAX_SERIES) {
            ops[count++] = result->op;
        }
    }
    return count;
}

/* Writes an op's points as inline data of gnuplot. */
static void write_points(FILE *script, const bench_report *report, int limit, const mlxn_op_info *op) {
    for (size_t i = 0; i < report->result_count; i++) {
        const bench_result *result = &report->results[i];
        if (drawn(report, result, limit) && result->op == op) {
            fprintf(script, "%.0f %.4f\n", result->bytes, bench_speed(result));
        }
    }
    fputs("e\n", script);
}

/* Writes the roof: at each size of `first`, the best that the loop reached beside any op. */
static void write_roof(FILE *script, const bench_report *report, int limit, const mlxn_op_info *first) {
    for (size_t i = 0; i < report->result_count; i++) {
        const bench_result *point = &report->results[i];
        if (!drawn(report, point, limit) || point->op != first) {
            continue;
        }
        double best = 0;
        for (size_t k = 0; k < report->result_count; k++) {
            const bench_result *other = &report->results[k];
            bool same_size = fabs(log2(other->bytes / point->bytes)) < 0.1;
            if (drawn(report, other, limit) && same_size) {
                best = fmax(best, bench_limit_speed(other));
            }
        }
        fprintf(script, "%.0f %.4f\n", point->bytes, best);
    }
    fputs("e\n", script);
}

static void write_panel(FILE *script, const bench_report *report, int limit, const mlxn_op_info *const *ops,
                        size_t count) {
    static const char *const titles[LIMIT_COUNT + 1] = {
        "mostly reads: the roof is a plain read", "two reads, one write: the roof is a plain loop of that kind",
        "one read, one write: the roof is a plain copy", "mostly writes: the roof is a plain fill", "no roof measured"};
    fprintf(script, "set title \"%s\"\nplot", titles[limit]);
    if (limit != LIMIT_COUNT) {
        fprintf(script, " '-' with lines lw 6 lc rgb '#c8c8c8' title '%s',", bench_limit_names[limit]);
    }
    for (size_t k = 0; k < count; k++) {
        fprintf(script, "%s '-' with linespoints lw 2 pt 7 ps 0.6 lc %zu title '%s'", k ? "," : "", k + 1,
                ops[k]->name);
    }
    fputc('\n', script);
    if (limit != LIMIT_COUNT) {
        write_roof(script, report, limit, ops[0]);
    }
    for (size_t k = 0; k < count; k++) {
        write_points(script, report, limit, ops[k]);
    }
}

static void write_script(FILE *script, const bench_report *report) {
    const mlxn_op_info *ops[MAX_SERIES];
    int panels = 0;
    for (int limit = 0; limit <= LIMIT_COUNT; limit++) {
        panels += find_series(report, limit, ops) ? 1 : 0;
    }
    const int columns = panels > 1 ? 2 : 1, rows = (panels + 1) / 2;
    const mlxn_device_info *info = &report->device;
    fprintf(script, "set terminal svg size %d,%d font 'sans-serif,13' background rgb 'white' enhanced\n", 600 * columns,
            60 + 440 * rows);
    fprintf(script, "set multiplot layout %d,%d title \"%s (%s), %s\" noenhanced\n", rows, columns, info->description,
            info->detail, mlxn_dtype_name(report->results[0].dtype));
    fputs("set logscale xy 2\nset xrange [*:*]\nset yrange [*:*]\n"
          "set format x '%.0b %BB'\nset xlabel 'bytes moved' offset 0,0.6\nset ylabel 'GB/s'\n"
          "set grid lc rgb '#e8e8e8' lt 1\nset border 3\nset xtics nomirror 4\nset ytics nomirror\n"
          "set key noenhanced outside bottom center horizontal Left reverse samplen 2\n",
          script);
    for (int limit = 0; limit <= LIMIT_COUNT; limit++) {
        size_t count = find_series(report, limit, ops);
        if (count) {
            write_panel(script, report, limit, ops, count);
        }
    }
    fputs("unset multiplot\n", script);
}

bool bench_plot(const bench_report *report, const char *path) {
    FILE *script = tmpfile();
    report_file file;
    if (!script) {
        tool_error("--plot: %s", strerror(errno));
        return false;
    }
    write_script(script, report);
    bool good = report_file_open(path, &file);
    if (good) {
        bool drawn_well = draw(script, file.stream);
        good = report_file_close(&file, drawn_well) && drawn_well;
    }
    fclose(script);
    return good;
}
