/* The pairwise sum of partial sums, [items, parts, length] of f32, for the rows' and the columns' at once: two jobs, of which
 * the first has the first groups. A thread adds `chunk` parts of one sum; a group does `across` sums side by side, and
 * THREADS / across chunks of each. Where that is not all of them, the results are partial sums again. */
#define CHUNK 32

typedef struct job {
    i64 parts, length;
    i64 results; /* parts that are left; 1: the sums are whole, and of the kernel's dtype */
    i64 columns; /* groups side by side */
    u32 across;  /* a power of two */
    u32 chunk;   /* a power of two up to CHUNK */
} job;

typedef struct constants {
    job jobs[2];
    i64 first_groups;
    i64 accumulate;
} constants;

/* With so few registers a group finds room beside the last ones of the gradients' kernels. */
KERNEL(NAME, THREADS, 4)
(BUFFER(const float, from0), BUFFER(element, to0), BUFFER(const float, from1), BUFFER(element, to1),
 CONSTANTS(constants, c)) {
    OPEN(const float, from0);
    OPEN(element, to0);
    OPEN(const float, from1);
    OPEN(element, to1);
    LOCAL_ARRAY(float, sums, THREADS);
    AWAIT();
    const bool second = (i64)GROUP >= c.first_groups;
    const job j = second ? c.jobs[1] : c.jobs[0];
    const GLOBAL float *from = second ? from1 : from0;
    GLOBAL element *to = second ? to1 : to0;
    const i64 group = (i64)GROUP - (second ? c.first_groups : 0);
    const i64 rest = quotient(group, j.columns), item = quotient(rest, j.results);
    const i64 index = (group - rest * j.columns) * j.across + THREAD % j.across, result = rest - item * j.results;
    const u32 part = THREAD / j.across, parts = THREADS / j.across;
    const i64 first = (result * parts + part) * j.chunk;
    float sum = 0.0f;
    if (index < j.length && first < j.parts) {
        from += (item * j.parts + first) * j.length + index;
        float terms[CHUNK]; /* which are read together */
        UNROLL
        for (u32 i = 0; i < CHUNK; i++) {
            terms[i] = float_of(read_word(i < j.chunk && first + i < j.parts, true, from + i * j.length));
        }
        sum = sum_pairs(terms, CHUNK);
    }
    sums[THREAD] = sum;
    for (u32 distance = 1; distance < parts; distance *= 2) {
        GROUP_BARRIER();
        if (part % (2 * distance) == 0) {
            sums[THREAD] = sums[THREAD] + sums[THREAD + distance * j.across];
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
