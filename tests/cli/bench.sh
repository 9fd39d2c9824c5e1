#!/bin/sh
# mlxn bench at small sizes: the table, JSON and picture. The figures themselves are not judged.
. "${0%/*}/support/program.sh"

succeeds '^exp +f32 +8192 +64 KiB +[0-9.]+ us +[0-9.]+ +copy +[0-9.]+ +[0-9.]+$' bench exp --dtype f32 --size 64K --reps 3
succeeds '^outer_product +f32 +128x128 .* fill ' bench outer_product --dtype f32 --size 64K --reps 3
grep -qE '^outer_product +f32 +4x4096 ' .out || complain 'no narrow shape'
succeeds '^outer_product_backward +bf16 +32x2048 .* read ' \
  bench outer_product_backward --dtype bf16 --shape 32x2048 --reps 3
grep -qE 'one pass .* separate gradients .* times as fast$' .out || complain 'one pass is not compared with two'
succeeds '^exp_backward +f16 .* triad ' bench exp_backward --dtype f16 --size 64K --reps 2
succeeds '^exp +f32 +64 elements: encode, commit and wait [0-9.]+ us; encode and commit of 1000 dispatches [0-9.]+ us each; replay [0-9.]+ us each$' \
  bench --overhead --dtype f32 --reps 3

# A gradient stands beside a read at every shape, narrow ones too.
succeeds '^outer_product_backward_lhs +f32 +4096x4 .* read ' bench outer_product_backward_lhs --dtype f32 --shape 4096x4 --reps 2

# On a device that runs source code the loops are kernels of the program's own.
for device in $(others); do
  succeeds '^mul +f16 +.* triad +[0-9.]+ +[0-9.]+$' bench mul outer_product_backward_lhs --dtype f16 --size 64K --reps 2 \
    --device "$device" --json device.json
  grep -qE '^outer_product_backward_lhs +f16 .* read +[0-9.]+ +[0-9.]+$' .out || complain "no gradient on $device"
  grep -q "\"name\": \"$device\"" device.json || complain "device.json does not name $device"
  succeeds ' 64 elements: .* us each$' bench mul --overhead --dtype f32 --reps 1 --device "$device"
done

# JSON: every row of the table.
succeeds ulp check exp --dtype f32
succeeds '^exp ' bench exp mul --size 64K,16K --reps 3 --json r.json
for key in op dtype shape bytes seconds gb_per_s limit limit_gb_per_s ratio; do
  looked_at=$((looked_at + 1))
  [ "$(grep -c "\"$key\":" r.json)" -eq 12 ] || complain "r.json has not 12 times $key"
done
for last in "\"threads\":" "\"name\": \"cpu\""; do
  grep -q "$last" r.json || complain "r.json says nothing of $last"
done

# The picture, where gnuplot is; without it, an error before any work.
if command -v gnuplot >/dev/null; then
  succeeds '^exp ' bench exp exp_backward --dtype f32 --size 16K,64K --reps 3 --plot p.svg
  grep -q '<svg' p.svg && grep -q '</svg>' p.svg && grep -q exp_backward p.svg || complain 'p.svg is no such picture'
  fails 1 'none/p.svg' bench exp --plot none/p.svg
fi
fails 1 'none/r.json' bench exp --json none/r.json
mkdir folder
fails 1 'folder' bench exp --size 16K --dtype f32 --reps 1 --json folder/
[ -z "$(find . -name '*.tmp-*')" ] || complain 'a temporary file is left'
PATH=/nowhere
export PATH
code=0
"$program" bench exp --plot q.svg >.out 2>.err || code=$?
PATH=/usr/local/bin:/usr/bin:/bin
[ "$code" -eq 1 ] && grep -q 'gnuplot' .err && [ ! -s .out ] && [ ! -e q.svg ] || complain 'no gnuplot, no error'

fails 1 'memory at hand' bench exp --size 100000G

conclude
