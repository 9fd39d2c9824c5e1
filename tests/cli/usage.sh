#!/bin/sh
# Help, version, and everything that is wrong with a command line: exit 2, one line.
. "${0%/*}/support/program.sh"

succeeds '^mlxn [0-9]+\.[0-9]+\.[0-9]+$' --version
succeeds '^mlxn [0-9]+\.[0-9]+\.[0-9]+$' -V
succeeds '^Usage: mlxn VERB' --help
for verb in devices ops run check bench; do
  succeeds "^Usage: mlxn $verb" "$verb" --help
  succeeds "^Usage: mlxn $verb" "$verb" -h
  succeeds "^  $verb " --help
done
succeeds '--exhaustive' check --help

fails 2 'no verb given'
fails 2 "unknown verb 'fly'" fly
fails 2 "unknown option '--fly'" --fly
fails 2 "unknown option '-z'" run -z
fails 2 "devices takes no argument 'cpu'" devices cpu
fails 2 'devices does not take --json' devices --json out.json
fails 2 '--version' run --version
fails 2 '--json needs a value' bench --json
fails 2 '--json needs a value' bench --json --plot
fails 2 '--json needs a value' bench --json=
fails 2 '--exhaustive takes no value' check --exhaustive=yes
for threads in 0 -1 x 1x 99999999999999999999 ''; do
  fails 2 '--threads' check --threads "$threads"
done
for dtype in f64 u8 float F32; do
  fails 2 "--dtype: bad value '$dtype'" check --dtype "$dtype"
done
for size in 0 K 1Q '1K,' ',1K' 99999999G; do
  fails 2 '--size: bad value' bench --size "$size"
done
for shape in 3 3x x3 0x3 3x0 3x3x3 1099511627776x1099511627776; do
  fails 2 '--shape: bad value' bench --shape "$shape"
done
fails 2 '--reps' bench --reps 0
fails 2 'exclude each other' bench --size 1K --shape 3x3
fails 2 'nothing to plot' bench --overhead --plot out.svg
for verb in ops check bench; do
  fails 2 "unknown op 'exq'" "$verb" exp exq
done

fails 2 'no op given' run
fails 2 "unknown op 'exq'" run exq x.npy -o y.npy
fails 2 'exp takes 1 input \(x\), got 0' run exp -o y.npy
fails 2 'exp takes 1 input \(x\), got 2' run exp x.npy x.npy -o y.npy
fails 2 'exp gives 1 output \(y\), got 0' run exp x.npy
fails 2 'exp gives 1 output \(y\), got 2' run exp x.npy -o y.npy z.npy
fails 2 'got 1 after -o' run outer_product_backward dy.npy lhs.npy rhs.npy -o dlhs.npy
fails 2 '--output needs a value' run exp x.npy -o
fails 2 "exp: output 'y.txt' must end in .npy or .safetensors" run exp x.npy -o y.txt
fails 2 'names no tensor' run exp x.npy -o y.safetensors:
fails 2 'exp does not accumulate' run exp x.npy -o y.npy --accumulate

# A name cannot break the one line, and a closed output is noticed.
fails 2 "unknown verb 'a\?b'" 'a
b'
looked_at=$((looked_at + 1))
if [ -e /dev/full ]; then
  code=0
  "$program" ops >/dev/full 2>.err || code=$?
  [ "$code" -eq 1 ] && grep -q 'standard output' .err || complain "a full standard output gave exit $code"
fi

conclude
