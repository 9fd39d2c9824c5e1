# What the checks of the source tree share. The test runner sets MLXN_SOURCE, MLXN_BUILD, CC and CXX.
set -eu
: "${MLXN_SOURCE:?}" "${MLXN_BUILD:?}"
cd "$MLXN_SOURCE"

failures=0
complain() {
  echo "$*" >&2
  failures=$((failures + 1))
}
# Ends a check: fails if anything was complained of, or if nothing was looked at.
conclude() { # COUNT WHAT
  echo "$1 $2 looked at, $failures complaints"
  [ "$1" -gt 0 ] && [ "$failures" -eq 0 ]
}

# The text of C files without comments and blank lines, each line as FILE:NUMBER:TEXT.
without_comments() { # FILE...
  awk 'FNR == 1 { inside = 0 }
  {
    line = $0; out = ""
    while (line != "") {
      if (inside) {
        end = index(line, "*/")
        if (!end) { line = ""; break }
        line = substr(line, end + 2); inside = 0
      } else {
        begin = index(line, "/*")
        if (!begin) { out = out line; line = ""; break }
        out = out substr(line, 1, begin - 1) " "
        line = substr(line, begin + 2); inside = 1
      }
    }
    sub(/\/\/.*/, "", out)
    if (out ~ /[^ \t]/) { print FILENAME ":" FNR ":" out }
  }' "$@"
}

# The elementwise ops, by the lines of the op table.
elementwise_ops() {
  sed -n 's/^\(UNARY\|BINARY\)(\([a-z0-9_]*\),.*/\2/p' src/ops/ops.def
}

# Runs a command, and shows what it said only if it fails; that ends the check.
quietly() {
  "$@" >"$folder/log" 2>&1 || {
    tail -n 40 "$folder/log" >&2
    echo "failed: $*" >&2
    exit 1
  }
}

scratch() {
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
}
