#!/bin/sh
# Files stay small enough to read at a sitting, and say nothing of work left undone.
. "${0%/*}/common.sh"

files=$(find src include tools tests examples fuzz bench scripts cmake docs -type f \
  \( -name '*.[ch]' -o -name '*.def' -o -name '*.inc' -o -name '*.sh' -o -name '*.py' -o -name '*.md' -o -name '*.cmake' \) |
  grep -vE '/data/|/corpus/|/digests\.(h|inc)$')
count=0
for file in $files; do
  lines=$(wc -l <"$file")
  [ "$lines" -lt 700 ] || complain "$file has $lines lines; the limit is 700"
  count=$((count + 1))
done

for file in $files README.md CONTRIBUTING.md Makefile CMakeLists.txt .ci/run; do
  [ "$file" != tests/meta/sources.sh ] || continue
  grep -nwiE 'TODO|FIXME|XXX|HACK|not (yet )?implemented|placeholder|for now' "$file" /dev/null >&2 &&
    complain "$file speaks of work left undone"
done

# Macro bodies over many lines hide code from the debugger and from the reader.
for file in $(echo "$files" | grep '\.[ch]$'); do
  awk -v file="$file" '
    /^[ \t]*#[ \t]*define/ { begin = NR }
    /\\$/ { run++; next }
    { if (run > 16) { print file ":" begin ": a macro of " run + 1 " lines"; bad = 1 } run = 0 }
    END { exit bad }' "$file" >&2 || complain "$file has a macro that should be a function or a template file"
done

# Not every driver's compiler takes more.
for file in $(find src/kernels/gpu -type f); do
  LC_ALL=C grep -n '[^ -~]' "$file" /dev/null >&2 &&
    complain "$file is embedded as kernel text and has something else than printable ASCII"
done

conclude "$count" files
