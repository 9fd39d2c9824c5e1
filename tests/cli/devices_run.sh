#!/bin/sh
# mlxn run on every device that is here: the CPU's bits, on devices without host memory too.
. "${0%/*}/support/program.sh"

npy x.npy '<f4' '3,' 3f800000 00000000 c0400000
npy dy.npy '<f2' '2, 3' 3c00 3c00 3c00 4000 4000 4000
npy rhs.npy '<f2' '3,' 3c00 4000 4200
for device in cpu $(others); do
  succeeds - run sqrt x.npy -o "y-$device.npy" --device "$device"
  holds "y-$device.npy" 4 3f800000 00000000 7fc00000
  succeeds - run exp_backward x.npy x.npy -o "m-$device.safetensors" --device "$device" --dtype bf16
  succeeds - run mul "m-$device.safetensors" "m-$device.safetensors:dx" -o "sq-$device.npy" --device "$device"
  holds "sq-$device.npy" 2 3f80 0000 42a2
  npy dlhs.npy '<f2' '2,' 3c00 3c00
  succeeds - run outer_product_backward_lhs dy.npy rhs.npy -o dlhs.npy --accumulate --device "$device"
  holds dlhs.npy 2 4700 4a80
  fails 1 'sqrt: .*none/y.npy' run sqrt x.npy -o none/y.npy --device "$device"
done
fails 1 'abacus:0' run exp x.npy -o y.npy --device abacus:0

conclude
