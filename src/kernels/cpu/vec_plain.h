/* Functions of vec.h in common for registers of 4 lanes, where there are neither masked moves nor wide permutations. */
#ifndef MLXN_KERNELS_CPU_VEC_PLAIN_H
#define MLXN_KERNELS_CPU_VEC_PLAIN_H

VEC_INLINE v16 v16_mask(size_t n) { return v16_load_f32((const float *)(const void *)(vec_mask_table + 16 - n)); }

VEC_INLINE v16 v16_load_part_f32(const float *p, size_t n) {
    float line[16] = {0};
    memcpy(line, p, n * sizeof *p);
    return v16_load_f32(line);
}

VEC_INLINE void v16_store_part_f32(float *p, v16 v, size_t n) {
    float line[16];
    v16_store_f32(line, v);
    memcpy(p, line, n * sizeof *p);
}

VEC_INLINE v16 v16_rowsum(const v16 *r) {
    return (v16){vec_rowsum4(r), vec_rowsum4(r + 4), vec_rowsum4(r + 8), vec_rowsum4(r + 12)};
}

VEC_INLINE bool v16_all_within(v16 a, float f) { return v16_all(v16_less(v16_abs(a), v16_splat(f))); }
VEC_INLINE d16 d16_of_magic(v16 v) { return d16_of_v16(v16_sub(v, v16_splat(VEC_MAGIC))); }
VEC_INLINE v16 v16_of_d16(d16 d) { return E2(v16, vec_narrow4, d.lo, d.hi); }
VEC_INLINE v16 v16_of_normal_d16(d16 d) { return v16_of_d16(d); }

VEC_INLINE v16 v16_sticky_of_d16(d16 d) {
    return v16_of_d16((d16){E1(d8, vec_sticky2, d.lo), E1(d8, vec_sticky2, d.hi)});
}

#endif
