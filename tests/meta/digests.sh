#!/bin/sh
# The digests that docs/numerics.md publishes are those that `mlxn check` prints.
. "${0%/*}/common.sh"
scratch

"$MLXN_BUILD/mlxn" check --device cpu >"$folder/check" || complain "mlxn check fails"
. tests/cli/support/published.sh
published docs/numerics.md >"$folder/published"
digests "$folder/check" >"$folder/printed"
count=0
while read -r op dtype digest shapes; do
  line=$(grep "^$op $dtype " "$folder/printed")
  [ "$line" = "$op $dtype $digest $shapes" ] || complain "published '$op $dtype $digest $shapes', printed '$line'"
  count=$((count + 1))
done <"$folder/published"
[ "$count" -eq "$(wc -l <"$folder/printed")" ] || complain "mlxn check prints other rows than docs/numerics.md publishes"

conclude "$count" digests
