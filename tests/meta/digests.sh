#!/bin/sh
# The digests that docs/numerics.md publishes are those that `mlxn check` prints.
. "${0%/*}/common.sh"
scratch

"$MLXN_BUILD/mlxn" check --device cpu >"$folder/check" || complain "mlxn check fails"
# Rows of the table: | `op` | f32's | f16's | bf16's |
awk '/^## Digests/ { inside = 1 } inside && /^\| `/ {
    gsub(/[|`]/, " "); print $1, "f32", $2; print $1, "f16", $3; print $1, "bf16", $4
  }' docs/numerics.md >"$folder/published"
count=0
while read -r op dtype digest; do
  printed=$(awk -v op="$op" -v dtype="$dtype" '$1 == op && $2 == dtype && length($NF) == 32 { print $NF }' "$folder/check")
  [ "$printed" = "$digest" ] || complain "$op $dtype is '$printed', published as $digest"
  count=$((count + 1))
done <"$folder/published"

conclude "$count" digests
