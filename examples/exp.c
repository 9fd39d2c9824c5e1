/* exp and its gradient, end to end: y = e^x, then dx = dy * y.
 *
 *     cc exp.c $(pkg-config --cflags --libs mlxn) -lm -o exp && ./exp
 */
#include <math.h>
#include <mlxn/mlxn.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 8 };

/* Ends the program with the library's own message if a call failed. */
static void require(mlxn_status status) {
    if (status != MLXN_OK) {
        fprintf(stderr, "exp: %s\n", mlxn_last_error());
        exit(1);
    }
}

int main(void) {
    const int64_t shape[] = {COUNT};
    float x[COUNT], dy[COUNT], y[COUNT], dx[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = 0.5f * (float)i - 2.0f;
        dy[i] = 1.0f + (float)i;
    }

    mlxn_device *device;
    mlxn_encoder *encoder;
    mlxn_buffer *x_buffer, *y_buffer, *dy_buffer, *dx_buffer;
    require(mlxn_device_open(NULL, NULL, &device)); /* $MLXN_DEVICE, or the best device of this machine */
    require(mlxn_encoder_create(device, NULL, &encoder));
    require(mlxn_buffer_create(device, MLXN_F32, 1, shape, &x_buffer));
    require(mlxn_buffer_create(device, MLXN_F32, 1, shape, &y_buffer));
    require(mlxn_buffer_create(device, MLXN_F32, 1, shape, &dy_buffer));
    require(mlxn_buffer_create(device, MLXN_F32, 1, shape, &dx_buffer));
    require(mlxn_buffer_write(x_buffer, 0, sizeof x, x));
    require(mlxn_buffer_write(dy_buffer, 0, sizeof dy, dy));

    /* Ops only record. If one of them fails, commit refuses and returns its status. */
    mlxn_exp(encoder, x_buffer, y_buffer);
    mlxn_exp_backward(encoder, y_buffer, dy_buffer, dx_buffer, MLXN_OVERWRITE);
    require(mlxn_encoder_commit_and_wait(encoder));

    require(mlxn_buffer_read(y_buffer, 0, sizeof y, y));
    require(mlxn_buffer_read(dx_buffer, 0, sizeof dx, dx));
    int wrong = 0;
    printf("    x     y = e^x      dy    dx = dy * y\n");
    for (int i = 0; i < COUNT; i++) {
        printf("%5.1f  %10.6f  %6.1f     %10.6f\n", (double)x[i], (double)y[i], (double)dy[i], (double)dx[i]);
        wrong += y[i] != (float)exp((double)x[i]) || dx[i] != dy[i] * y[i];
    }
    printf("%d of %d rows differ from the correctly rounded results\n", wrong, COUNT);

    mlxn_buffer_destroy(dx_buffer);
    mlxn_buffer_destroy(dy_buffer);
    mlxn_buffer_destroy(y_buffer);
    mlxn_buffer_destroy(x_buffer);
    mlxn_encoder_destroy(encoder);
    mlxn_device_destroy(device);
    return wrong != 0;
}
