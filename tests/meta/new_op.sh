#!/bin/sh
# Adding an elementwise op is one line: add one to a copy of the tree, build the program there, and let it check
# the op, on every device that is here and with the same bits; then call it from C.
. "${0%/*}/common.sh"
. tests/cli/support/published.sh
scratch

cp -R CMakeLists.txt cmake include src tools docs "$folder"
mkdir -p "$folder/tests/elementary"
cp tests/elementary/digests.h "$folder/tests/elementary"
cat >>"$folder/src/ops/ops.def" <<'END'

UNARY(square, mul(x, x), x, mul(dy, add(x, x)), "x * x", "dy * (x + x)")
SPECIAL(square, ROW1(P0, P0), ROW1(N0, P0), ROW1(NINF, PINF), ROW1(QNAN, QNAN), ROW1(NONE, ONE), ROW1(MAX, PINF))
SPECIAL(square_backward, ROW2(P0, PINF, QNAN), ROW2(HALF, NONE, NONE), ROW2(MAX, ONE, PINF), ROW2(QNAN, ONE, QNAN))
END

quietly cmake -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 \
  -DCMAKE_C_COMPILER="$CC" -DMLXN_WERROR=ON -DMLXN_BUILD_TESTS=OFF -DMLXN_BUILD_EXAMPLES=OFF
quietly cmake --build "$folder/build" --target generate
quietly cmake --build "$folder/build" --target mlxn_program mlxn_shared

"$folder/build/mlxn" ops | grep square || complain "mlxn ops does not list it"
for op in square square_backward; do
  "$folder/build/mlxn" check "$op" --device cpu || complain "mlxn check $op fails"
done
digests_on() { # DEVICE
  "$folder/build/mlxn" check square square_backward --quick --device "$1" >"$folder/said" ||
    complain "mlxn check fails on $1: $(cat "$folder/said")"
  digests "$folder/said"
}
digests_on cpu >"$folder/cpu"
[ "$(wc -l <"$folder/cpu")" -eq 6 ] || complain "not a row of digests for each of two ops in three dtypes"
for device in $("$folder/build/mlxn" devices | sed -n '/ absent: /d; s/^[* ] \([a-z]*:[0-9]*\) .*/\1/p'); do
  digests_on "$device" >"$folder/others"
  cmp -s "$folder/cpu" "$folder/others" || complain "other bits on $device"
  echo "checked on $device"
done
grep -qF 'mlxn_square_backward(' "$folder/include/mlxn/mlxn.h" || complain "the header lacks its prototypes"
grep -qF 'square x' "$folder/docs/ops.md" || complain "the documentation's table lacks it"

sed 's/mlxn_exp(/mlxn_square(/' tests/meta/outside/main.c >"$folder/main.c"
"$CC" -I"$folder/include" "$folder/main.c" -L"$folder/build" -lmlxn -Wl,-rpath,"$folder/build" -o "$folder/main"
answer=$("$folder/main")
case $answer in *": 0 1 4") ;; *) complain "from C it gives: $answer" ;; esac

# A gradient that is wrong is found: the check is no formality.
sed -i 's/mul(dy, add(x, x))/mul(dy, x)/' "$folder/src/ops/ops.def"
quietly cmake --build "$folder/build" --target mlxn_program
if "$folder/build/mlxn" check square_backward >/dev/null 2>&1; then
  complain "a wrong gradient passes the check"
fi

conclude 1 "added op"
