#!/bin/sh
# The folders are the architecture: who may include whom.
. "${0%/*}/common.sh"

# Where an include leads: a path in the tree, or nothing for a header of the system.
resolve() { # FILE INCLUDED
  for base in "$(dirname "$1")" src include; do
    if [ -e "$base/$2" ]; then
      realpath --relative-to=. "$base/$2"
      return
    fi
  done
}

# What the files of a folder may include of the tree, as a pattern of paths.
allowed_for() { # FILE
  case $1 in
    src/core/*) echo 'src/core/*|include/mlxn/mlxn.h' ;;
    src/kernels/*) echo 'src/kernels/*|src/core/*|include/mlxn/mlxn.h' ;;
    src/ops/*) echo "$(dirname "$1")/*|src/ops/ops.def|src/kernels/*|src/core/*|include/mlxn/mlxn.h" ;;
    src/backend/*) echo "$(dirname "$1")/*|src/core/*|include/mlxn/mlxn.h" ;;
    src/mlxn.c) echo 'src/*|include/mlxn/mlxn.h' ;;
    src/io/*) echo 'src/io/*|include/mlxn/*' ;;
    # The digests of all right results are data that the program ships with.
    tools/mlxn/*) echo 'tools/mlxn/*|include/mlxn/*|tests/elementary/digests.h' ;;
    tools/generate.c) echo 'src/ops/ops.def' ;;
    examples/*) echo 'include/mlxn/*' ;;
    include/*) echo 'include/*' ;;
  esac
}

# Libraries that only one part of the project may know.
owner_of() { # HEADER
  case $1 in
    pthreadpool.h) echo 'src/backend/cpu/*' ;;
    jansson.h) echo 'src/io/*|tools/mlxn/*' ;;
    *) echo '*' ;;
  esac
}

matches() { # PATH PATTERNS
  (
    IFS='|'
    set -f
    for pattern in $2; do
      # shellcheck disable=SC2254 # a pattern indeed
      case $1 in $pattern) exit 0 ;; esac
    done
    exit 1
  )
}

includes=$(grep -rnE '^[[:space:]]*#[[:space:]]*include' --include='*.[ch]' --include='*.def' --include='*.inc' \
  src include tools examples | sed -E 's/^([^:]*):[0-9]*:[^<"]*([<"].*[>"]|[A-Z_]+).*/\1 \2/')
count=0
while read -r file included; do
  case $included in
    [A-Z]*)
      # Followed below, where the compiler lists what the kernels take in.
      case $file in src/kernels/*) ;; *) complain "$file includes by the macro $included" ;; esac
      continue
      ;;
  esac
  name=$(echo "$included" | tr -d '<>"')
  target=$(resolve "$file" "$name")
  if [ -n "$target" ]; then
    matches "$target" "$(allowed_for "$file")" || complain "$file must not include $target"
  else
    case $included in \"*) complain "$file includes $included, which is not in the tree" ;; esac
    matches "$file" "$(owner_of "$name")" || complain "$file must not include <$name>"
  fi
  count=$((count + 1))
done <<END
$includes
END

# What an op family takes in, at whatever depth.
for file in src/ops/*/*.c; do
  for target in $("$CC" -std=c17 -D_GNU_SOURCE= -DMLXN_ISA="$MLXN_ISA" -Iinclude -Isrc -MM "$file" | tr -d '\\:' | tr ' ' '\n' |
    grep -E '^(src|include)/'); do
    target=$(realpath --relative-to=. "$target")
    matches "$target" "$(allowed_for "$file")" || complain "$file must not take in $target"
    count=$((count + 1))
  done
done

# A backend never names an op, nor does the core.
ops=$({ elementwise_ops; ls -d src/ops/*/ | xargs -n 1 basename; } | grep -v '^elementwise$' | sort -u)
for file in src/core/* src/backend/*/*; do
  for op in $ops; do
    without_comments "$file" | grep -nE "(\\b|mlxn_)${op}(_backward)?(_f32|_f16|_bf16)?\\b" >&2 &&
      complain "$file names the op $op"
  done
done

conclude "$count" includes
