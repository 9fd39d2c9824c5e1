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

FN void finish(const job j, const GLOBAL float *from, GLOBAL element *to, i64 group, bool accumulate, LOCAL float *sums,
               u32 thread) {
    const i64 sum_index = group % j.columns * SUMS + thread % SUMS, rest = group / j.columns;
    const i64 result = rest % j.results, item = rest / j.results;
    const u32 part = thread / SUMS;
    const i64 first = (result * PARTS + part) * j.chunk;
    float sum = 0.0f;
    if (sum_index < j.length) {
        float waiting[CHUNK_LEVELS];
        from += (item * j.parts + first) * j.length + sum_index;
        for (u32 k = 0; k < j.chunk && first < j.parts; k++) {
            sum = first + k < j.parts ? from[k * j.length] : 0.0f;
            push_term(&sum, waiting, k, 1, CHUNK_LEVELS);
        }
    }
    sums[thread] = sum;
    for (u32 distance = 1; distance < PARTS; distance *= 2) {
        GROUP_BARRIER();
        if (part % (2 * distance) == 0) {
            sums[thread] = sums[thread] + sums[thread + distance * SUMS];
        }
    }
    if (part == 0 && sum_index < j.length) {
        sum = sums[thread];
        if (j.results == 1) {
            to += item * j.length + sum_index;
            sum += 0.0f;
            *to = narrow(accumulate ? widen(*to) + sum : sum);
        } else {
            ((GLOBAL float *)to)[(item * j.results + result) * j.length + sum_index] = sum;
        }
    }
}

KERNEL(NAME, THREADS)
(BUFFER(const float, from0), BUFFER(element, to0), BUFFER(const float, from1), BUFFER(element, to1),
 CONSTANTS(constants, c)) {
    OPEN(const float, from0);
    OPEN(element, to0);
    OPEN(const float, from1);
    OPEN(element, to1);
    LOCAL_ARRAY(float, sums, THREADS);
    const i64 group = (i64)GROUP;
    if (group < c.first_groups) {
        finish(c.jobs[0], from0, to0, group, c.accumulate != 0, sums, THREAD);
    } else {
        finish(c.jobs[1], from1, to1, group - c.first_groups, c.accumulate != 0, sums, THREAD);
    }
}
