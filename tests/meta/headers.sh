#!/bin/sh
# Each public header compiles alone, as strict C and as C++, old and new.
. "${0%/*}/common.sh"

count=0
compile() { # COMPILER LANGUAGE STANDARD HEADER
  printf '#include "%s"\n#include "%s"\n' "$4" "$4" |
    "$1" -x "$2" -std="$3" -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only - || complain "$4 is not $3"
  count=$((count + 1))
}
for header in include/mlxn/*.h; do
  name=${header#include/}
  compile "$CC" c c17 "$name"
  compile "$CC" c c11 "$name"
  compile "$CXX" c++ c++11 "$name"
  compile "$CXX" c++ c++17 "$name"
done

conclude "$count" compilations
