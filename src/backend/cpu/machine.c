#include "backend/cpu/machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const isa_names[MLXN_ISA_COUNT] = {
    [MLXN_ISA_BASELINE] = "baseline",
    [MLXN_ISA_AVX2] = "avx2",
    [MLXN_ISA_AVX512] = "avx512",
    [MLXN_ISA_NEON] = "neon",
};

const char *mlxn_cpu_isa_name(mlxn_isa isa) {
    return isa_names[isa];
}

#if defined(__x86_64__)

#include <cpuid.h>

static bool machine_has(mlxn_isa isa) {
    unsigned a, b, c = 0, d;
    switch (isa) {
    case MLXN_ISA_BASELINE:
        return true;
    case MLXN_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
               (c & bit_F16C) != 0;
    case MLXN_ISA_AVX512:
        return machine_has(MLXN_ISA_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    default:
        return false;
    }
}

void mlxn_cpu_name(char *text, size_t size) {
    unsigned brand[12] = {0};
    for (unsigned i = 0; i < 3; i++) {
        __get_cpuid(0x80000002u + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2], &brand[4 * i + 3]);
    }
    snprintf(text, size, "%.48s", brand[0] != 0 ? (const char *)brand : "x86-64 processor");
}

#elif defined(__aarch64__)

static bool machine_has(mlxn_isa isa) {
    return isa == MLXN_ISA_NEON;
}

void mlxn_cpu_name(char *text, size_t size) {
    snprintf(text, size, "AArch64 processor");
}

#else
#error "mlxn has CPU kernels for x86-64 and AArch64"
#endif

bool mlxn_cpu_isa(mlxn_isa *isa, const char **names) {
    mlxn_isa best = MLXN_ISA_COUNT - 1;
    *names = machine_has(MLXN_ISA_NEON) ? "neon" : "baseline, avx2 or avx512";
    const char *cap = getenv("MLXN_MAX_ISA");
    if (cap != NULL && cap[0] != '\0') {
        while (best > 0 && strcmp(isa_names[best], cap) != 0) {
            best--;
        }
        const bool foreign = (best == MLXN_ISA_NEON) != machine_has(MLXN_ISA_NEON);
        if (strcmp(isa_names[best], cap) != 0 || foreign) {
            return false;
        }
    }
    while (!machine_has(best)) {
        best--;
    }
    *isa = best;
    return true;
}

size_t mlxn_cpu_processors(void) {
    cpu_set_t small;
    if (sched_getaffinity(0, sizeof small, &small) == 0) {
        return (size_t)CPU_COUNT(&small);
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than cpu_set_t holds */
    return online > 0 ? (size_t)online : 1;
}

/* Reads the first line of a file; false if there is none. */
static bool read_line(const char *path, char *line, int size) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    const bool read = fgets(line, size, file) != NULL;
    fclose(file);
    return read;
}

static void lower(size_t *limit, long long quota, long long period) {
    if (quota > 0 && period > 0) {
        const size_t processors = (size_t)((quota + period - 1) / period);
        *limit = processors < *limit ? processors : *limit;
    }
}

/* The quota of one control group, of either version. */
static void apply_quota(const char *folder, size_t *limit) {
    char path[4200], line[64];
    long long quota = 0, period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_line(path, line, sizeof line) && sscanf(line, "%lld %lld", &quota, &period) == 2) {
        lower(limit, quota, period);
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (read_line(path, line, sizeof line) && sscanf(line, "%lld", &quota) == 1) {
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (read_line(path, line, sizeof line) && sscanf(line, "%lld", &period) == 1) {
            lower(limit, quota, period);
        }
    }
}

/* Applies the quotas of a group and of all that it lies in. */
static void apply_quotas(const char *root, const char *group, size_t *limit) {
    char folder[4096];
    const size_t root_length = strlen(root);
    snprintf(folder, sizeof folder, "%s%s", root, group);
    apply_quota(root, limit);
    while (strlen(folder) > root_length) {
        apply_quota(folder, limit);
        char *slash = strrchr(folder, '/');
        *slash = '\0';
    }
}

size_t mlxn_cpu_default_threads(void) {
    size_t limit = mlxn_cpu_processors();
    FILE *groups = fopen("/proc/self/cgroup", "re");
    char line[4096];
    while (groups != NULL && fgets(line, sizeof line, groups) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *controllers = strchr(line, ':');
        const char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) {
            continue;
        }
        if (strncmp(controllers, "::", 2) == 0) {
            apply_quotas("/sys/fs/cgroup", group + 1, &limit);
        } else if (strncmp(controllers, ":cpu,", 5) == 0 || strncmp(controllers, ":cpu:", 5) == 0 ||
                   strstr(controllers, ",cpu:") != NULL) {
            apply_quotas("/sys/fs/cgroup/cpu", group + 1, &limit);
        }
    }
    if (groups != NULL) {
        fclose(groups);
    }
    return limit > 0 ? limit : 1;
}

uint64_t mlxn_cpu_cache_bytes(void) {
    for (int index = 4; index >= 0; index--) {
        char path[80], line[64];
        unsigned long long size = 0;
        char unit = 'B';
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        if (read_line(path, line, sizeof line) && sscanf(line, "%llu%c", &size, &unit) >= 1 && size > 0) {
            return size << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
        }
    }
    const long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return size > 0 ? (uint64_t)size : UINT64_C(8) << 20;
}
