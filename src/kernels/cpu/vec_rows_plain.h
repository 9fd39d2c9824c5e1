/* The rows of vec_rows.h for registers of 4 lanes: those of a v16 are a, b, c and d. */
#ifndef MLXN_KERNELS_CPU_VEC_ROWS_PLAIN_H
#define MLXN_KERNELS_CPU_VEC_ROWS_PLAIN_H

VEC_INLINE v16 v16_load_rows_f32(const float *p, int64_t stride, const int lanes) {
    const int64_t second = lanes == 4 ? stride : 4, third = lanes == 16 ? 8 : 8 / lanes * stride;
    v16 v;
    memcpy(&v.a, p, sizeof v.a);
    memcpy(&v.b, p + second, sizeof v.b);
    memcpy(&v.c, p + third, sizeof v.c);
    memcpy(&v.d, p + third + second, sizeof v.d);
    return v;
}

/* The elements of the groups, one after the other. */
VEC_INLINE void vec_gather_rows(uint16_t *line, const uint16_t *p, int64_t stride, const int lanes) {
    for (int g = 0; g < 16 / lanes; g++) {
        memcpy(line + g * lanes, p + g * stride, (size_t)lanes * sizeof *p);
    }
}

VEC_INLINE v16 v16_load_rows_f16(const uint16_t *p, int64_t stride, const int lanes) {
    uint16_t line[16];
    vec_gather_rows(line, p, stride, lanes);
    return v16_load_f16(line);
}

VEC_INLINE v16 v16_load_rows_bf16(const uint16_t *p, int64_t stride, const int lanes) {
    uint16_t line[16];
    vec_gather_rows(line, p, stride, lanes);
    return v16_load_bf16(line);
}

VEC_INLINE void v16_spread(v16 *v, const float *p, int64_t stride, const int lanes) {
    const int64_t second = lanes == 4 ? stride : 0, third = lanes == 16 ? 0 : 8 / lanes * stride;
    for (int k = 0; k < 4; k++) {
        v[k] = (v16){v16_splat(p[k]).a, v16_splat(p[second + k]).b, v16_splat(p[third + k]).c,
                     v16_splat(p[third + second + k]).d};
    }
}

VEC_INLINE v16 v16_group_sums(const v16 *r, const int lanes) {
    if (lanes == 16) {
        return v16_rowsum(r);
    }
    if (lanes == 4) {
        return (v16){vec_sums4(r[0]), vec_sums4(r[1]), vec_sums4(r[2]), vec_sums4(r[3])};
    }
    v16 four[4]; /* lanes of 8 halved to 4 */
    for (size_t k = 0; k < 4; k++) {
        const v16 x = r[2 * k], y = r[2 * k + 1];
        four[k] = v16_add((v16){x.a, x.c, y.a, y.c}, (v16){x.b, x.d, y.b, y.d});
    }
    return (v16){vec_sums4(four[0]), vec_sums4(four[1]), vec_sums4(four[2]), vec_sums4(four[3])};
}

VEC_INLINE v16 v16_group_total(v16 v, const int lanes) {
    if (lanes == 4) {
        v = v16_add(v, (v16){v.b, v.a, v.d, v.c});
    }
    return lanes == 16 ? v : v16_add(v, (v16){v.c, v.d, v.a, v.b});
}

VEC_INLINE v16 v16_expand_halves(const float *p, const float *q, const int32_t *index) {
    float line[16];
    for (size_t lane = 0; lane < 8; lane++) {
        line[lane] = p[index[lane]];
        line[lane + 8] = q[index[lane + 8] - 8];
    }
    return v16_load_f32(line);
}

#endif
