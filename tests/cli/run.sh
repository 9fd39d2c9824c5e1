#!/bin/sh
# mlxn run on files: results to the bit.
. "${0%/*}/support/program.sh"

one=3f800000 two=40000000 three=40400000 four=40800000 six=40c00000 half=3f000000
e=402df854 # e^1

# exp and its gradient, in one and two dimensions, and as a scalar.
npy x.npy '<f4' '2,' 00000000 $one
succeeds - run exp x.npy -o y.npy
holds y.npy 4 $one $e
npy dy.npy '<f4' '2,' $two $half
succeeds - run exp_backward y.npy dy.npy -o dx.npy
holds dx.npy 4 $two 3fadf854
npy x2.npy '<f4' '1, 2' $one 00000000
succeeds - run exp x2.npy -o y2.npy --threads 2 --device cpu
holds y2.npy 4 $e $one
grep -aq "'shape': (1, 2)" y2.npy || complain 'y2.npy has lost its shape'
npy x0.npy '<f4' '' $one
succeeds - run exp x0.npy -o y0.npy
holds y0.npy 4 $e

# The outer product and its gradients.
npy lhs.npy '<f4' '2,' $one $two
npy rhs.npy '<f4' '3,' $one $two $three
succeeds - run outer_product lhs.npy rhs.npy -o o.npy
holds o.npy 4 $one $two $three $two $four $six
grep -aq "'shape': (2, 3)" o.npy || complain 'o.npy has another shape'
npy g.npy '<f4' '2, 3' $one $one $one $two $two $two
succeeds - run outer_product_backward_lhs g.npy rhs.npy -o dlhs.npy
holds dlhs.npy 4 $six 41400000
succeeds - run outer_product_backward_rhs g.npy lhs.npy -o drhs.npy
holds drhs.npy 4 40a00000 40a00000 40a00000
succeeds - run outer_product_backward g.npy lhs.npy rhs.npy -o both_lhs.npy both_rhs.npy
cmp -s dlhs.npy both_lhs.npy && cmp -s drhs.npy both_rhs.npy || complain 'one pass and two differ'

# The output may be an input, in any place.
cp x.npy same.npy
succeeds - run exp same.npy -o same.npy
cmp -s same.npy y.npy || complain 'an output over its input differs'
cp lhs.npy l.npy
cp rhs.npy r.npy
succeeds - run outer_product_backward g.npy l.npy r.npy -o r.npy l.npy
cmp -s dlhs.npy r.npy && cmp -s drhs.npy l.npy || complain 'outputs over swapped inputs differ'

# Accumulate adds to what is there.
cp dlhs.npy acc.npy
succeeds - run outer_product_backward_lhs g.npy rhs.npy -o acc.npy --accumulate
holds acc.npy 4 41400000 41c00000

# Other dtypes: as they are, and converted with one rounding.
npy h.npy '<f2' '2,' 0000 3c00
succeeds - run exp h.npy -o hy.npy
holds hy.npy 2 3c00 4170
npy d.npy '<f8' '3,' 0000000000000000 3ff0000000000000 3ff0000010000001
succeeds - run exp d.npy --dtype f32 -o dy32.npy
holds dy32.npy 4 $one $e 402df856
npy i.npy '<i8' '2,' 0000000000000001 0000000000000000
succeeds - run exp i.npy --dtype f16 -o iy.npy
holds iy.npy 2 4170 3c00
succeeds - run exp i.npy --dtype bf16 -o ib.npy
holds ib.npy 2 402e 3f80
# 2^53 + 2^29 + 1 is above the tie between two f32 numbers, though not so as a float64.
npy big.npy '<i8' '1,' 0020000020000001
npy one.npy '<f4' '1,' $one
succeeds - run mul big.npy one.npy --dtype f32 -o bigf.npy
holds bigf.npy 4 5a000001

# .safetensors: a tensor by name, one file for two outputs, other tensors kept.
succeeds - run outer_product lhs.npy rhs.npy -o m.safetensors:o
succeeds - run exp x.npy -o m.safetensors:y
succeeds - run outer_product_backward m.safetensors:o lhs.npy rhs.npy -o m.safetensors:dlhs m.safetensors:drhs
succeeds - run exp m.safetensors:o -o m.safetensors:o
succeeds - run exp o.npy -o eo.npy
succeeds - run mul m.safetensors:o m.safetensors:o -o sq1.npy
succeeds - run mul eo.npy eo.npy -o sq2.npy
cmp -s sq1.npy sq2.npy || complain 'a tensor read back differs'
for tensor in o y dlhs drhs; do
  grep -aq "\"$tensor\"" m.safetensors || complain "m.safetensors has lost $tensor"
done
succeeds - run exp x.npy -o single.safetensors
succeeds - run mul single.safetensors single.safetensors -o named.safetensors
grep -aq '"y"' named.safetensors || complain 'the output tensor is not called like the argument'

# Files whose names begin with a dash.
npy ./-x.npy '<f4' '1,' $one
succeeds - run exp ./-x.npy -o./-y.npy
holds ./-y.npy 4 $e

conclude
