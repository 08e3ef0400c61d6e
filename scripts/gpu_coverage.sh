#!/usr/bin/env bash
# Prints how many lines of backend/cuda and backend/nccl the tests on the stand-in execute, for each file and
# in total. Files that the stand-in cannot run (LibTorch's store and its code for CUDA) are listed with their
# lines.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release}
objects=$build/tests/backend/standin/CMakeFiles

cmake -S . -B "$build" -DPENSTOCK_STANDIN_COVERAGE=ON >/dev/null
cmake --build "$build" --target standin_tests
find "$build/tests/backend/standin" -name '*.gcda' -delete
"$build/bin/standin_tests" --gtest_brief=1
report=$(mktemp)
find "$objects" -name '*.gcda' -print0 | xargs -0 gcov --no-output --source-prefix "$PWD" --relative-only >"$report" 2>/dev/null
awk -F"[':% ]+" '
  /^File/ { file = $2 }
  /^Lines executed/ && file ~ /^backend\/(cuda|nccl)\// {
    if ($5 > lines[file]) { lines[file] = $5; hit[file] = $3 / 100 * $5 }
    file = ""
  }
  END {
    for (file in lines) {
      printf "%6.1f %%  %4d  %s\n", 100 * hit[file] / lines[file], lines[file], file | "sort -k4"
      all += lines[file]; done += hit[file]
    }
    close("sort -k4")
    printf "%6.1f %%  %4d  in all\n", 100 * done / all, all
  }' "$report"
rm -f "$report"
echo "left out, with their lines:"
wc -l backend/nccl/rendezvous.cpp backend/cuda/torch/*.cpp
cmake -S . -B "$build" -DPENSTOCK_STANDIN_COVERAGE=OFF >/dev/null
