#!/usr/bin/env bash
# Compares Penstock with other simulators that are available as packages. All run the same programs on this
# machine, one after another. Only the processor time of the simulation is measured. Prints ratios.
#
#   SimGrid (Debian's libsimgrid-dev)     pipelines that share links, with the same durations and messages. The exit code
#                                         is 1 if the makespans differ by more than 2 %. If many messages share links,
#                                         simulators never agree exactly, because a nanosecond changes the makespan.
#   PyTorch (PyPI's torch, about 760 MB; scripts/libtorch.sh has the version)
#                                         the dry run of torch.distributed.pipelining. It places SENDs and RECVs and steps
#                                         through the lists of all ranks. It has no durations, so it gives the order of
#                                         steps but no times. Penstock also computes the time of every action.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

install_missing "${test_packages[@]}" libsimgrid-dev
cmake --preset dev >&2
cmake --build --preset dev --target penstock penstock_bench
peer=build/release/bin/simgrid_shared_links
c++ -std=c++17 -O3 -o "$peer" bench/peers/simgrid_shared_links.cpp -lsimgrid

# Prints the row of a benchmark's median as CSV. $1 is the benchmark. The fourth cell is the processor time.
median_row() {
  build/release/bin/penstock_bench --benchmark_filter="^$1\$" --benchmark_format=csv --benchmark_repetitions=9 2>/dev/null |
    grep '_median"'
}

# Prints the comparison with SimGrid. $1 is the name of the benchmark, and $2 the bytes of a message. The row of the
# benchmark ends with its makespan.
compare_simgrid() {
  local row penstock_ms penstock_makespan simgrid_ms simgrid_makespan
  row=$(median_row "contention/$1/pipelines:64")
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

# Prints the comparison with PyTorch for 1F1B. $1 is K and $2 is M. The times of the benchmarks are in microseconds.
compare_pytorch() {
  local lists place_ms step_ms steps
  lists=$(mktemp --suffix=.csv)
  build/release/bin/penstock convert --schedule 1f1b --pp-size "$1" --num-microbatches "$2" -o "$lists" 2>/dev/null
  read -r place_ms step_ms steps < <(build/libtorch/bin/python -W ignore bench/peers/pytorch_schedule.py "$lists" "$1")
  rm "$lists"
  awk -v k="$1" -v m="$2" -v steps="$steps" -v ours_place="$(median_row "lower/1f1b/K:$1/M:$2" | cut -d, -f4)" -v place="$place_ms" \
    -v ours_time="$(median_row "critical_path_engine/K:$1/M:$2" | cut -d, -f4)" -v step="$step_ms" 'BEGIN {
    printf "1F1B, K = %d, M = %d: messages placed: penstock %.3f ms, pytorch %.3f ms, %.0f times as long; ",
           k, m, ours_place / 1e3, place, 1e3 * place / ours_place
    printf "lists followed: penstock %.3f ms with all times, pytorch %.3f ms for the order of %d steps, %.0f times as long\n",
           ours_time / 1e3, step, steps, 1e3 * step / ours_time
  }'
}

echo "SimGrid $(dpkg-query --show --showformat='${Version}' libsimgrid-dev)"
compare_simgrid light 524288
compare_simgrid dense 2097152

scripts/libtorch.sh
if build/libtorch/bin/python -W ignore -c 'import torch' 2>/dev/null; then
  echo "PyTorch $(build/libtorch/bin/python -W ignore -c 'import torch; print(torch.__version__)')"
  compare_pytorch 16 64
  compare_pytorch 64 512
else
  echo "PyTorch: torch cannot be imported from build/libtorch, not compared"
fi
