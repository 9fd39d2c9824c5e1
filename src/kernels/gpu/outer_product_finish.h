/* The pairwise sum of partial sums, [items, parts, length] of f32, for the rows' and the columns' at once: two jobs, of which
 * the first has the first groups. A thread adds `chunk` parts, a group PARTS chunks of 8 sums; where that is not all of
 * them, the results are partial sums again. */
#define THREADS 256
#define SUMS 8
#define PARTS 32
#define CHUNK_LEVELS 5

typedef struct job {
    i64 parts, length;
    i64 results; /* parts that are left; 1: the sums are whole, and of the kernel's dtype */
    i64 columns; /* groups side by side */
    i64 chunk;   /* a power of two up to 2^CHUNK_LEVELS */
} job;

typedef struct constants {
    job jobs[2];
    i64 first_groups;
    i64 accumulate;
} constants;

KERNEL(NAME, THREADS)
(BUFFER(const float, from0), BUFFER(element, to0), BUFFER(const float, from1), BUFFER(element, to1),
 CONSTANTS(constants, c)) {
    OPEN(const float, from0);
    OPEN(element, to0);
    OPEN(const float, from1);
    OPEN(element, to1);
    LOCAL_ARRAY(float, sums, THREADS);
    const bool second = (i64)GROUP >= c.first_groups;
    const job j = second ? c.jobs[1] : c.jobs[0];
    const GLOBAL float *from = second ? from1 : from0;
    GLOBAL element *to = second ? to1 : to0;
    const i64 group = (i64)GROUP - (second ? c.first_groups : 0), rest = group / j.columns;
    const i64 index = group % j.columns * SUMS + THREAD % SUMS, result = rest % j.results, item = rest / j.results;
    const u32 part = THREAD / SUMS;
    const i64 first = (result * PARTS + part) * j.chunk;
    float sum = 0.0f;
    if (index < j.length && first < j.parts) {
        float waiting[CHUNK_LEVELS];
        const GLOBAL float *own = from + (item * j.parts + first) * j.length + index;
        for (u32 k = 0; k < j.chunk; k++) {
            sum = first + k < j.parts ? own[k * j.length] : 0.0f;
            push_term(&sum, waiting, k, 1, CHUNK_LEVELS);
        }
    }
    sums[THREAD] = sum;
    for (u32 distance = 1; distance < PARTS; distance *= 2) {
        GROUP_BARRIER();
        if (part % (2 * distance) == 0) {
            sums[THREAD] = sums[THREAD] + sums[THREAD + distance * SUMS];
        }
    }
    if (part == 0 && index < j.length) {
        sum = sums[THREAD];
        if (j.results == 1) {
            write_sum(to + (item * j.length + index), sum, c.accumulate != 0);
        } else {
            ((GLOBAL float *)to)[(item * j.results + result) * j.length + index] = sum;
        }
    }
}
