#!/bin/sh
# mlxn devices and mlxn ops.
. "${0%/*}/support/program.sh"

succeeds '^\* cpu +.+\(.+ threads?\)$' devices
[ "$(grep -c '^\*' .out)" -eq 1 ] || complain 'not one default device'
MLXN_MAX_ISA=nonsense
export MLXN_MAX_ISA
fails 1 'MLXN_MAX_ISA|nonsense' check exp
unset MLXN_MAX_ISA
fails 1 'abacus' check exp --device abacus
MLXN_DEVICE=abacus
fails 1 'abacus' check exp
MLXN_DEVICE=cpu

# Every op of the table is listed with its formula, its arguments and its gradient.
succeeds '^exp$' ops
for op in $(sed -n 's/^\(UNARY\|BINARY\)(\([a-z0-9_]*\),.*/\2/p' "$here/../../src/ops/ops.def") outer_product; do
  for name in "$op" "${op}_backward"; do
    looked_at=$((looked_at + 1))
    grep -q "^$name\$" .out || complain "ops does not list $name"
  done
done
grep -q 'arguments  dy\[...,N,M\] lhs\[...,N\] rhs\[...,M\] -> dlhs\[...,N\] drhs\[...,M\]$' .out ||
  complain 'ops does not show the arguments of outer_product_backward'
succeeds 'gradient of exp' ops exp_backward
[ "$(grep -c '^[a-z]' .out)" -eq 1 ] || complain 'ops exp_backward lists others'

conclude
