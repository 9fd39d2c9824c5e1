#!/bin/sh
# Runs clang-tidy over the project's own sources, by the compile commands of a build folder. The kernels, which are one
# inlined function each, would take it minutes apiece and are left to the sanitizers.
#
#     scripts/tidy.sh BUILD_FOLDER
set -eu
git ls-files 'src/**.c' 'tools/**.c' 'examples/*.c' | grep -v '^src/ops/.*/cpu\.c$' |
  xargs -P "$(nproc)" -n 4 clang-tidy --quiet --warnings-as-errors='*' -p "$1" 2>/dev/null
