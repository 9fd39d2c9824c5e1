#!/bin/sh
# Every C program in the README and the guides compiles as it stands, and runs.
. "${0%/*}/common.sh"
scratch

count=0
for document in README.md docs/*.md; do
  # A block ```c that has a main() is a program.
  awk -v folder="$folder" -v name="$(basename "$document" .md)" '
    /^```c$/ { inside = 1; text = ""; next }
    /^```$/ {
      if (inside && text ~ /int main\(/) { print text > (folder "/" name "-" ++n ".c") }
      inside = 0; next
    }
    inside { text = text $0 "\n" }' "$document"
done
for program in "$folder"/*.c; do
  [ -e "$program" ] || break
  name=$(basename "$program" .c)
  if "$CC" -std=c17 -pedantic -Wall -Wextra -Werror -Iinclude "$program" -L"$MLXN_BUILD" -lmlxn-io -lmlxn \
    -Wl,-rpath,"$MLXN_BUILD" -lm -o "$folder/$name"; then
    (cd "$folder" && "./$name") || complain "the program of $name fails"
  else
    complain "the program of $name does not compile"
  fi
  count=$((count + 1))
done
[ -e "$folder/README-1" ] || complain "README.md has no program"

conclude "$count" programs
