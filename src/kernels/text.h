/* The kernel text of GPUs, embedded by the build (cmake/EmbedText.cmake): mlxn_text_NAME is src/kernels/gpu/NAME.h, and
 * mlxn_text_elementary all of src/kernels/gpu/elementary/. docs/architecture.md explains the dialect. */
#ifndef MLXN_KERNELS_TEXT_H
#define MLXN_KERNELS_TEXT_H

/* The preludes: how a language says the words of the dialect. */
extern const char mlxn_text_cuda[], mlxn_text_opencl[];

/* What stands in every language: dtypes, sums, elementary functions, and the bodies of the op families. */
extern const char mlxn_text_dtypes[], mlxn_text_sums[], mlxn_text_elementary[], mlxn_text_elementwise[],
    mlxn_text_outer_product[], mlxn_text_outer_product_by_rows[], mlxn_text_outer_product_lines[],
    mlxn_text_outer_product_by_lines[], mlxn_text_outer_product_by_items[], mlxn_text_outer_product_by_shifts[],
    mlxn_text_outer_product_gradients[], mlxn_text_outer_product_backward[], mlxn_text_outer_product_narrow[],
    mlxn_text_outer_product_finish[];

#endif
