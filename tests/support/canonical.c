#include "canonical.h"

#include <math.h>

#include "test.h"

enum { SEGMENT = 1024, LANES = 32, LEAF = 32 };

/* Neighbours are added, level by level; an odd last one is carried up unchanged. */
static float pairwise(float *sums, int64_t count) {
    while (count > 1) {
        int64_t made = 0;
        for (int64_t i = 0; i + 1 < count; i += 2)
            sums[made++] = sums[i] + sums[i + 1];
        if (count % 2 != 0)
            sums[made++] = sums[count - 1];
        count = made;
    }
    return sums[0];
}

static float segment(const float *a, const float *b, int64_t count) {
    float lanes[LANES] = {0};
    for (int64_t j = 0; j < count; j++)
        lanes[j % LANES] = fmaf(a[j], b[j], lanes[j % LANES]);
    for (int width = LANES / 2; width >= 1; width /= 2)
        for (int lane = 0; lane < width; lane++)
            lanes[lane] = lanes[lane] + lanes[lane + width];
    return lanes[0];
}

float canonical_row(const float *a, const float *b, int64_t count) {
    const int64_t segments = (count + SEGMENT - 1) / SEGMENT;
    float *sums = malloc((size_t)segments * sizeof *sums);
    assert_non_null(sums);
    for (int64_t s = 0; s < segments; s++) {
        const int64_t begin = s * SEGMENT, left = count - begin;
        sums[s] = segment(a + begin, b + begin, left < SEGMENT ? left : SEGMENT);
    }
    const float sum = pairwise(sums, segments) + 0.0f;
    free(sums);
    return sum;
}

float canonical_column(const float *a, int64_t step, const float *b, int64_t count) {
    const int64_t leaves = (count + LEAF - 1) / LEAF;
    float *sums = malloc((size_t)leaves * sizeof *sums);
    assert_non_null(sums);
    for (int64_t s = 0; s < leaves; s++) {
        float sum = 0.0f;
        for (int64_t i = s * LEAF; i < count && i < (s + 1) * LEAF; i++)
            sum = fmaf(a[i * step], b[i], sum);
        sums[s] = sum;
    }
    const float sum = pairwise(sums, leaves) + 0.0f;
    free(sums);
    return sum;
}
