# Cross-compiles for AArch64 Linux with Debian's cross gcc and runs the tests under qemu-user. The libraries
# come from the folder that scripts/aarch64-sysroot.sh fills.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(MLXN_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build-aarch64-sysroot CACHE PATH "Where the libraries for AArch64 lie")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MLXN_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${MLXN_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Where the host also has libc6:arm64, its cache of libraries would pair that libc with the cross compiler's loader, and
# threads would hang: the folders are named outright.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu
  -E LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib:${MLXN_SYSROOT}/usr/lib/aarch64-linux-gnu)
