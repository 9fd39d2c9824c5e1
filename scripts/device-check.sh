#!/bin/sh
# Everything that a GPU must show, on a machine that has one: build, tests, digests, every input, sanitizers, benchmarks.
# Needs a C compiler, CMake and Ninja, and no package manager; what cannot run here is skipped, with the reason.
#
#     scripts/device-check.sh [DEPS_FOLDER] [OUT_FOLDER]
#
# DEPS_FOLDER holds unpacked development packages of Debian (usr/include, usr/lib/x86_64-linux-gnu), for what the
# machine lacks of: pthreadpool, xxhash, jansson; cmocka, mpfr, gmp for the tests; opencl-headers, ocl-icd for OpenCL.
# OUT_FOLDER (default: build-device/out) gets the logs. Exit status 1 if a step failed. Under 8 minutes on 16 cores.
#
# MLXN_CHECK_GPU names the device to check in place of cuda:0, MLXN_CHECK_BUILD the build folder.
set -u
case $0 in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tests/cli/support/published.sh"

# ---- the steps, each run by itself under a time limit: device-check.sh --step NAME WORD... ----

build=${MLXN_CHECK_BUILD:-$root/build-device}
mlxn=$build/mlxn
gpu=${MLXN_CHECK_GPU:-cuda:0}

# say TEXT: what the report says of a step beside its outcome. skip REASON: ends the step.
say() { printf '%s\n' "$*" >>"$MLXN_CHECK_WORK/said.$step"; }
skip() {
  say "$*"
  exit 77
}

step_build() {
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMLXN_BUILD_TESTS="$1" || return 1
  rm -f "$mlxn"
  cmake --build "$build" -j "$jobs" -- -k 0 || return 1
  [ "$1" = ON ] || say "without tests: no $missing_for_tests"
}

# The tests of some labels, in one log. ctest's exit status counts a test that was skipped as good.
step_tests() { # JOBS, then ctest's words
  workers=$1
  shift
  log=$MLXN_CHECK_WORK/ctest.$step
  ctest --test-dir "$build" -j "$workers" --output-on-failure --no-tests=error --timeout 240 "$@" >"$log" 2>&1
  code=$?
  cat "$log"
  # Not through a pipe: `grep -c` says 0 and fails where there is none.
  passed=$(grep -cE '^ *[0-9]+/[0-9]+ Test .* Passed' "$log")
  skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*Skipped' "$log")
  failed=$(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]*) .*\*\*\*(Failed|Timeout|Exception|Not Run).*/\1/p' "$log" | tr '\n' ' ')
  say "$passed passed, $skipped skipped${failed:+, FAILED: $failed}"
  [ "$code" -eq 0 ] || return 1
  [ "$passed" -gt 0 ] || exit 77
}

# A copy of the tree with one more line, an elementwise op, which the CPU, the GPU and OpenCL must run with the same bits.
step_new_op() {
  step_tests 1 --verbose -R '^meta_new_op$'
  code=$?
  say "an op is added by one line, and checked on cpu $(sed -n 's/^.*checked on //p' "$log" | tr '\n' ' ')"
  return $code
}

# All checks on a device; the digests must be the published ones.
step_digests() { # DEVICE
  text=$MLXN_CHECK_WORK/check.$step
  "$mlxn" check --device "$1" >"$text"
  code=$?
  cat "$text"
  published "$root/docs/numerics.md" >"$text.published"
  digests "$text" >"$text.found"
  count=$(wc -l <"$text.published")
  if [ "$count" -eq 0 ]; then
    say "docs/numerics.md has no digests"
    return 1
  elif ! diff "$text.published" "$text.found"; then
    say "digests differ from the published ones ($(sed -n 1p "$text"))"
    return 1
  fi
  say "$count pairs of digests are the published ones; $(tail -n 1 "$text") ($(sed -n '1s/^.*: //p' "$text"))"
  return $code
}

step_every_input() { # DEVICE
  text=$MLXN_CHECK_WORK/every.$step
  "$mlxn" check exp log sqrt --exhaustive --device "$1" >"$text"
  code=$?
  cat "$text"
  say "$(sed -nE 's/^([a-z]+) +(f32) +every input: (.*)$/\1 \3;/p' "$text" | tr '\n' ' ')$(tail -n 1 "$text")"
  return $code
}

# Small arrays under compute-sanitizer.
step_sanitizer() { # TOOL, then what to check
  tool=$1
  shift
  # The driver is asked for the arguments of a kernel until it says that there are no more, which is no error.
  api=
  [ "$tool" != memcheck ] || api='--report-api-errors no'
  # shellcheck disable=SC2086 # an option and its word, or nothing
  "$sanitizer" --tool "$tool" $api --error-exitcode 9 --print-limit 20 "$mlxn" check --quick --device "$gpu" "$@" >"$MLXN_CHECK_WORK/$tool" 2>&1
  code=$?
  cat "$MLXN_CHECK_WORK/$tool"
  if grep -qiE 'device not supported|unable to|internal sanitizer error' "$MLXN_CHECK_WORK/$tool" && [ "$code" -ne 9 ] && [ "$code" -ne 0 ]; then
    skip "compute-sanitizer cannot work here: $(grep -iE 'not supported|unable to|internal' "$MLXN_CHECK_WORK/$tool" | head -n 1)"
  fi
  say "$(grep -E 'SUMMARY' "$MLXN_CHECK_WORK/$tool" | tail -n 1 | sed 's/^=* *//'); $(grep -E ' passed, ' "$MLXN_CHECK_WORK/$tool" | tail -n 1)"
  return $code
}

step_bench() {
  "$mlxn" bench exp exp_backward outer_product outer_product_backward_lhs outer_product_backward_rhs \
    outer_product_backward --device "$gpu" --json "$out/bench.json"
}

step_peers() {
  MLXN_LIBRARY=$build/libmlxn.so python3 "$root/bench/peers_gpu.py" --device "$gpu" --program "$mlxn" --json "$out/peers.json" \
    --seconds 100 $rehearse
}

if [ "${1:-}" = --step ]; then
  step=$2 function=$3
  shift 3
  "step_$function" "$@"
  exit
fi

# ---- the surroundings ----

start=$(date +%s)
deps=${1:-}
[ -z "$deps" ] || deps=$(cd "$deps" && pwd) || exit 1
out=${2:-$build/out}
mkdir -p "$out" "$build" || exit 1
out=$(cd "$out" && pwd)
jobs=$(nproc)
MLXN_CHECK_WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$MLXN_CHECK_WORK"' EXIT
rm -f "$out/summary.txt" "$out/build.log" "$out/tests.log" "$out/checks.log" "$out/sanitizer.log" "$out/bench.md"
export MLXN_CHECK_WORK out jobs
MLXN_CACHE_DIR=${MLXN_CACHE_DIR:-$build/kernels}
export MLXN_CACHE_DIR
unset MLXN_DEVICE MLXN_MAX_ISA

if [ -n "$deps" ]; then
  libraries=
  for folder in usr/lib/x86_64-linux-gnu usr/lib/aarch64-linux-gnu usr/lib; do
    [ ! -d "$deps/$folder" ] || libraries=$libraries${libraries:+:}$deps/$folder
  done
  includes=$deps/usr/include
  for folder in "$deps"/usr/include/*-linux-gnu; do
    [ ! -d "$folder" ] || includes=$includes:$folder
  done
  export CMAKE_PREFIX_PATH="$deps/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
  export CMAKE_INCLUDE_PATH="$includes" CMAKE_LIBRARY_PATH="$libraries"
  export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export C_INCLUDE_PATH="$includes" CPLUS_INCLUDE_PATH="$includes" LIBRARY_PATH="$libraries"
fi

note() { printf '%s\n' "$*" | tee -a "$out/summary.txt"; }

# lacks WORD HEADER...: adds the word to $missing if one of the headers is not found.
lacks() {
  word=$1
  shift
  {
    printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n'
    printf '#include <%s>\n' "$@"
  } | ${CC:-cc} -fsyntax-only -x c - >/dev/null 2>&1 || missing="$missing $word"
}

note "mlxn on $(uname -sm), $jobs cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(date -u +%Y-%m-%d)"
missing=
for command in ${CC:-cc} cmake ninja; do
  command -v "$command" >/dev/null || missing="$missing $command"
done
lacks pthreadpool pthreadpool.h
lacks xxhash xxhash.h
lacks jansson jansson.h
missing_for_build=$missing
missing=
lacks cmocka cmocka.h
lacks mpfr mpfr.h
lacks gmp gmp.h
command -v c++ >/dev/null || missing="$missing c++"
export missing_for_tests="$missing"
missing=
lacks opencl-headers CL/cl.h
missing_for_opencl=$missing

# NVRTC: where no loader would find it, in the toolkit or in a Python wheel.
if [ -z "${MLXN_NVRTC:-}" ] && ! ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so'; then
  wheels=$(python3 -c 'import sys; print("\n".join(p for p in sys.path if p.endswith("-packages")))' 2>/dev/null)
  for folder in /usr/local/cuda $wheels; do
    for file in "$folder"/lib64/libnvrtc.so.1[0-9] "$folder"/nvidia/cu13/lib/libnvrtc.so.1[0-9] \
      "$folder"/nvidia/cuda_nvrtc/lib/libnvrtc.so.1[0-9]; do
      [ -n "${MLXN_NVRTC:-}" ] || [ ! -e "$file" ] || export MLXN_NVRTC="$file"
    done
  done
fi

# NVIDIA's OpenCL: where its driver is installed without the file that names it to the loader.
vendors=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}
if ! grep -qs nvidia "$vendors"/*.icd; then
  driver=$(ldconfig -p 2>/dev/null | sed -n 's/^.*libnvidia-opencl\.so\.1 .*=> //p' | head -n 1)
  for file in /usr/local/nvidia/lib64/libnvidia-opencl.so.1 /usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1; do
    [ -n "$driver" ] || [ ! -e "$file" ] || driver=$file
  done
  if [ -n "$driver" ]; then
    mkdir "$MLXN_CHECK_WORK/vendors"
    cp "$vendors"/*.icd "$MLXN_CHECK_WORK/vendors" 2>/dev/null
    echo "$driver" >"$MLXN_CHECK_WORK/vendors/nvidia.icd"
    export OCL_ICD_VENDORS="$MLXN_CHECK_WORK/vendors"
  fi
fi

# ---- running steps ----

# report OUTCOME SECONDS STEP: a line of the summary, with what the step said.
report() {
  said=$(tr '\n' ' ' <"$MLXN_CHECK_WORK/said.$3" 2>/dev/null)
  note "$(printf '%-4s %4s s  %-22s %s' "$1" "$2" "$3" "$said")"
}

leave_out() { # STEP REASON
  step=$1
  shift
  say "$*"
  report SKIP 0 "$step"
}

# run STEP SECONDS LOG FUNCTION WORD...: the function under a time limit, its output in the log once it has ended.
run() {
  name=$1 limit=$2 log=$out/$3 function=$4
  shift 4
  begin=$(date +%s)
  timeout -k 10 "$limit" sh "$self" --step "$name" "$function" "$@" >"$MLXN_CHECK_WORK/log.$name" 2>&1 </dev/null
  code=$?
  case $code in
  0) outcome=PASS ;;
  77) outcome=SKIP ;;
  124 | 137) outcome=FAIL && echo "stopped after $limit s" >>"$MLXN_CHECK_WORK/said.$name" ;;
  *)
    outcome=FAIL
    [ -s "$MLXN_CHECK_WORK/said.$name" ] || tail -n 3 "$MLXN_CHECK_WORK/log.$name" >"$MLXN_CHECK_WORK/said.$name"
    ;;
  esac
  { printf '==== %s\n' "$name" && cat "$MLXN_CHECK_WORK/log.$name"; } >>"$log"
  report $outcome $(($(date +%s) - begin)) "$name"
}

finish() {
  failures=$(grep -c '^FAIL' "$out/summary.txt")
  skips=$(grep -c '^SKIP' "$out/summary.txt")
  note "$(grep -c '^PASS' "$out/summary.txt") passed, $failures failed, $skips skipped, $(($(date +%s) - start)) s in all"
  [ "$failures" -eq 0 ]
  exit
}

if [ -n "$missing_for_build" ]; then
  leave_out build "not here:$missing_for_build"
  finish
fi
run build 240 build.log build "$([ -z "$missing_for_tests" ] && echo ON || echo OFF)"
if [ ! -x "$mlxn" ]; then
  finish
fi
"$mlxn" devices | tee -a "$out/summary.txt"
present() { "$mlxn" devices | grep -v ' absent: ' | grep -q "^[* ] $1 "; }
why_not() { # BACKEND: why it has no device here
  reason=$("$mlxn" devices | sed -n "s/^[* ] $1[:0-9]* *absent: //p" | head -n 1)
  echo "${reason:-mlxn devices lists no $1}"
}
opencl=$("$mlxn" devices | grep -v ' absent: ' | sed -n 's/^[* ] \(opencl:[0-9]*\) .*/\1/p')
case $gpu in cuda:*) rehearse= ;; *) rehearse=--rehearse ;; esac
export rehearse

# What does not time anything runs side by side.
if [ -z "$missing_for_tests" ]; then
  for backend in cuda opencl; do
    step=tests-$backend
    "$mlxn" devices | grep -v ' absent: ' | grep -q "^[* ] $backend:" || say "(no device: $(why_not $backend))"
  done
  # What looks at the tree, not at the device, wants packages that are installed; but for the added op.
  run tests-cpu 270 tests.log tests $(((jobs + 1) / 2)) -LE '^(cuda|opencl|meta)$' &
  (
    run tests-cuda 270 tests.log tests 3 -L '^cuda$'
    run tests-opencl 270 tests.log tests 3 -L '^opencl$'
  ) &
  run new-op 240 tests.log new_op &
else
  for step in tests-cpu tests-cuda tests-opencl new-op; do
    leave_out $step "not here:$missing_for_tests"
  done
fi
(
  case $(uname -m) in x86_64) sets='baseline avx2 avx512' ;; *) sets=neon ;; esac
  for set in $sets; do
    export MLXN_MAX_ISA="$set"
    run "digests-cpu-$set" 120 checks.log digests cpu
  done
  unset MLXN_MAX_ISA
  for device in $opencl; do
    run "digests-$device" 150 checks.log digests "$device" &
  done
  wait
  if [ -z "$opencl" ]; then
    leave_out digests-opencl "$(why_not opencl)${missing_for_opencl:+; not here when it was built:$missing_for_opencl}"
  fi
) &
if present "$gpu"; then
  (
    run "digests-$gpu" 150 checks.log digests "$gpu"
    run "every-input-$gpu" 240 checks.log every_input "$gpu"
  ) &
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  export sanitizer
  case $sanitizer$gpu in
  *compute-sanitizercuda:*)
    run memcheck 240 sanitizer.log sanitizer memcheck &
    # Elementwise kernels share nothing between threads.
    run racecheck 240 sanitizer.log sanitizer racecheck outer_product outer_product_backward_lhs \
      outer_product_backward_rhs outer_product_backward &
    ;;
  *) leave_out sanitizers "no compute-sanitizer, or $gpu is no CUDA device" ;;
  esac
else
  for step in "digests-$gpu" "every-input-$gpu" sanitizers; do
    leave_out "$step" "$(why_not "${gpu%%:*}")"
  done
fi
wait

# The benchmarks have the machine for themselves.
if present "$gpu"; then
  run bench 150 bench.md bench
  if python3 -c 'import numpy' 2>/dev/null; then
    run peers 170 bench.md peers
  else
    leave_out peers "no python3 with numpy"
  fi
  [ ! -f "$out/bench.md" ] || cat "$out/bench.md"
  cat "$out/summary.txt"
else
  leave_out bench "$(why_not "${gpu%%:*}")"
  leave_out peers "$(why_not "${gpu%%:*}")"
fi
finish
