/* The rows of vec_rows.h on x86-64 with AVX-512 F, BW, DQ and VL. */
#ifndef MLXN_KERNELS_CPU_VEC_ROWS_AVX512_H
#define MLXN_KERNELS_CPU_VEC_ROWS_AVX512_H

VEC_INLINE v16 v16_load_rows_f32(const float *p, int64_t stride, const int lanes) {
    if (lanes == 16) {
        return v16_load_f32(p);
    }
    __m256 low = lanes == 4 ? _mm256_set_m128(_mm_loadu_ps(p + stride), _mm_loadu_ps(p)) : _mm256_loadu_ps(p);
    p += 8 / lanes * stride;
    __m256 high = lanes == 4 ? _mm256_set_m128(_mm_loadu_ps(p + stride), _mm_loadu_ps(p)) : _mm256_loadu_ps(p);
    return (v16){_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1)};
}

VEC_INLINE __m256i vec_load_rows16(const uint16_t *p, int64_t stride, const int lanes) {
    if (lanes == 16) {
        return vec_load256(p);
    }
    if (lanes == 4) {
        return _mm256_set_epi64x(vec_four_halves(p + 3 * stride), vec_four_halves(p + 2 * stride),
                                 vec_four_halves(p + stride), vec_four_halves(p));
    }
    return _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(const void *)(p + stride)),
                            _mm_loadu_si128((const __m128i *)(const void *)p));
}

VEC_INLINE v16 v16_load_rows_f16(const uint16_t *p, int64_t stride, const int lanes) {
    return (v16){_mm512_cvtph_ps(vec_load_rows16(p, stride, lanes))};
}

VEC_INLINE v16 v16_load_rows_bf16(const uint16_t *p, int64_t stride, const int lanes) {
    return v16_of(n16_shl((n16){_mm512_cvtepu16_epi32(vec_load_rows16(p, stride, lanes))}, 16));
}

VEC_INLINE void v16_spread(v16 *v, const float *p, int64_t stride, const int lanes) {
    if (lanes == 4) {
        const __m512 all = v16_load_rows_f32(p, stride, 4).v;
        v[0] = (v16){_mm512_permute_ps(all, 0x00)};
        v[1] = (v16){_mm512_permute_ps(all, 0x55)};
        v[2] = (v16){_mm512_permute_ps(all, 0xaa)};
        v[3] = (v16){_mm512_permute_ps(all, 0xff)};
        return;
    }
    for (int k = 0; k < 4; k++) {
        v[k] = v16_splat(p[k]);
        if (lanes == 8) {
            v[k].v = _mm512_mask_blend_ps(0xff00, v[k].v, _mm512_set1_ps(p[stride + k]));
        }
    }
}

/* Lanes 8 halve to 4 first; the last two rounds leave the rows as 0 4 8 12, 1 5 9 13, … */
VEC_INLINE v16 v16_group_sums(const v16 *r, const int lanes) {
    if (lanes == 16) {
        return v16_rowsum(r);
    }
    __m512 four[4], two[2];
    for (size_t k = 0; k < 4; k++) {
        const __m512 x = lanes == 8 ? r[2 * k].v : r[k].v, y = lanes == 8 ? r[2 * k + 1].v : x;
        four[k] = lanes == 8 ? _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd)) : x;
    }
    for (size_t k = 0; k < 2; k++) {
        const __m512 x = four[2 * k], y = four[2 * k + 1];
        two[k] = _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xee));
    }
    const __m512 sums = _mm512_add_ps(_mm512_shuffle_ps(two[0], two[1], 0x88), _mm512_shuffle_ps(two[0], two[1], 0xdd));
    return (v16){_mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), sums)};
}

VEC_INLINE v16 v16_group_total(v16 v, const int lanes) {
    if (lanes == 4) {
        v.v = _mm512_add_ps(v.v, _mm512_shuffle_f32x4(v.v, v.v, 0xb1));
    }
    return lanes == 16 ? v : (v16){_mm512_add_ps(v.v, _mm512_shuffle_f32x4(v.v, v.v, 0x4e))};
}

VEC_INLINE v16 v16_expand_halves(const float *p, const float *q, const int32_t *index) {
    __m512 from = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(q), 1);
    return (v16){_mm512_permutexvar_ps(_mm512_loadu_si512(index), from)};
}

#endif
