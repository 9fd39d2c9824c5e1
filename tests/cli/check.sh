#!/bin/sh
# mlxn check passes, with the same digests on every instruction set and number of threads.
. "${0%/*}/support/program.sh"

succeeds '^[1-9][0-9]* passed, 0 failed$' check
cp .out default.txt
# Every op and dtype has a line, and no check of an op is left out that has it.
succeeds . ops
for op in $(grep '^[a-z]' .out); do
  looked_at=$((looked_at + 1))
  [ "$(grep -cE "^$op +(f32|f16|bf16) +[0-9.]+ ulp" default.txt)" -eq 3 ] || complain "check has not three lines of $op"
done
for op in $(grep '^[a-z].*_backward' .out); do
  grep -qE "^$op +f32 +[0-9.]+ ulp +[0-9.]+e-[0-9]+ " default.txt || complain "no finite differences of $op"
done
grep -qE '^exp +f32 +0\.500 ulp +- +[1-9][0-9]* rows' default.txt || complain 'exp is not checked as it should be'

# The same bits with other threads and instruction sets, at least those that are everywhere.
digests default.txt >expected.txt
for threads in 1 3; do
  succeeds ' passed, 0 failed$' check --threads $threads
  digests .out >found.txt
  cmp -s expected.txt found.txt || complain "other digests with $threads threads"
done
case $(uname -m) in x86_64) sets='baseline avx2 avx512' ;; *) sets=neon ;; esac
for MLXN_MAX_ISA in $sets; do
  export MLXN_MAX_ISA
  succeeds ' passed, 0 failed$' check
  digests .out >found.txt
  cmp -s expected.txt found.txt || complain "other digests with $MLXN_MAX_ISA"
done
unset MLXN_MAX_ISA

# --quick leaves out what compares no bits; --json holds what the table does.
succeeds '^exp_backward +f32 +- +- +- +exact +[0-9a-f]{32} +[0-9a-f]{32}$' check --quick --json quick.json
digests .out >found.txt
cmp -s expected.txt found.txt || complain 'other digests with --quick'
tr -d '", \n' <quick.json | grep -o 'op:[a-z_]*dtype:[a-z0-9]*[^}]*' |
  sed 's/op:\(.*\)dtype:\(.*\)oracle:.*digest:\([0-9a-f]*\)shapes:\([0-9a-f]*\).*/\1 \2 \3 \4/' >found.txt
sort found.txt | cmp -s expected.txt - || complain 'other digests in quick.json'
fails 1 'none/check.json' check exp --quick --json none/check.json

# Every other device gives the same bits. All ops are tested there elsewhere; compiling them takes minutes on some.
for device in $(others); do
  succeeds ' passed, 0 failed$' check exp exp_backward log outer_product --quick --device "$device"
  digests .out >found.txt
  [ "$(wc -l <found.txt)" -eq 12 ] && grep -E '^(exp|exp_backward|log|outer_product) ' expected.txt | cmp -s - found.txt ||
    complain "other digests on $device"
  succeeds 'every input: 65536 right' check sqrt --dtype bf16 --exhaustive --device "$device"
done

# Choosing ops and dtypes.
succeeds '^exp +bf16 ' check exp --dtype bf16
[ "$(grep -c ulp .out)" -eq 1 ] || complain 'check exp --dtype bf16 checks more'
succeeds 'every input: 65536 right' check log --dtype f16 --exhaustive
succeeds '^5 passed, 0 failed$' check exp --dtype bf16 --exhaustive

conclude
