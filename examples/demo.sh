#!/bin/sh
# The main job on real data: exp, the outer product and their gradients, run by the program and verified.
#
#     examples/demo.sh [BUILD_FOLDER]     (`make demo` builds first; $MLXN may name the program instead)
#
# The verifying program is compiled here, from one file that uses nothing of mlxn.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mlxn=${MLXN:-${1:-$here/../build}/mlxn}
data=$here/data
out=$(mktemp -d "${TMPDIR:-/tmp}/mlxn-demo.XXXXXX")

if [ ! -x "$mlxn" ]; then
    echo "demo: $mlxn is not there; build it first (make)" >&2
    exit 1
fi

echo "mlxn demo: 61 years of monthly sea surface temperature (NOAA, El Nino region 1+2)"
echo
"$mlxn" devices
echo

# Runs an op and shows how; $1 says what for.
run() {
    echo "$1"
    shift
    echo "  \$ mlxn run $*" | sed "s|$data/||g; s|$out/||g"
    "$mlxn" run "$@"
}
run "Vapour pressure over that sea, y = e^x:" \
    exp "$data/vapour_exponent.npy" -o "$out/vapour.npy"
run "its gradient, dx = dy * y:" \
    exp_backward "$out/vapour.npy" "$data/misfit.npy" -o "$out/dexponent.npy"
run "A rank-one model of the temperatures, level (x) season:" \
    outer_product "$data/level.npy" "$data/season.npy" -o "$out/model.npy"
run "its squared error's gradient, one input at a time:" \
    outer_product_backward_lhs "$data/misfit.npy" "$data/season.npy" -o "$out/dlevel.npy"
run "and" \
    outer_product_backward_rhs "$data/misfit.npy" "$data/level.npy" -o "$out/dseason.npy"
run "both in one pass over the data:" \
    outer_product_backward "$data/misfit.npy" "$data/level.npy" "$data/season.npy" \
    -o "$out/dlevel_one_pass.npy" "$out/dseason_one_pass.npy"

echo
echo "Verified in float64 by a program that shares nothing with mlxn:"
${CC:-cc} -std=c17 -O1 -ffp-contract=off "$here/demo_verify.c" -lm -o "$out/demo_verify"
"$out/demo_verify" "$data" "$out"
for gradient in dlevel dseason; do
    cmp "$out/$gradient.npy" "$out/${gradient}_one_pass.npy"
done
echo "  one pass and separate passes: the files are equal byte for byte                    ok"

echo
echo "The numeric contract on this machine (mlxn check):"
"$mlxn" check exp exp_backward outer_product outer_product_backward_lhs outer_product_backward_rhs \
    outer_product_backward >"$out/check.txt" || { cat "$out/check.txt"; exit 1; }
tail -n 1 "$out/check.txt" | sed 's/^/  /'

echo
echo "demo: all verified; the results and check.txt are in $out"
