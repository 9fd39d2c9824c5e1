#!/bin/sh
# Makes sure that what a step needs is on this machine: installs what is missing with apt where it runs as root,
# else says what to install and fails. Silent and quick where nothing is missing.
#
#     scripts/bootstrap.sh build | check | ci
set -eu

step=${1:-build}
cc=${CC:-cc}
missing=

command_of() { # COMMAND PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
header_of() { # HEADER PACKAGE
  printf '#include <%s>\n' "$1" | "$cc" -fsyntax-only -x c - >/dev/null 2>&1 || missing="$missing $2"
}
# What mlxn can do without is installed where that asks nobody, and not asked for elsewhere.
can_install() {
  command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]
}
ldconfig_has() { # LIBRARY
  PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -qF "$1"
}

look_around() {
  missing=
  command_of "$cc" gcc
  if ! command -v "$cc" >/dev/null 2>&1; then
    missing="$missing libc6-dev"
  else
    header_of stdlib.h libc6-dev
  fi
  command_of cmake cmake
  command_of ninja ninja-build
  header_of pthreadpool.h libpthreadpool-dev
  header_of xxhash.h libxxhash-dev
  header_of jansson.h libjansson-dev
  # Without these headers mlxn is built without OpenCL devices.
  ! can_install || header_of CL/cl.h opencl-headers
  [ "$step" != build ] || return 0

  command_of c++ g++
  command_of pkg-config pkg-config
  command_of nm binutils
  # cmocka's header wants these three before it.
  printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <cmocka.h>\n' |
    "$cc" -fsyntax-only -x c - >/dev/null 2>&1 || missing="$missing libcmocka-dev"
  header_of mpfr.h libmpfr-dev
  # Without an OpenCL device the tests that want one are skipped. This one is the processor: a loader, and a driver that
  # the loader finds by its .icd file.
  if can_install; then
    ldconfig_has libOpenCL.so.1 || missing="$missing ocl-icd-libopencl1"
    ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1 || missing="$missing pocl-opencl-icd"
  fi
  [ "$step" != check ] || return 0

  command_of clang clang
  command_of clang-format clang-format
  command_of clang-tidy clang-tidy
  # Whether the compiler finds its sanitizers' run-time libraries is the question, not where they lie.
  if command -v clang >/dev/null 2>&1; then
    echo 'int main(void) { return 0; }' | clang -fsanitize=address -x c - -o /dev/null 2>/dev/null ||
      missing="$missing libclang-rt-dev"
  else
    missing="$missing libclang-rt-dev"
  fi
  command_of aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
  [ -e /usr/aarch64-linux-gnu/include/stdlib.h ] || missing="$missing libc6-dev-arm64-cross"
  command_of qemu-aarch64 qemu-user
}

look_around
if [ -n "$missing" ]; then
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "mlxn needs these Debian packages, or their like here:$missing" >&2
    exit 1
  elif [ "$(id -u)" != 0 ]; then
    echo "mlxn needs packages that are not installed. Run:" >&2
    echo "    sudo apt-get install$missing" >&2
    exit 1
  fi
  echo "Installing:$missing" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update </dev/null
  # shellcheck disable=SC2086 # a list of packages
  apt-get -qq install --yes --no-install-recommends $missing </dev/null >/dev/null
  look_around
  if [ -n "$missing" ]; then
    echo "Still missing after the installation:$missing" >&2
    exit 1
  fi
fi

version=$(cmake --version | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p')
if [ "${version%.*}" -lt 3 ] || { [ "${version%.*}" -eq 3 ] && [ "${version#*.}" -lt 25 ]; }; then
  echo "mlxn needs CMake 3.25 or newer; this machine has $version" >&2
  exit 1
fi
