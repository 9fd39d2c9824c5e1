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

quietly env DESTDIR="$folder/stage" cmake --install "$MLXN_BUILD"
package=$(find "$folder/stage" -name mlxn.pc)
lib=$(dirname "$(dirname "$package")")
prefix=$(dirname "$(dirname "$(find "$folder/stage" -path "*/bin/mlxn")")")
for file in bin/mlxn include/mlxn/mlxn.h include/mlxn/io.h share/man/man1/mlxn.1; do
  [ -e "$prefix/$file" ] || complain "$file is not installed"
done
grep -rqF "$folder" "$lib/pkgconfig" "$lib/cmake" && complain "an installed file names the staging folder"
[ "$("$prefix/bin/mlxn" --version 2>&1 | head -n 1)" ] || complain "the installed program does not run"

# A tree that moved is found all the same.
mv "$folder/stage" "$folder/moved"
prefix=$folder/moved${prefix#"$folder/stage"}
lib=$folder/moved${lib#"$folder/stage"}
export PKG_CONFIG_PATH="$lib/pkgconfig"

# shellcheck disable=SC2046 # flags are words
"$CC" tests/meta/outside/main.c $(pkg-config --cflags --libs mlxn-io mlxn) -o "$folder/shared"
expect "pkg-config" "$folder/shared" "$lib"

# Static: our archives, the rest as the linker finds it.
mkdir "$folder/archives"
cp "$lib"/*.a "$folder/archives"
# shellcheck disable=SC2046
"$CC" tests/meta/outside/main.c $(pkg-config --cflags mlxn-io) -L"$folder/archives" \
  $(pkg-config --static --libs mlxn-io mlxn | sed 's/-L[^ ]*//g') -o "$folder/static"
readelf -d "$folder/static" | grep -q libmlxn && complain "pkg-config --static: the program needs libmlxn.so"
expect "pkg-config --static" "$folder/static"

quietly cmake -S tests/meta/outside -B "$folder/package" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC"
quietly cmake --build "$folder/package"
expect "find_package, shared" "$folder/package/outside"
expect "find_package, static" "$folder/package/outside_static"

quietly cmake -S tests/meta/outside -B "$folder/subproject" -G Ninja -DMLXN_TREE="$MLXN_SOURCE" \
  -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=Debug
quietly cmake --build "$folder/subproject"
expect "add_subdirectory, shared" "$folder/subproject/outside"
expect "add_subdirectory, static" "$folder/subproject/outside_static"
[ ! -e "$folder/subproject/mlxn/mlxn" ] || complain "a subproject builds the program unasked"

conclude "$count" programs
