/* Runs a fuzz target on every file of the folders and files named, without a fuzzer:
 *     replay_npy fuzz/corpus/npy
 * Fails if there is none, or if one cannot be read. A finding aborts in the target, below the file's name. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* Runs one file, from memory of exactly its size, so that a sanitizer sees a read past it. */
static int replay_file(const char *path) {
    printf("%s\n", path);
    fflush(stdout);
    FILE *file = fopen(path, "rb");
    struct stat facts;
    if (file == NULL || fstat(fileno(file), &facts) != 0) {
        perror(path);
        return -1;
    }
    const size_t size = (size_t)facts.st_size;
    unsigned char *data = malloc(size > 0 ? size : 1);
    if (data == NULL || fread(data, 1, size, file) != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(data);
        fclose(file);
        return -1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* The number of files run in a folder, -1 on failure. */
static int replay_folder(const char *path) {
    struct dirent **entries;
    const int count = scandir(path, &entries, is_visible, alphasort);
    if (count < 0) {
        perror(path);
        return -1;
    }
    int done = 0;
    for (int i = 0; i < count; i++) {
        char *name = malloc(strlen(path) + strlen(entries[i]->d_name) + 2);
        if (name == NULL || done < 0) {
            done = -1;
        } else {
            sprintf(name, "%s/%s", path, entries[i]->d_name);
            done = replay_file(name) < 0 ? -1 : done + 1;
        }
        free(name);
        free(entries[i]);
    }
    free(entries);
    return done;
}

int main(int count, char **arguments) {
    int total = 0;
    for (int i = 1; i < count; i++) {
        struct stat facts;
        const int is_folder = stat(arguments[i], &facts) == 0 && S_ISDIR(facts.st_mode);
        const int done = is_folder ? replay_folder(arguments[i]) : replay_file(arguments[i]);
        if (done < 0) {
            return EXIT_FAILURE;
        }
        total += done;
    }
    printf("%d inputs\n", total);
    return total > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
