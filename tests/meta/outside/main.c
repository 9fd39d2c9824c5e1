/* A program outside the project: one op, one file, an answer on the standard output. */
#include <mlxn/io.h>
#include <mlxn/mlxn.h>
#include <stdio.h>

int main(void) {
    mlxn_device *device = NULL;
    mlxn_buffer *x = NULL;
    mlxn_encoder *encoder = NULL;
    float values[3] = {0, 1, 2};
    int64_t shape[1] = {3};
    if (mlxn_device_open("cpu", NULL, &device) || mlxn_buffer_create(device, MLXN_F32, 1, shape, &x) ||
        mlxn_buffer_write(x, 0, sizeof values, values) || mlxn_encoder_create(device, NULL, &encoder) ||
        mlxn_exp(encoder, x, x) || mlxn_encoder_commit_and_wait(encoder) ||
        mlxn_buffer_read(x, 0, sizeof values, values)) {
        fprintf(stderr, "%s\n", mlxn_last_error());
        return 1;
    }
    printf("mlxn %s: %.9g %.9g %.9g\n", mlxn_version(), (double)values[0], (double)values[1], (double)values[2]);
    mlxn_encoder_destroy(encoder);
    mlxn_buffer_destroy(x);
    mlxn_device_destroy(device);
    return 0;
}
