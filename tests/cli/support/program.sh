# What the tests of the program share. Sourced with the program's path as $1; runs in a folder of its own.
set -eu
program=$1
here=$(cd "${0%/*}" && pwd)
case $program in /*) ;; *) program=$PWD/$program ;; esac
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
unset MLXN_MAX_ISA
MLXN_DEVICE=cpu # the best device is another on each machine; tests of others name them
export MLXN_DEVICE
failures=0
looked_at=0

complain() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

conclude() {
  echo "$looked_at cases, $failures failed"
  [ "$looked_at" -gt 0 ] && [ "$failures" -eq 0 ]
}

# succeeds PATTERN WORD...: exit 0, nothing on stderr, a line of stdout that matches (- for no output at all).
succeeds() {
  pattern=$1
  shift
  looked_at=$((looked_at + 1))
  code=0
  "$program" "$@" >"$folder/.out" 2>"$folder/.err" || code=$?
  [ "$code" -eq 0 ] || complain "mlxn $*: exit $code: $(cat "$folder/.err")"
  [ ! -s "$folder/.err" ] || complain "mlxn $*: said on stderr: $(cat "$folder/.err")"
  if [ "$pattern" = - ]; then
    [ ! -s "$folder/.out" ] || complain "mlxn $*: said: $(cat "$folder/.out")"
  else
    grep -qE -- "$pattern" "$folder/.out" || complain "mlxn $*: no line of stdout matches: $pattern"
  fi
}

# fails CODE PATTERN WORD...: the exit code, exactly one line on stderr that matches, nothing on stdout, and no
# file made or changed.
fails() {
  expected=$1 pattern=$2
  shift 2
  looked_at=$((looked_at + 1))
  code=0
  before=$(listing)
  "$program" "$@" >"$folder/.out" 2>"$folder/.err" || code=$?
  [ "$code" -eq "$expected" ] || complain "mlxn $*: exit $code, expected $expected"
  [ "$(wc -l <"$folder/.err")" -eq 1 ] || complain "mlxn $*: not one line on stderr: $(cat "$folder/.err")"
  grep -qE -- "^mlxn: .*$pattern" "$folder/.err" ||
    complain "mlxn $*: '$(cat "$folder/.err")' does not match: $pattern"
  [ ! -s "$folder/.out" ] || complain "mlxn $*: said on stdout: $(cat "$folder/.out")"
  [ "$before" = "$(listing)" ] || complain "mlxn $*: left or changed a file"
}

listing() {
  find . -type f ! -path ./.out ! -path ./.err -exec cksum {} + | sort
}

# The devices besides the CPU that can be used here, one a line. Their compiled kernels are kept for all tests.
MLXN_CACHE_DIR=${MLXN_CACHE_DIR:-${program%/*}/kernels}
export MLXN_CACHE_DIR
others() {
  "$program" devices | sed -n '/ absent: /d; s/^[* ] \([a-z]*:[0-9]*\) .*/\1/p'
}

. "$here/support/published.sh"

# npy FILE DESCR SHAPE WORD...: a .npy file whose data are the words, hexadecimal numbers of the element's width,
# little-endian. "npy x.npy '<f4' '2,' 3f800000 00000000" holds 1 and 0.
npy() {
  target=$1 descr=$2 shape=$3
  shift 3
  {
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '$descr', 'fortran_order': False, 'shape': ($shape), }"
    for word; do
      while [ -n "$word" ]; do
        rest=${word%??}
        # shellcheck disable=SC2059 # the format is the byte
        printf "\\$(printf %03o "0x${word#"$rest"}")"
        word=$rest
      done
    done
  } >"$target"
}

# holds FILE WIDTH WORD...: the elements of a .npy file, as npy takes them.
holds() {
  file=$1 width=$2
  shift 2
  looked_at=$((looked_at + 1))
  found=$(od -An -v -j 128 -t "x$width" "$file" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//')
  [ "$found" = "$*" ] || complain "$file holds $found, expected $*"
}
