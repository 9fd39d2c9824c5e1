#!/bin/sh
# An elementwise op is declared in the op table alone. Nothing else that is written by hand, in the library or in the
# program, names it as an op, but for the folder of elementary functions.
. "${0%/*}/common.sh"

scratch

sed '/BEGIN elementwise ops/,/END elementwise ops/d' include/mlxn/mlxn.h >"$folder/mlxn.h"
files=$(find src include tools -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.inc' \) ! -path include/mlxn/mlxn.h)
# shellcheck disable=SC2086 # file names are words
without_comments $files "$folder/mlxn.h" >"$folder/all"

count=0
for op in $(elementwise_ops); do
  # As an op: its functions, kernels, gradient, or its name as a text. An elementary function's bare name, too; names
  # of IEEE operations (mul, sqrt) are the vocabulary of every kernel.
  names="\\bmlxn_${op}(_backward)?\\b|\\b${op}_backward\\b|\\b${op}(_backward)?_(f32|f16|bf16)\\b|\"${op}\""
  if grep -q "ELEMENTARY($op," src/ops/ops.def; then
    names="$names|\\b${op}\\b"
  fi
  grep -E "^[^:]*:[0-9]*:.*($names)" "$folder/all" | grep -v '^src/kernels/elementary/' >"$folder/found" || true

  grep -v '^src/ops/ops.def:' "$folder/found" >&2 && complain "these lines name the op $op"
  # The line itself, and the special values of the op and of its gradient.
  declared=$(grep -cE "^src/ops/ops.def:[0-9]*:(UNARY|BINARY|SPECIAL)\\($op(_backward)?," "$folder/all")
  [ "$declared" -eq 3 ] || complain "src/ops/ops.def declares $op on $declared lines"
  count=$((count + 1))
done

conclude "$count" ops
