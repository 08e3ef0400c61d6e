#!/usr/bin/env bash
# Penstock beside SimGrid (Debian's libsimgrid-dev) where pipelines share links: the same machine, durations and
# messages, both by processor time of the simulation alone, in turn. Prints the ratio and how far the makespans are
# apart; exit 1 beyond 2 %. Where sharing is dense no two simulators agree exactly: a nanosecond moves the makespan.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

install_missing "${test_packages[@]}" libsimgrid-dev
[[ -f build/dev/build.ninja ]] || cmake --preset dev
cmake --build --preset dev --target penstock_bench
peer=build/dev/bin/simgrid_shared_links
c++ -std=c++17 -O3 -o "$peer" bench/peers/simgrid_shared_links.cpp -lsimgrid

# $1: the benchmark's name, $2: bytes a message. The row of the benchmark, as CSV, ends with its makespan.
compare() {
  local row penstock_ms penstock_makespan simgrid_ms simgrid_makespan
  row=$(build/dev/bin/penstock_bench --benchmark_filter="contention/$1/pipelines" --benchmark_format=csv \
    --benchmark_repetitions=9 2>/dev/null | grep '_median"')
  penstock_ms=$(cut -d, -f4 <<<"$row")
  penstock_makespan=${row##*,}
  read -r simgrid_makespan simgrid_ms < <("$peer" 64 16 64 "$2" 2>/dev/null)
  awk -v name="$1" -v p="$penstock_ms" -v pm="$penstock_makespan" -v s="$simgrid_ms" -v sm="$simgrid_makespan" 'BEGIN {
    apart = (pm > sm ? pm - sm : sm - pm) / sm
    printf "%s sharing: penstock %.1f ms, simgrid %.1f ms, %.1f times as long; makespans %.3f and %.3f ms, %.3f %% apart\n",
           name, p, s, s / p, pm, sm, 100 * apart
    exit apart > 0.02
  }'
}

compare light 524288
compare dense 2097152
