#!/bin/sh
# Fetches the AArch64 libraries that the cross build links into a folder of its own. Nothing is installed: not
# every one of these packages can stand beside its own for the host.
#
#     scripts/aarch64-sysroot.sh FOLDER
set -eu

folder=$1
[ ! -e "$folder/complete" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/packages"
folder=$(cd "$folder" && pwd)

get() {
  apt-get -q -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
    -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" "$@"
}
get update
cd "$folder/packages"
get download libpthreadpool0 libpthreadpool-dev libxxhash-dev libjansson4 libjansson-dev libcmocka0 libcmocka-dev \
  libmpfr6 libmpfr-dev libgmp10 libgmp-dev
for package in *.deb; do
  dpkg-deb --extract "$package" "$folder"
done
cd "$folder"
rm -rf apt packages
touch complete
