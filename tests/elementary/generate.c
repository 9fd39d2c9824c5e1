/* Writes digests.h: the digest of the right results of every unary op of ops.def, for all inputs of every
 * dtype, block by block. Takes some minutes; run again only when ops.def gains a unary op:
 *
 *     elementary_generate > tests/elementary/digests.h */
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char introduction[] =
    "/* Digests of the right results of the unary ops, for all inputs: XXH3-128 of the little-endian bytes of the\n"
    " * results of a block of inputs whose bit patterns follow each other from 0 on, every NaN canonical.\n"
    " * Written by tests/elementary/generate.c with MPFR; do not edit. */\n"
    "#ifndef MLXN_TESTS_ELEMENTARY_DIGESTS_H\n"
    "#define MLXN_TESTS_ELEMENTARY_DIGESTS_H\n"
    "\n"
    "#include \"mlxn/mlxn.h\"\n"
    "\n"
    "typedef struct mlxn_digest {\n"
    "    uint64_t high, low;\n"
    "} mlxn_digest;\n"
    "\n"
    "typedef struct mlxn_digest_table {\n"
    "    const char *op;\n"
    "    mlxn_dtype dtype;\n"
    "    uint64_t block; /* inputs of a block */\n"
    "    size_t count;   /* blocks; block * count is 2^32 or 2^16 */\n"
    "    const mlxn_digest *digests;\n"
    "} mlxn_digest_table;\n"
    "\n"
    "/* clang-format off */\n";

static const struct {
    mlxn_dtype dtype;
    const char *constant, *name;
} dtypes[] = {{MLXN_F32, "MLXN_F32", "f32"}, {MLXN_F16, "MLXN_F16", "f16"}, {MLXN_BF16, "MLXN_BF16", "bf16"}};

#define DTYPE_COUNT (sizeof dtypes / sizeof *dtypes)

int main(void) {
    uint32_t *results = malloc(TRUTH_BLOCK_F32 * sizeof *results);
    if (results == NULL) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    fputs(introduction, stdout);
    for (size_t op = 0; op < truth_op_count; op++) {
        for (size_t d = 0; d < DTYPE_COUNT; d++) {
            mlxn_dtype dtype = dtypes[d].dtype;
            size_t bytes = truth_block_size(dtype) * (dtype == MLXN_F32 ? 4 : 2);
            printf("static const mlxn_digest mlxn_digests_%s_%s[] = {\n", truth_ops[op].name, dtypes[d].name);
            for (uint64_t block = 0; block < truth_block_count(dtype); block++) {
                truth_block(&truth_ops[op], TRUTH_QUICK, dtype, block, results);
                XXH128_hash_t digest = XXH3_128bits(results, bytes);
                printf("{0x%016llx, 0x%016llx},\n", (unsigned long long)digest.high64,
                       (unsigned long long)digest.low64);
            }
            printf("};\n");
        }
    }
    printf("\nstatic const mlxn_digest_table mlxn_digest_tables[] = {\n");
    for (size_t op = 0; op < truth_op_count; op++)
        for (size_t d = 0; d < DTYPE_COUNT; d++)
            printf("    {\"%s\", %s, %llu, %llu, mlxn_digests_%s_%s},\n", truth_ops[op].name, dtypes[d].constant,
                   (unsigned long long)truth_block_size(dtypes[d].dtype),
                   (unsigned long long)truth_block_count(dtypes[d].dtype), truth_ops[op].name, dtypes[d].name);
    printf("};\n/* clang-format on */\n\n"
           "static const size_t mlxn_digest_table_count = sizeof mlxn_digest_tables / sizeof *mlxn_digest_tables;\n\n"
           "#endif\n");
    free(results);
    return ferror(stdout) != 0 || fflush(stdout) != 0;
}
