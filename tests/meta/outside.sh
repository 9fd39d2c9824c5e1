#!/bin/sh
# Installs into a staging folder and builds a small project against it in every way that users have.
. "${0%/*}/common.sh"
scratch

count=0
expect() { # WHAT PROGRAM
  answer=$(LD_LIBRARY_PATH=${3:-} "$2") || complain "$1: the program fails"
  case $answer in
    "mlxn "*": 1 2.71828175 7.38905621") ;;
    *) complain "$1: the program says: $answer" ;;
  esac
  count=$((count + 1))
}

DESTDIR=$folder/stage cmake --install "$MLXN_BUILD" >/dev/null
package=$(find "$folder/stage" -name mlxn.pc)
lib=$(dirname "$(dirname "$package")")
prefix=$(dirname "$lib")
for file in bin/mlxn include/mlxn/mlxn.h include/mlxn/io.h share/man/man1/mlxn.1; do
  [ -e "$prefix/$file" ] || complain "$file is not installed"
done
grep -rqF "$folder" "$lib/pkgconfig" "$lib/cmake" && complain "an installed file names the staging folder"
[ "$("$prefix/bin/mlxn" --version 2>&1 | head -n 1)" ] || complain "the installed program does not run"

# A tree that moved is found all the same.
mv "$folder/stage" "$folder/moved"
prefix=$folder/moved${prefix#"$folder/stage"}
lib=$prefix/lib${lib##*/lib}
[ -d "$lib/pkgconfig" ] || lib=$(dirname "$(dirname "$(find "$folder/moved" -name mlxn.pc)")")
export PKG_CONFIG_PATH="$lib/pkgconfig"

# shellcheck disable=SC2046 # flags are words
"$CC" tests/meta/outside/main.c $(pkg-config --cflags --libs mlxn-io mlxn) -o "$folder/shared"
expect "pkg-config" "$folder/shared" "$lib"

# Static: our archives, the rest as the linker finds it.
mkdir "$folder/archives"
cp "$lib"/*.a "$folder/archives"
# shellcheck disable=SC2046
"$CC" tests/meta/outside/main.c $(pkg-config --cflags mlxn-io) -L"$folder/archives" \
  $(pkg-config --static --libs mlxn-io mlxn | sed "s|-L$lib||g") -o "$folder/static"
expect "pkg-config --static" "$folder/static"

cmake -S tests/meta/outside -B "$folder/package" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" >/dev/null
cmake --build "$folder/package" >/dev/null
expect "find_package, shared" "$folder/package/outside"
expect "find_package, static" "$folder/package/outside_static"

cmake -S tests/meta/outside -B "$folder/subproject" -G Ninja -DMLXN_TREE="$MLXN_SOURCE" -DCMAKE_C_COMPILER="$CC" \
  -DCMAKE_C_FLAGS=-O1 >/dev/null
cmake --build "$folder/subproject" >/dev/null
expect "add_subdirectory, shared" "$folder/subproject/outside"
expect "add_subdirectory, static" "$folder/subproject/outside_static"
[ ! -e "$folder/subproject/mlxn/mlxn" ] || complain "a subproject builds the program unasked"

conclude "$count" programs
