/* Checks the files that examples/demo.sh had mlxn write, in float64, without any of mlxn's code.
 *
 *     cc demo_verify.c -lm -o demo_verify && ./demo_verify DATA_FOLDER OUTPUT_FOLDER
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { YEARS = 61, MONTHS = 12, ALL = YEARS * MONTHS };

static int failures;

/* Reads a version 1 .npy file of little-endian float32. */
static void load(const char *folder, const char *name, float *values, size_t count) {
    char path[4096], header[65536];
    unsigned char start[10];
    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY\x01\x00", 8) != 0) {
        fprintf(stderr, "demo_verify: %s: cannot be read as version 1 .npy\n", path);
        exit(1);
    }
    const size_t header_size = start[8] | (size_t)start[9] << 8;
    if (fread(header, 1, header_size, file) != header_size || fread(values, sizeof *values, count, file) != count ||
        fgetc(file) != EOF) {
        fprintf(stderr, "demo_verify: %s: not %zu float32 values\n", path, count);
        exit(1);
    }
    fclose(file);
}

static void verdict(const char *what, double figure, const char *unit, int ok) {
    printf("  %-44s %-10.3g %-22s %s\n", what, figure, unit, ok ? "ok" : "WRONG");
    failures += !ok;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Every value of `got` must have the bits of `expected`. */
static void verify_bits(const char *what, const float *got, const float *expected) {
    int different = 0;
    for (int i = 0; i < ALL; i++)
        different += bits_of(got[i]) != bits_of(expected[i]);
    verdict(what, different, "of 732 values off", different == 0);
}

/* A sum of `count` products in float32 must be within its rounding bound of the same sum in float64. */
static void verify_sums(const char *what, const float *got, int sums, int count, const float *matrix, int row_step,
                        int column_step, const float *vector) {
    double worst = 0;
    for (int i = 0; i < sums; i++) {
        double sum = 0, magnitude = 0;
        for (int j = 0; j < count; j++) {
            const double term = (double)matrix[i * row_step + j * column_step] * vector[j];
            sum += term;
            magnitude += fabs(term);
        }
        worst = fmax(worst, fabs(got[i] - sum) / (magnitude * FLT_EPSILON));
    }
    verdict(what, worst, "of eps * sum |terms|", worst <= 2);
}

int main(int argc, char **argv) {
    static float x[ALL], y[ALL], dy[ALL], dx[ALL], model[ALL], temperature[ALL], expected[ALL];
    float level[YEARS], season[MONTHS], dlevel[YEARS], dseason[MONTHS];
    if (argc != 3) {
        fprintf(stderr, "usage: demo_verify DATA_FOLDER OUTPUT_FOLDER\n");
        return 2;
    }
    const char *data_folder = argv[1], *output_folder = argv[2];
    load(data_folder, "vapour_exponent", x, ALL);
    load(data_folder, "misfit", dy, ALL);
    load(data_folder, "temperature", temperature, ALL);
    load(data_folder, "level", level, YEARS);
    load(data_folder, "season", season, MONTHS);
    load(output_folder, "vapour", y, ALL);
    load(output_folder, "dexponent", dx, ALL);
    load(output_folder, "model", model, ALL);
    load(output_folder, "dlevel", dlevel, YEARS);
    load(output_folder, "dseason", dseason, MONTHS);

    printf("  January 1950: the sea has %.2f degrees, e^x = %.5f, vapour pressure 6.112 hPa * e^x = %.2f hPa\n",
           (double)temperature[0], (double)y[0], 6.112 * (double)y[0]);
    for (int i = 0; i < ALL; i++)
        expected[i] = (float)exp((double)x[i]);
    verify_bits("exp: correctly rounded", y, expected);
    for (int i = 0; i < ALL; i++)
        expected[i] = dy[i] * expected[i];
    verify_bits("exp_backward: dy * y", dx, expected);
    for (int i = 0; i < ALL; i++)
        expected[i] = level[i / MONTHS] * season[i % MONTHS];
    verify_bits("outer_product: level * season", model, expected);
    double worst = 0;
    for (int i = 0; i < ALL; i++)
        worst = fmax(worst, fabs((double)model[i] - temperature[i] - dy[i]));
    verdict("  and model - temperature is the misfit to", worst, "degrees", worst < 1e-5);
    verify_sums("outer_product_backward: dlevel", dlevel, YEARS, MONTHS, dy, MONTHS, 1, season);
    verify_sums("outer_product_backward: dseason", dseason, MONTHS, YEARS, dy, 1, MONTHS, level);
    return failures != 0;
}
