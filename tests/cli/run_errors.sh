#!/bin/sh
# What can go wrong in mlxn run: one line that names the file, the op and the argument, and no file left.
. "${0%/*}/support/program.sh"

one=3f800000
npy x.npy '<f4' '2,' $one $one
npy long.npy '<f4' '3,' $one $one $one
npy lhs.npy '<f4' '2,' $one $one
npy rhs.npy '<f4' '3,' $one $one $one
npy dy.npy '<f4' '2, 3' $one $one $one $one $one $one
npy turned.npy '<f4' '3, 2' $one $one $one $one $one $one
npy half.npy '<f2' '2,' 3c00 3c00
npy double.npy '<f8' '2,' 3ff0000000000000 3ff0000000000000
npy integer.npy '<i4' '2,' 00000001 00000001
npy empty.npy '<f4' '0,'
npy scalar.npy '<f4' '' $one
npy short.npy '<f4' '2,' $one
npy object.npy '|O' '1,' $one
printf 'not an array at all' >text.npy
: >nothing.npy
mkdir folder folder.npy

# Inputs.
fails 1 'exp: x: .*none.npy' run exp none.npy -o y.npy
fails 1 'mul: b: .*none.npy' run mul x.npy none.npy -o y.npy
for file in text.npy nothing.npy short.npy object.npy folder; do
  fails 1 "exp: x: .*$file" run exp $file -o y.npy
done
fails 1 'exp.*empty.npy' run exp empty.npy -o y.npy
fails 1 'exp.*f64.*double.npy' run exp double.npy -o y.npy
fails 1 'exp.*i32.*integer.npy' run exp integer.npy -o y.npy

# Shapes and dtypes.
fails 1 'mul.*b.*\[3\].*\[2\].*long.npy' run mul x.npy long.npy -o y.npy
fails 1 'mul.*f16.*half.npy' run mul x.npy half.npy -o y.npy
fails 1 'exp_backward.*long.npy' run exp_backward x.npy long.npy -o dx.npy
fails 1 'outer_product_backward_lhs.*turned.npy' run outer_product_backward_lhs turned.npy rhs.npy -o dlhs.npy
fails 1 'outer_product_backward.*\[3\]' run outer_product_backward dy.npy rhs.npy lhs.npy -o dlhs.npy drhs.npy
fails 1 'outer_product.*scalar.npy' run outer_product scalar.npy rhs.npy -o y.npy

# Accumulating into what is not there or does not fit.
fails 1 'outer_product_backward_lhs: dlhs: .*none.npy' \
  run outer_product_backward_lhs dy.npy rhs.npy -o none.npy --accumulate
fails 1 'outer_product_backward_lhs.*dlhs.*\[3\]' \
  run outer_product_backward_lhs dy.npy rhs.npy -o long.npy --accumulate

# Tensors.
succeeds - run exp x.npy -o m.safetensors:a
succeeds - run exp x.npy -o m.safetensors:b
fails 1 'exp: x: .*m.safetensors.*' run exp m.safetensors -o y.npy
fails 1 'exp: x: .*m.safetensors.*none' run exp m.safetensors:none -o y.npy
fails 1 'exp: x: .*none.safetensors' run exp none.safetensors:a -o y.npy
printf '\377\377\377\377\377\377\377\177{}' >bad.safetensors
fails 1 'exp: x: .*bad.safetensors' run exp bad.safetensors:a -o y.npy
fails 1 'exp: .*bad.safetensors' run exp x.npy -o bad.safetensors:y

# Outputs.
fails 1 'exp: .*none/y.npy' run exp x.npy -o none/y.npy
fails 1 'exp: .*folder.npy' run exp x.npy -o folder.npy
fails 1 "'d.npy' is named twice" run outer_product_backward dy.npy lhs.npy rhs.npy -o d.npy d.npy
fails 1 "'d.safetensors:d' is named twice" \
  run outer_product_backward dy.npy lhs.npy rhs.npy -o d.safetensors:d d.safetensors:d
fails 1 'd.npy' run outer_product_backward dy.npy lhs.npy rhs.npy -o d.npy ./d.npy
fails 1 'outer_product_backward: .*none/d.npy' run outer_product_backward dy.npy lhs.npy rhs.npy -o d.npy none/d.npy
chmod a-w folder
if ! (: >folder/probe) 2>/dev/null; then # root writes everywhere
  fails 1 'folder/y.npy' run exp x.npy -o folder/y.npy
fi

# Devices.
fails 1 'abacus' run exp x.npy -o y.npy --device abacus

conclude
