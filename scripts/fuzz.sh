#!/bin/sh
# Runs every libFuzzer target of a build folder for a while, from its corpus. New inputs are kept out of the tree.
#
#     scripts/fuzz.sh BUILD_FOLDER SECONDS
set -eu
for target in "$1"/fuzz/fuzz_*; do
  [ -f "$target" ] && [ -x "$target" ] || continue
  name=$(basename "$target" | sed 's/^fuzz_//')
  found=$1/corpus-$name
  mkdir -p "$found"
  echo "fuzz_$name"
  "$target" -max_total_time="$2" -timeout=20 -rss_limit_mb=4096 -close_fd_mask=1 -artifact_prefix="$1/" "$found" "fuzz/corpus/$name" \
    >"$found.log" 2>&1 || { tail -50 "$found.log" >&2; exit 1; }
done
