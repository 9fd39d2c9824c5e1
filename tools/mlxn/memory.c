#include "memory.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number after `key` in a file such as /proc/meminfo; without a key, the file's first. */
static bool read_number(const char *path, const char *key, double *number) {
    FILE *file = fopen(path, "r");
    char line[256];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        found = strncmp(line, key, length) == 0 && sscanf(line + length, "%lf", number) == 1;
    }
    if (file) {
        fclose(file);
    }
    return found;
}

double tool_available_memory(void) {
    double available, limit, used;
    if (read_number("/proc/meminfo", "MemAvailable:", &available)) {
        available *= 1024;
    } else {
        available = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 2;
    }
    if (read_number("/sys/fs/cgroup/memory.max", "", &limit) &&
        read_number("/sys/fs/cgroup/memory.current", "", &used)) {
        /* Cached files count as used, but make room. */
        double cached = 0;
        read_number("/sys/fs/cgroup/memory.stat", "inactive_file", &cached);
        available = fmin(available, fmax(limit - used + cached, 0));
    }
    return available;
}
