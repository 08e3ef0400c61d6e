#!/usr/bin/env bash
# Fuzzes every reader (tests/fuzz): scripts/fuzz.sh [SECONDS for each target, default 600] [TARGET ...]. The
# last line has the number of findings.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-600}
shift || true
# libFuzzer is a separate package. Without this check, its absence would be detected only after the whole
# build.
clang++-19 -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null <<<'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' || {
  echo "scripts/fuzz.sh needs clang++-19 with libFuzzer (Debian: clang-19 libclang-rt-19-dev); Clang 14 cannot read <ranges> of GCC 12" >&2
  exit 77
}
build=build/fuzz
[[ -f $build/build.ninja ]] || cmake --preset fuzz
cmake --build --preset fuzz --target penstock_fuzzer
mkdir -p "$build/findings"
if (($# == 0)); then
  mapfile -t targets < <(PENSTOCK_FUZZ_TARGET=? "$build/bin/penstock_fuzzer" 2>&1 | sed 1,/must/d)
else
  targets=("$@")
fi

declare -A seeds=(
  [program]=tests/schedules/must_fail [csv]=tests/schedules/must_fail [scenario]="scenarios/library tests/scenarios/must_fail"
  [model]=scenarios/library/models [runs]=scenarios/library/runs [iterations]=scenarios/library/runs [fitted]=scenarios/library/runs
  [profile]=tests/scenarios/must_fail/parts [gemms]=scenarios/library/kernels [attention]=scenarios/library/kernels
  [collectives]=scenarios/library/kernels
)
if ((${#targets[@]} == 0)); then
  echo "scripts/fuzz.sh: the fuzzer names no target" >&2
  exit 1
fi
findings=0
for target in "${targets[@]}"; do
  corpus=$build/corpus/$target
  mkdir -p "$corpus"
  read -ra places <<<"${seeds[$target]:-}"
  [[ -d tests/fuzz/corpus/$target ]] && places+=("tests/fuzz/corpus/$target")
  log=$build/$target.log
  PENSTOCK_FUZZ_TARGET=$target "$build/bin/penstock_fuzzer" -max_total_time="$seconds" -max_len=20000 -timeout=10 \
    -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$build/findings/$target-" "$corpus" "${places[@]}" \
    >"$log" 2>&1 || findings=$((findings + 1))
  printf '%-16s %12s executions, %s\n' "$target" "$(sed -n 's/stat::number_of_executed_units: *//p' "$log")" \
    "$(grep -m1 -o 'ERROR: .*\|SUMMARY: .*' "$log" || echo 'nothing found')"
done
echo "$findings findings"
exit $((findings > 0))
