#!/bin/sh
# The folders are the architecture: who may include whom.
. "${0%/*}/common.sh"

# Where an include leads: `target` is a path in the tree, or empty for a header of the system.
resolve() { # FILE INCLUDED
  target=
  for base in "${1%/*}" src include; do
    if [ -e "$base/$2" ]; then
      target=$base/$2
      break
    fi
  done
  case $target in *..*) target=$(realpath --relative-to=. "$target") ;; esac
}

# What the files of a folder may include of the tree: `allowed` is a pattern of paths.
allow() { # FILE
  case $1 in
    src/core/*) allowed='src/core/*|include/mlxn/mlxn.h' ;;
    src/kernels/*) allowed='src/kernels/*|src/core/*|include/mlxn/mlxn.h' ;;
    src/ops/*) allowed="${1%/*}/*|src/ops/ops.def|src/kernels/*|src/core/*|include/mlxn/mlxn.h" ;;
    src/backend/*) allowed="${1%/*}/*|src/core/*|src/kernels/text.h|include/mlxn/mlxn.h" ;;
    src/mlxn.c) allowed='src/*|include/mlxn/mlxn.h' ;;
    src/io/*) allowed='src/io/*|include/mlxn/*' ;;
    # The digests of all right results are data that the program ships with.
    tools/mlxn/*) allowed='tools/mlxn/*|include/mlxn/*|tests/elementary/digests.h' ;;
    tools/generate.c) allowed='src/ops/ops.def' ;;
    examples/*) allowed='include/mlxn/*' ;;
    include/*) allowed='include/*' ;;
    *) allowed= ;;
  esac
}

# Libraries that only one part of the project may know.
allow_library() { # HEADER
  case $1 in
    pthreadpool.h) allowed='src/backend/cpu/*' ;;
    jansson.h) allowed='src/io/*|tools/mlxn/*' ;;
    *) allowed='*' ;;
  esac
}

is_allowed() { # PATH
  eval "case \$1 in ${allowed:-nothing}) return 0 ;; esac"
  return 1
}

includes=$(grep -rnE '^[[:space:]]*#[[:space:]]*include' --include='*.[ch]' --include='*.def' --include='*.inc' \
  src include tools examples | sed -E 's/^([^:]*):[0-9]*:[^<"]*([<"])(.*)[>"].*/\1 \2 \3/; s/^([^:]*):[0-9]*:.*/\1 macro/')
count=0
while read -r file kind name; do
  if [ "$kind" = macro ]; then
    # Followed below, where the compiler lists what the kernels take in.
    case $file in src/kernels/*) ;; *) complain "$file includes by a macro" ;; esac
    continue
  fi
  resolve "$file" "$name"
  if [ -n "$target" ]; then
    allow "$file"
    is_allowed "$target" || complain "$file must not include $target"
  else
    [ "$kind" != '"' ] || complain "$file includes \"$name\", which is not in the tree"
    allow_library "$name"
    is_allowed "$file" || complain "$file must not include <$name>"
  fi
  count=$((count + 1))
done <<END
$includes
END

# What an op family takes in, at whatever depth.
for file in src/ops/*/*.c; do
  allow "$file"
  for target in $("$CC" -std=c17 -D_GNU_SOURCE= -DMLXN_ISA="$MLXN_ISA" -Iinclude -Isrc -MM "$file" | tr -d '\\:' | tr ' ' '\n' |
    grep -E '^(src|include)/'); do
    case $target in *..*) target=$(realpath --relative-to=. "$target") ;; esac
    is_allowed "$target" || complain "$file must not take in $target"
    count=$((count + 1))
  done
done

# A backend never names an op, nor does the core. A word behind a hyphen is part of a compiler's option.
ops=$({ elementwise_ops; ls src/ops; } | grep -v -e '^elementwise$' -e '\.' | sort -u | tr '\n' '|')
names="((^|[^-[:alnum:]_])|mlxn_)(${ops%|})(_backward)?(_f32|_f16|_bf16)?\\b"
without_comments src/core/* src/backend/*/* | grep -E "^[^:]*:[0-9]*:.*$names" >&2 &&
  complain "the core or a backend names an op"

conclude "$count" includes
