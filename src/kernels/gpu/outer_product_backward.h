/* The gradients of the outer product: WANT_ROWS for dlhs, WANT_COLUMNS for drhs, both in one pass over dy.
 *
 * A team of lanes reads rows of one segment, PACK elements a lane: so each lane stands for PACK lanes of the canonical
 * order, and for the columns of those lanes. BATCH rows are on their way to registers while the BATCH before them are
 * summed. A team sums leaves of 32 rows; `leaf_teams` teams of a group of threads do leaves below each other, at the same
 * time, and the others the same of the next segments. After each of `rounds` rounds the leaves' column sums are added up. A
 * group leaves partial sums, unless it has seen all of a sum. */
#define TEAM (32 / PACK)
#define TEAMS (THREADS / TEAM)
/* Of a segment: 1024 in the canonical order of a row's sum, which LONGEST is if rows are longer. */
#define COLUMNS LONGEST
#define STEPS (COLUMNS / 32)
#define VALUES (STEPS * PACK) /* of a row and a lane */
#define LEAF 32
/* Rows that are on their way: as many as fill 32 registers, up to half a leaf. */
#if PACK > 1 && WANT_COLUMNS && !WANT_ROWS && LONGEST == 512
#define BATCH 1
#elif STEPS == 1
#define BATCH (LEAF / 2)
#else
#define BATCH (32 / STEPS)
#endif
#define PITCH 33 /* of the lanes' sums of a row, which lie in local memory: a column of them meets all banks */
#if WANT_ROWS
#define LANES_AREA (LEAF * PITCH + 16)
#else
#define LANES_AREA (COLUMNS + 16)
#endif
/* Of a team, in floats: the lanes' sums or the columns', then the leaf's part of lhs. */
#define AREA (LANES_AREA + LEAF)
#define TURN ((COLUMNS + THREADS - 1) / THREADS) /* columns of a thread when column sums are added up */
#define LEVELS 3
/* As many as leave enough registers. */
#if LONGEST == 1024 && WANT_COLUMNS
#define GROUPS (PACK > 1 || !ONE_LEAF ? 256 / THREADS : 3)
#elif WANT_ROWS && WANT_COLUMNS && (PACK > 1 || LONGEST == 512)
#define GROUPS 3
#else
#define GROUPS (PACK > 1 && LONGEST == 1024 ? 3 : 4)
#endif
/* Whether reading a batch that is whole has a way of its own: it spares instructions, but long rows are read faster by the
 * one way, as measured. */
#define TWO_WAYS (PACK > 1 || LONGEST < 1024 || (ONE_LEAF && !WANT_ROWS))
/* Whether load k of a batch passes the cache by. A cache full of lines that all do so is slower by 3 %, one that holds others
 * is not: one line of 16 stays, of a row its first, so that the cache is soon full of these, whatever it held before. Not so
 * among the many writes of few rows, where passing by costs time, nor in long rows of pairs of 16-bit elements, where staying
 * does. */
#define PASSES(k) (!ONE_LEAF && ((PACK > 1 && LONGEST == 1024) || (k) / WORD % 16 != 0))
#if PACK == WORD
#define READ_PACK(there, k, from) read_word(there, PASSES(k), from)
#else
#define READ_PACK(there, k, from) read_element(there, PASSES(k), from)
#endif

/* Of few rows, rhs is a good part of what is read; elsewhere words would take registers that are not there. */
#define RHS_BY_WORDS (PACK > 1 && (!WANT_COLUMNS || ONE_LEAF))

typedef struct constants {
    i64 n, m;
    i64 segments; /* of a row */
    i64 units;    /* segments of all batch items */
    i64 unit_groups;
    i64 row_blocks; /* of an item: a group of threads takes one */
    u32 leaf_teams; /* a power of two; 1 if ONE_LEAF */
    u32 rounds;     /* a power of two up to 2^LEVELS; 1 where leaf_teams is less than TEAMS */
    u32 accumulate;
    u32 keeps; /* the gradients are small: caches may hold them until they are read */
} constants;

FN void write_gradient(GLOBAL element *to, float sum, const constants *c) {
    const element x = whole_sum(to, sum, c->accumulate != 0);
    if (c->keeps != 0) {
        keep(to, x);
    } else {
        *to = x;
    }
}

/* A batch of a leaf, which has `rows` rows from here on, and `columns` columns from the lane's first on. The rest is 0. Of a
 * whole batch all is there. */
FN void read_batch(u32 *packs, const GLOBAL element *from, i64 m, i32 rows, i32 columns, bool whole) {
    if (TWO_WAYS && whole) {
        UNROLL
        for (i32 r = 0; r < BATCH; r++) {
            UNROLL
            for (i32 t = 0; t < STEPS; t++) {
                packs[r * STEPS + t] = READ_PACK(true, r * STEPS + t, from + 32 * t);
            }
            from += m;
        }
    } else {
        UNROLL
        for (i32 r = 0; r < BATCH; r++) {
            UNROLL
            for (i32 t = 0; t < STEPS; t++) {
                packs[r * STEPS + t] = READ_PACK(r < rows && 32 * t < columns, r * STEPS + t, from + 32 * t);
            }
            from += m;
        }
    }
}

/* Adds a batch to the column sums, and writes the lanes' sums of its rows. Where there is nothing, all factors are 0. */
FN void add_batch(const u32 *packs, const float *b, float *sums, LOCAL const float *lhs, LOCAL float *lanes) {
    UNROLL
    for (i32 r = 0; r < BATCH; r++) {
#if WANT_COLUMNS
        const float l = lhs[r];
#endif
#if WANT_ROWS
        float row_sums[PACK] = {0.0f};
#endif
        UNROLL
        for (i32 t = 0; t < STEPS; t++) {
            UNROLL
            for (i32 k = 0; k < PACK; k++) {
                const float v = widen_word(packs[r * STEPS + t], k);
#if WANT_ROWS
                row_sums[k] = fma32(v, b[t * PACK + k], row_sums[k]);
#endif
#if WANT_COLUMNS
                sums[t * PACK + k] = fma32(v, l, sums[t * PACK + k]);
#endif
            }
        }
#if WANT_ROWS
        UNROLL
        for (i32 k = 0; k < PACK; k++) {
            lanes[r * PITCH + k] = row_sums[k];
        }
#endif
    }
}

#if WANT_COLUMNS && !ONE_LEAF
/* The pairwise sum of what `teams` teams, a power of two, have at the same place of their areas. */
FN float sum_areas(LOCAL const float *first, u32 teams) {
    float terms[TEAMS];
    UNROLL
    for (u32 i = 0; i < TEAMS; i++) {
        terms[i] = i < teams ? first[i * AREA] : 0.0f;
    }
    return sum_pairs(terms, TEAMS);
}

/* As push_term of sums.h: adds the sums of a round to those that wait for them, in local memory, or lets them wait. */
FN void push_sums(float *sums, LOCAL float *waiting, u32 round, u32 rounds) {
    i32 level = 0;
    for (; (round >> level & 1) != 0; level++) {
        UNROLL
        for (i32 k = 0; k < TURN; k++) {
            sums[k] = waiting[(level * TURN + k) * THREADS] + sums[k];
        }
    }
    if (round + 1 < rounds) {
        UNROLL
        for (i32 k = 0; k < TURN; k++) {
            waiting[(level * TURN + k) * THREADS] = sums[k];
        }
    }
}
#endif

#if WANT_COLUMNS && ONE_LEAF
FN void write_pack(GLOBAL element *to, const float *sums) {
#if PACK > 1
    *(GLOBAL u32 *)to = (u32)whole_sum(to, sums[0], false) | (u32)whole_sum(to, sums[1], false) << 16;
#else
    write_sum(to, sums[0], false);
#endif
}

FN void write_columns(GLOBAL element *to, const float *sums, i32 columns, bool accumulate) {
    if (accumulate) {
        for (i32 t = 0; t < STEPS; t++) {
            for (i32 k = 0; k < PACK; k++) {
                if (32 * t + k < columns) {
                    write_sum(to + (32 * t + k), sums[t * PACK + k], true);
                }
            }
        }
    } else {
        UNROLL
        for (i32 t = 0; t < STEPS; t++) {
            if (32 * t < columns) {
                write_pack(to + 32 * t, sums + t * PACK);
            }
        }
    }
}
#endif

/* Of a leaf that begins `left` rows before the item's end. */
FN i32 leaf_rows(i64 left) { return left < LEAF ? (left > 0 ? (i32)left : 0) : LEAF; }

KERNEL(NAME, THREADS, GROUPS)
(INPUTS, OUTPUTS, CONSTANTS(constants, c)) {
    OPEN(const element, dy);
    OPEN_ROWS()
    OPEN_COLUMNS()
    LOCAL_ARRAY(float, areas, (TEAMS * AREA));
#if WANT_COLUMNS && !ONE_LEAF
    LOCAL_ARRAY(float, waiting, (LEVELS * TURN * THREADS));
#endif
    AWAIT();
    const u32 lane = THREAD % TEAM, team = THREAD / TEAM;
    LOCAL float *area = areas + team * AREA, *leaf_lhs = area + LANES_AREA;

    /* What this team sums. */
    const u32 leaf_teams = ONE_LEAF ? 1 : c.leaf_teams, rounds = ONE_LEAF ? 1 : c.rounds;
    const u32 unit_teams = TEAMS / leaf_teams;
    const i64 block = quotient((i64)GROUP, c.unit_groups);
    const i64 first_unit = ((i64)GROUP - block * c.unit_groups) * unit_teams;
    const i64 unit = first_unit + team / leaf_teams;
    const bool here = unit < c.units;
    const i64 item = here ? quotient(unit, c.segments) : 0, segment = here ? unit - item * c.segments : 0;
    const i64 in_segment = c.m - segment * COLUMNS;
    const i32 columns = in_segment < COLUMNS ? (i32)in_segment : COLUMNS;
    i64 row = (block * rounds * leaf_teams + team % leaf_teams) * LEAF; /* the leaf's first */
    i64 left = here ? c.n - row : 0;

    const i32 lane_columns = columns - (i32)lane * PACK;
    const GLOBAL element *from = dy + ((item * c.n + row) * c.m + segment * COLUMNS + lane * PACK);
    const i64 next_leaf = (i64)(leaf_teams - 1) * LEAF * c.m; /* from the end of one */
    const bool full = columns == COLUMNS;
    u32 packs[BATCH * STEPS], others[BATCH * STEPS];
    read_batch(packs, from, c.m, leaf_rows(left), lane_columns, full && left >= BATCH);
#if WANT_ROWS
    float b[VALUES];
    UNROLL
    for (i32 t = 0; t < STEPS; t++) {
#if RHS_BY_WORDS
        const GLOBAL element *its = rhs + (item * c.m + segment * COLUMNS + lane * PACK + 32 * t);
        const u32 word = read_word(32 * t < lane_columns, false, its);
        UNROLL
        for (i32 k = 0; k < PACK; k++) {
            b[t * PACK + k] = widen_word(word, k);
        }
#else
        UNROLL
        for (i32 k = 0; k < PACK; k++) {
            const i32 column = 32 * t + k, near = column < lane_columns ? column : lane_columns - 1;
            const element of = rhs[item * c.m + segment * COLUMNS + lane * PACK + near];
            b[t * PACK + k] = column < lane_columns ? widen(of) : 0.0f;
        }
#endif
    }
#else
    const float *b = 0;
#endif
    float sums[VALUES];
#if WANT_COLUMNS && !ONE_LEAF
    float added[TURN];
#endif
#if WANT_COLUMNS
    float its_lhs[PACK];
    UNROLL
    for (i32 k = 0; k < PACK; k++) {
        its_lhs[k] = lane * PACK + k < left ? widen(lhs[item * c.n + row + lane * PACK + k]) : 0.0f;
    }
#endif
    for (u32 round = 0; round < rounds; round++) {
        const i64 next_row = row + leaf_teams * LEAF, next_left = here ? c.n - next_row : 0;
        const i32 next_rows = round + 1 < rounds ? leaf_rows(next_left) : 0;
#if WANT_COLUMNS
        UNROLL
        for (i32 k = 0; k < PACK; k++) {
            leaf_lhs[lane * PACK + k] = its_lhs[k];
            const i32 r = (i32)(lane * PACK) + k;
            its_lhs[k] = r < next_rows ? widen(lhs[item * c.n + next_row + r]) : 0.0f;
        }
        UNROLL
        for (i32 k = 0; k < VALUES; k++) {
            sums[k] = 0.0f;
        }
        WARP_BARRIER();
#endif
        const i32 rows = leaf_rows(left);
        for (i32 r = 0; r < rows; r += 2 * BATCH) {
            const bool last = r + 2 * BATCH >= rows; /* then follows the next leaf, if this one is whole */
            from += BATCH * c.m;
            read_batch(others, from, c.m, rows - r - BATCH, lane_columns, full && rows - r >= 2 * BATCH);
            add_batch(packs, b, sums, leaf_lhs + r, area + r * PITCH + lane * PACK);
            from += BATCH * c.m + (last ? next_leaf : 0);
            const i32 rows_then = last ? next_rows : rows - r - 2 * BATCH;
            read_batch(packs, from, c.m, rows_then, lane_columns, full && rows_then >= BATCH);
            add_batch(others, b, sums, leaf_lhs + r + BATCH, area + (r + BATCH) * PITCH + lane * PACK);
        }
#if WANT_ROWS
        WARP_BARRIER();
        /* A lane adds the lanes of one row. */
        UNROLL
        for (i32 k = 0; k < PACK; k++) {
            const u32 r = lane + k * TEAM;
            if (r < left) {
                float lanes[32];
                UNROLL
                for (i32 l = 0; l < 32; l++) {
                    lanes[l] = area[r * PITCH + l];
                }
                const float sum = sum_lanes(lanes, 32);
                if (c.segments == 1) {
                    write_gradient(dlhs + (item * c.n + row + r), sum, &c);
                } else {
                    write_part((GLOBAL float *)dlhs + ((item * c.segments + segment) * c.n + row + r), sum);
                }
            }
        }
        WARP_BARRIER();
#endif
#if WANT_COLUMNS && !ONE_LEAF
        UNROLL
        for (i32 t = 0; t < STEPS; t++) {
            UNROLL
            for (i32 k = 0; k < PACK; k++) {
                area[32 * t + lane * PACK + k] = sums[t * PACK + k];
            }
        }
        GROUP_BARRIER();
        if (leaf_teams == TEAMS) {
            UNROLL
            for (i32 k = 0; k < TURN; k++) {
                added[k] = THREAD + k * THREADS < COLUMNS ? sum_areas(areas + (THREAD + k * THREADS), TEAMS) : 0.0f;
            }
            push_sums(added, waiting + THREAD, round, rounds);
        }
        GROUP_BARRIER();
#endif
        row = next_row;
        left = next_left;
    }

#if WANT_COLUMNS
    GLOBAL element *to = drhs + (item * c.m + segment * COLUMNS);
#if ONE_LEAF
    if (here) {
        write_columns(to + lane * PACK, sums, lane_columns, c.accumulate != 0);
    }
#else
    if (leaf_teams == TEAMS) {
        GLOBAL float *part = (GLOBAL float *)drhs + ((item * c.row_blocks + block) * c.m + segment * COLUMNS);
        UNROLL
        for (i32 k = 0; k < TURN; k++) {
            const i32 column = (i32)THREAD + k * THREADS;
            if (column < columns && here) {
                if (c.row_blocks == 1) {
                    write_gradient(to + column, added[k], &c);
                } else {
                    write_part(part + column, added[k]);
                }
            }
        }
    } else if (here) { /* of all rows; the unit's teams share its columns */
        for (i32 column = (i32)(team % leaf_teams * TEAM + lane); column < columns; column += leaf_teams * TEAM) {
            const float sum = sum_areas(areas + (team / leaf_teams * leaf_teams * AREA + column), leaf_teams);
            write_gradient(to + column, sum, &c);
        }
    }
#endif
#endif
}
