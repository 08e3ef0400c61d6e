#!/usr/bin/env bash
# Checks that a new figure, a new maximum over time and a new scenario key each need changes in at most two
# source files:
#   scripts/trial_patches.sh [--together] [BUILD, build/release] [PATCH ...]
# Applies each patch of tests/trial_patches to a copy of the tree and builds the changed targets. Then it
# checks that the new figure or key is in JSON, CSV, tables, HTML, invariants and the reference, and that all
# engines give the same value. The copy is an overlay that is mounted over the tree, so that the existing
# build folder can be used and no files remain. --together builds once with all patches. Exit code: 1 if a
# check fails, and 77 if this user may not mount overlays.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ${PENSTOCK_TRIAL_INSIDE:-} != yes ]]; then
  room=$(mktemp -d -t penstock-trial.XXXXXX)
  trap 'rm -rf "$room"' EXIT
  PENSTOCK_TRIAL_INSIDE=yes PENSTOCK_TRIAL_ROOM=$room unshare --mount --propagation private -- "${BASH_SOURCE[0]}" "$@"
  exit
fi
room=$PENSTOCK_TRIAL_ROOM
together=no
if [[ ${1:-} == --together ]]; then together=yes && shift; fi
build=${1:-build/release}
shift || true
patches=("${@:-}")
[[ -n ${patches[0]} ]] || patches=(new_figure new_maximum new_scenario_key)
failed=0

fail() { echo "FAIL $*" && failed=1; }
# expect WHAT TEXT FILE: the file has the text.
expect() { grep -qF -- "$2" "$3" && echo "  ok $1" || fail "$1: \"$2\" is not in $3"; }
# equal WHAT A B
equal() { [[ -n $2 && $2 == "$3" ]] && echo "  ok $1: $(tr '\n' ' ' <<<"$2")" || fail "$1: expected \"$2\", got \"$3\""; }
# value KEY FILE: all values of a key of JSON, one a line.
value() { sed -n "s/^ *\"$1\": \([^,]*\),\{0,1\}$/\1/p" "$2"; }
# column KEY FILE: the values of a column of CSV without quotes.
column() { awk -F, -v key="$1" 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == key) at = i; next } { print $at }' "$2"; }

# Mounts a copy of the tree over the tree. From then on, all changes are written to the folder $1.
copy_tree() {
  mkdir -p "$1/changed" "$1/work"
  cd /
  mount -t overlay overlay -o "lowerdir=$root,upperdir=$1/changed,workdir=$1/work" "$root" 2>"$room/why" || {
    echo "trial_patches.sh: cannot mount an overlay: $(cat "$room/why")"
    exit 77
  }
  cd "$root"
}

apply() {
  local files
  files=$(grep -c '^+++ ' "tests/trial_patches/$1.patch")
  ((files <= 2)) && echo "  ok it touches $files source files" || fail "$1 touches $files source files"
  git apply "tests/trial_patches/$1.patch"
}

# Four stages, of which the last is slow. The backward pass is split, so that W may wait.
scenario() {
  cat >"$room/small.yaml" <<'YAML'
model: {stages: {forward: [1 ms, 1 ms, 1 ms, 2 ms], backward_input: 1 ms, backward_weight: 1 ms}}
cluster: {preset: uniform, devices: 4}
schedule: {name: zb-h2, stages: 4, microbatches: 400}
training: {micro_batch_size: 1}
YAML
}

# run_all NAME [FLAG ...]: runs the scenario with every engine and output. NAME.json is the plain run, which streams
# and jumps.
run_all() {
  local name=$room/$1
  shift
  local penstock=$build/bin/penstock
  "$penstock" simulate "$room/small.yaml" "$@" --json >"$name.json"
  "$penstock" simulate "$room/small.yaml" "$@" --json --timeline >"$name.timeline.json"
  "$penstock" simulate "$room/small.yaml" "$@" -o "$name.ranks.csv" -o "$name.html" >"$name.txt"
  "$penstock" sweep "$room/small.yaml" "$@" --num-microbatches 400 --quiet -o "$name.sweep.csv" -o "$name.sweep.json" \
    -o "$name.sweep.html" >"$name.sweep.txt"
  "$penstock" run "$room/small.yaml" "$@" --backend cpu-thread --num-microbatches 12 --warmup 0 --repeats 1 --time-scale 20 --json >"$name.run.json"
  "$penstock" simulate "$room/small.yaml" "$@" --num-microbatches 12 --json >"$name.short.json"
}

# invariants_and_page KEY: checks that a wrong value of the figure is refused, and that the page of figures has its
# row.
invariants_and_page() {
  "$build/bin/report_tests" --gtest_brief=1 --gtest_filter='FigureRows.*' >"$room/tests.txt" &&
    echo "  ok invariants, JSON, CSV and tables of every row" || fail "$(cat "$room/tests.txt")"
  PENSTOCK_UPDATE_GOLDENS=1 "$build/bin/report_tests" --gtest_brief=1 --gtest_filter='FigurePages.*' >/dev/null
  expect "the reference" "$1\`" docs/reference/figures.md
}

check_new_figure() {
  local key=busy_imbalance plain
  run_all figure
  plain=$(value $key "$room/figure.json")
  equal "JSON and --timeline" "$plain" "$(value $key "$room/figure.timeline.json")"
  equal "CSV of a sweep" "$plain" "$(column $key "$room/figure.sweep.csv")"
  equal "JSON of a sweep" "$plain" "$(value $key "$room/figure.sweep.json" | sort -u)"
  # A measured time is off by some per cent.
  equal "run, in tenths" "$(printf %.1f "$(value $key "$room/figure.short.json")")" "$(printf %.1f "$(value $key "$room/figure.run.json")")"
  expect "table" " imbalance" "$room/figure.txt"
  expect "table of a sweep" imbalance "$room/figure.sweep.txt"
  expect "HTML" " imbalance" "$room/figure.html"
  expect "HTML of a sweep" imbalance "$room/figure.sweep.html"
  invariants_and_page $key
}

# A sweep has no figures of ranks, because its points do not compute them.
check_new_maximum() {
  local key=peak_waiting_weight_gradients plain
  run_all maximum
  plain=$(value $key "$room/maximum.json")
  equal "JSON and --timeline" "$plain" "$(value $key "$room/maximum.timeline.json")"
  equal "CSV" "$plain" "$(column $key "$room/maximum.ranks.csv")"
  equal "run" "$(value $key "$room/maximum.short.json")" "$(value $key "$room/maximum.run.json")"
  expect "table" "waiting W" "$room/maximum.txt"
  expect "HTML" "waiting W" "$room/maximum.html"
  invariants_and_page $key
}

check_new_scenario_key() {
  local twice refused
  run_all once
  run_all key --set model.stages.slowdown=2
  twice=$((2 * $(value makespan_ns "$room/once.json")))
  equal "JSON" "$twice" "$(value makespan_ns "$room/key.json")"
  equal "--timeline" "$twice" "$(value makespan_ns "$room/key.timeline.json")"
  equal "CSV of a sweep" "$twice" "$(column makespan_ns "$room/key.sweep.csv")"
  equal "run, in times" 2 "$(awk -v a="$(value makespan_ns "$room/once.run.json")" -v b="$(value makespan_ns "$room/key.run.json")" 'BEGIN { printf "%.0f", b / a }')"
  expect "table" "makespan    $(sed -n 's/^makespan *//p' "$room/key.txt")" "$room/key.txt"
  expect "HTML" "$(sed -n 's/^makespan *//p' "$room/key.txt")" "$room/key.html"
  refused=$("$build/bin/penstock" simulate "$room/small.yaml" --set model.stages.slowdwn=2 2>&1 || true)
  equal "did you mean" "slowdown" "$(sed -n 's/.*did you mean \([a-z]*\).*/\1/p' <<<"$refused")"
  refused=$("$build/bin/penstock" simulate "$room/small.yaml" --set model.stages.slowdown=0 2>&1 || true)
  equal "range" "expected a number above 0" "$(sed -n 's/.*\(expected a number above 0\).*/\1/p' <<<"$refused")"
  PENSTOCK_UPDATE_GOLDENS=1 "$build/bin/scenarios_tests" --gtest_brief=1 --gtest_filter='KeyPages.*' >/dev/null
  expect "the reference" '`slowdown`' docs/reference/scenario.md
  expect "the JSON Schema" '"slowdown"' docs/reference/scenario.schema.json
}

build_for() {
  local targets=(penstock)
  [[ " $* " == *" new_figure "* || " $* " == *" new_maximum "* ]] && targets+=(report_tests)
  [[ " $* " == *" new_scenario_key "* ]] && targets+=(scenarios_tests)
  echo "== building ${targets[*]}"
  cmake --build "$build" --target "${targets[@]}" >"$room/build.txt" 2>&1 || { tail -n 40 "$room/build.txt" && exit 1; }
}

scenario
if [[ $together == yes ]]; then
  copy_tree "$room/together"
  for patch in "${patches[@]}"; do echo "== $patch" && apply "$patch"; done
  build_for "${patches[@]}"
  for patch in "${patches[@]}"; do echo "== $patch" && "check_$patch"; done
else
  for patch in "${patches[@]}"; do
    copy_tree "$room/$patch"
    echo "== $patch" && apply "$patch"
    build_for "$patch"
    "check_$patch"
    cd / && umount "$root" && cd "$root"
  done
fi
((failed == 0)) && echo "all checks hold" || exit 1
