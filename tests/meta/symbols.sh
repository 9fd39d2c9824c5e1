#!/bin/sh
# The libraries export mlxn_ names alone, and call nothing that prints or ends the process.
. "${0%/*}/common.sh"

count=0
for library in mlxn mlxn-io; do
  shared=$MLXN_BUILD/lib$library.so
  for symbol in $(nm -D --defined-only "$shared" | awk '{ print $3 }'); do
    case $symbol in mlxn_*) ;; *) complain "$shared exports $symbol" ;; esac
    count=$((count + 1))
  done

  static=$MLXN_BUILD/lib$library.a
  for symbol in $(nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }'); do
    case $symbol in mlxn_*) ;; *) complain "$static has the global name $symbol" ;; esac
    count=$((count + 1))
  done

  # Fortified variants count as their plain ones.
  for symbol in $(nm -u "$static" | awk 'NF == 2 { print $2 }' | sed -E 's/^__(.*)_chk$/\1/' | sort -u); do
    case $symbol in
      abort | exit | _exit | _Exit | quick_exit | __assert_fail | raise | kill | printf | vprintf | puts | putchar | \
        fprintf | vfprintf | dprintf | perror | stdout | stderr | psignal | err | errx | warn | warnx | error)
        complain "$static uses $symbol"
        ;;
    esac
  done
done

soname=$(objdump -p "$MLXN_BUILD/libmlxn.so" | awk '$1 == "SONAME" { print $2 }')
[ "$soname" = libmlxn.so.0 ] || complain "the SONAME is $soname"

conclude "$count" symbols
