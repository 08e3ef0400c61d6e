#!/usr/bin/env bash
# Prints a table of the instructions and times of benchmarks: bench/instructions.sh [FILTER]
#
# valgrind's callgrind counts the instructions of one iteration of the loop, without the preparation of a
# benchmark (bench/measure.cpp). It needs no counters of the processor. The times are the shortest of five
# normal runs. Both numbers are for one action, event or point (of one table, if several tables run at once).
# Callgrind does not support AVX-512, so lanes run AVX2 code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

install_missing "${test_packages[@]}" valgrind
cmake --preset dev >&2
cmake --build --preset dev --target penstock_bench >&2
bench=build/release/bin/penstock_bench
counts=$(mktemp -d)
trap 'rm -r "$counts"' EXIT

# Prints the rows of a benchmark as CSV. $1 is the benchmark, and the other arguments are its flags.
rows() {
  local name=$1
  shift
  "$@" "$bench" --benchmark_filter="^$name\$" --benchmark_format=csv "${flags[@]}" 2>/dev/null
}

# Reads CSV. Prints the nanoseconds of a unit (the least of all rows), and the number of units in one iteration of the
# loop.
# shellcheck disable=SC2016  # awk's own
time_and_units='
  NR == 1 { for (i = 1; i <= NF; ++i) { gsub("\"", "", $i); column[$i] = i } next }
  function cell(name) { return name in column ? $column[name] : 0 }
  {
    units = cell("actions") + cell("events") + cell("points")
    if (cell("tables") > 0) units *= cell("tables")
    scale = $5 == "ms" ? 1e6 : $5 == "us" ? 1e3 : 1
    if (least == "" || $4 * scale < least) least = $4 * scale
  }
  END { if (units > 0) printf "%.17g %.17g %s\n", least / units, units, "points" in column ? "point" : "events" in column ? "event" : "action" }'

# Prints the row of the table for the benchmark $1.
compare() {
  local name=$1 spent units unit instructions
  flags=(--benchmark_repetitions=5 --benchmark_min_time=0.1)
  read -r spent units unit < <(rows "$name" | grep -v -E '_(mean|median|stddev|cv)"' | awk -F, "$time_and_units") || true
  if [[ -z $units ]]; then
    echo "$name has not run, or counts neither actions nor events nor points" >&2
    return
  fi
  flags=(--benchmark_min_time=0)
  rows "$name" env LD_BIND_NOW=1 valgrind --tool=callgrind --callgrind-out-file="$counts/count" \
    '--zero-before=penstock::loop_begins()' '--dump-before=penstock::loop_ends()' >/dev/null
  instructions=$(awk '/^summary:/ { print $2 }' "$counts/count.1")
  rm "$counts"/*
  awk -v name="$name" -v spent="$spent" -v units="$units" -v unit="$unit" -v count="$instructions" \
    'BEGIN { printf "| %s | %s | %.3g | %.4g |\n", name, unit, spent, count / units }'
}

mapfile -t names < <("$bench" --benchmark_list_tests | grep -v baseline |
  grep -E "${1:-^(compiled|lanes|figures/(1f1b|whole)|generate/.*/K:16/M:512|contention|steady|sweep|timeline_json)(/|$)}")
echo "| benchmark | of one | ns | instructions |"
echo "|---|---|---|---|"
for name in "${names[@]}"; do compare "$name"; done
