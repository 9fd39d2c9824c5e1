/* The rows of vec_rows.h on x86-64 with AVX2, FMA and F16C. */
#ifndef MLXN_KERNELS_CPU_VEC_ROWS_AVX2_H
#define MLXN_KERNELS_CPU_VEC_ROWS_AVX2_H

/* The groups of one register, two of 4 lanes or one of 8. */
VEC_INLINE __m256 vec_load_rows8_f32(const float *p, int64_t stride, const int lanes) {
    return lanes == 4 ? _mm256_set_m128(_mm_loadu_ps(p + stride), _mm_loadu_ps(p)) : _mm256_loadu_ps(p);
}

VEC_INLINE __m128i vec_load_rows8(const uint16_t *p, int64_t stride, const int lanes) {
    return lanes == 4 ? _mm_set_epi64x(vec_four_halves(p + stride), vec_four_halves(p))
                      : _mm_loadu_si128((const __m128i *)(const void *)p);
}

VEC_INLINE v16 v16_load_rows_f32(const float *p, int64_t stride, const int lanes) {
    return lanes == 16
               ? v16_load_f32(p)
               : (v16){vec_load_rows8_f32(p, stride, lanes), vec_load_rows8_f32(p + 8 / lanes * stride, stride, lanes)};
}

VEC_INLINE v16 v16_load_rows_f16(const uint16_t *p, int64_t stride, const int lanes) {
    return lanes == 16 ? v16_load_f16(p)
                       : (v16){_mm256_cvtph_ps(vec_load_rows8(p, stride, lanes)),
                               _mm256_cvtph_ps(vec_load_rows8(p + 8 / lanes * stride, stride, lanes))};
}

VEC_INLINE v16 v16_load_rows_bf16(const uint16_t *p, int64_t stride, const int lanes) {
    if (lanes == 16) {
        return v16_load_bf16(p);
    }
    n16 wide = {_mm256_cvtepu16_epi32(vec_load_rows8(p, stride, lanes)),
                _mm256_cvtepu16_epi32(vec_load_rows8(p + 8 / lanes * stride, stride, lanes))};
    return v16_of(n16_shl(wide, 16));
}

VEC_INLINE void v16_spread(v16 *v, const float *p, int64_t stride, const int lanes) {
    if (lanes == 4) {
        const v16 all = v16_load_rows_f32(p, stride, 4);
        v[0] = (v16){_mm256_permute_ps(all.a, 0x00), _mm256_permute_ps(all.b, 0x00)};
        v[1] = (v16){_mm256_permute_ps(all.a, 0x55), _mm256_permute_ps(all.b, 0x55)};
        v[2] = (v16){_mm256_permute_ps(all.a, 0xaa), _mm256_permute_ps(all.b, 0xaa)};
        v[3] = (v16){_mm256_permute_ps(all.a, 0xff), _mm256_permute_ps(all.b, 0xff)};
        return;
    }
    for (int k = 0; k < 4; k++) {
        v[k] = (v16){_mm256_set1_ps(p[k]), _mm256_set1_ps(p[(lanes == 8 ? stride : 0) + k])};
    }
}

/* Two rows of 8 lanes halved to 4. */
VEC_INLINE __m256 vec_halve2(v16 r) {
    return _mm256_add_ps(_mm256_permute2f128_ps(r.a, r.b, 0x20), _mm256_permute2f128_ps(r.a, r.b, 0x31));
}

/* The sums of 8 rows of 4 lanes: two rounds leave them as 0 2 4 6 1 3 5 7. */
VEC_INLINE __m256 vec_four_sums8(v16 x, v16 y) {
    __m256 two = _mm256_add_ps(_mm256_shuffle_ps(x.a, x.b, 0x44), _mm256_shuffle_ps(x.a, x.b, 0xee));
    __m256 too = _mm256_add_ps(_mm256_shuffle_ps(y.a, y.b, 0x44), _mm256_shuffle_ps(y.a, y.b, 0xee));
    __m256 sums = _mm256_add_ps(_mm256_shuffle_ps(two, too, 0x88), _mm256_shuffle_ps(two, too, 0xdd));
    return _mm256_permutevar8x32_ps(sums, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

VEC_INLINE v16 v16_group_sums(const v16 *r, const int lanes) {
    if (lanes == 4) {
        return (v16){vec_four_sums8(r[0], r[1]), vec_four_sums8(r[2], r[3])};
    }
    if (lanes == 16) {
        return v16_rowsum(r);
    }
    v16 four[4];
    for (size_t k = 0; k < 4; k++) {
        four[k] = (v16){vec_halve2(r[2 * k]), vec_halve2(r[2 * k + 1])};
    }
    return (v16){vec_four_sums8(four[0], four[1]), vec_four_sums8(four[2], four[3])};
}

VEC_INLINE v16 v16_group_total(v16 v, const int lanes) {
    if (lanes == 4) {
        v = v16_add(v, (v16){_mm256_permute2f128_ps(v.a, v.a, 0x01), _mm256_permute2f128_ps(v.b, v.b, 0x01)});
    }
    return lanes == 16 ? v : v16_add(v, (v16){v.b, v.a});
}

/* Permutations look at the lower 3 bits of an index. */
VEC_INLINE v16 v16_expand_halves(const float *p, const float *q, const int32_t *index) {
    n16 at = n16_of(v16_load_f32((const float *)(const void *)index));
    return (v16){_mm256_permutevar8x32_ps(_mm256_loadu_ps(p), at.a),
                 _mm256_permutevar8x32_ps(_mm256_loadu_ps(q), at.b)};
}

#endif
