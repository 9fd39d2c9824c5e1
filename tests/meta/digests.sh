#!/bin/sh
# The digests that docs/numerics.md publishes are those that `mlxn check` prints, on every instruction set here.
. "${0%/*}/common.sh"
scratch

case $(uname -m) in
  x86_64) sets="baseline avx2 avx512" ;;
  *) sets=neon ;;
esac
count=0
for set in $sets; do
  MLXN_MAX_ISA=$set "$MLXN_BUILD/mlxn" check --device cpu >"$folder/$set" || complain "mlxn check fails with $set"
  # Rows of the table: | `op` | f32's | f16's | bf16's |
  awk '/^## Digests/ { inside = 1 } inside && /^\| `/ {
      gsub(/[|`]/, " "); print $1, "f32", $2; print $1, "f16", $3; print $1, "bf16", $4
    }' docs/numerics.md >"$folder/published"
  while read -r op dtype digest; do
    printed=$(awk -v op="$op" -v dtype="$dtype" '$1 == op && $2 == dtype && length($NF) == 32 { print $NF }' "$folder/$set")
    [ "$printed" = "$digest" ] || complain "$set: $op $dtype is '$printed', published as $digest"
    count=$((count + 1))
  done <"$folder/published"
done

conclude "$count" digests
