#!/bin/sh
# An elementwise op is declared in the op table alone. Nothing else that is written by hand, in the library or in the
# program, names it as an op, but for the folder of elementary functions.
. "${0%/*}/common.sh"

files=$(find src include tools -type f -name '*.[ch]' -o -type f -name '*.def' -path 'src/*' -o -type f -name '*.inc')
count=0
for op in $(elementwise_ops); do
  # As an op: its functions, kernels, gradient, or its name as a text. An elementary function's bare name, too; names
  # of IEEE operations (mul, sqrt) are the vocabulary of every kernel.
  pattern="\\bmlxn_${op}(_backward)?\\b|\\b${op}_backward\\b|\\b${op}(_backward)?_(f32|f16|bf16)\\b|\"${op}\""
  if grep -q "ELEMENTARY($op," src/ops/ops.def; then
    pattern="$pattern|\\b${op}\\b"
  fi
  declared=0
  for file in $files; do
    case $file in src/kernels/elementary/*) continue ;; esac
    found=$(without_comments "$file" | grep -cE "$pattern" || true)
    [ "$found" -gt 0 ] || continue
    case $file in
      src/ops/ops.def) declared=$found ;;
      include/mlxn/mlxn.h)
        outside=$(sed '/BEGIN elementwise ops/,/END elementwise ops/d' "$file" | without_comments | grep -nE "$pattern") &&
          complain "$file, outside of the generated block, names the op $op: $outside"
        ;;
      *)
        complain "$file names the op $op:"
        without_comments "$file" | grep -nE "$pattern" >&2
        ;;
    esac
  done
  # The line itself, and the special values of the op and of its gradient.
  grep -qE "^(UNARY|BINARY)\\($op," src/ops/ops.def || complain "$op has no line"
  [ "$declared" -le 3 ] || complain "src/ops/ops.def names $op on $declared lines"
  count=$((count + 1))
done

conclude "$count" ops
