#!/usr/bin/env bash
# Compares the output of two builds of Penstock byte for byte: scripts/same_output.sh OLD NEW [SCENARIOS]
#
# Use it before and after a change of the code that must not change a number. It runs both executables on 500
# scenarios: the library's, every schedule over several K and M, and random ones (the same ones in each run of the
# script). Each scenario goes through plain `simulate`, `simulate --json`, `simulate --json --timeline` with its
# files (CSV, HTML, SVG, Chrome trace), and `sweep` with its tables. Refusals count as output. The script prints
# each scenario whose output differs, with the first lines of the difference, and exits with 1 if there is one.
#
# Its neighbour same_bytes.sh runs fewer commands, and compares compilers and locales instead of two versions.
set -uo pipefail  # no -e: a command that fails is output to compare
(($# >= 2)) || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
old=$(realpath "$1")
new=$(realpath "$2")
wanted=${3:-500}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
scenarios=$place/scenarios
mkdir "$scenarios"

# --- the scenarios -------------------------------------------------------------------------------------------

# Prints one of its arguments, drawn at random. bash's RANDOM is the same sequence for the same seed.
one_of() { drawn=${*:RANDOM % $# + 1:1}; }
# Succeeds once in $1 draws.
one_in() { ((RANDOM % $1 == 0)); }

copy_library() {
  local file
  for file in "$root"/scenarios/library/*.yaml; do echo "$file" >"$scenarios/library-$(basename "$file" .yaml)"; done
}

write_shapes() {
  local shape chunks
  for schedule in "${schedules[@]}"; do
    for shape in "1 3" "2 4" "4 8" "5 20" "8 16"; do
      read -r stages microbatches <<<"$shape"
      chunks=
      [[ " ${chunked[*]} " == *" $schedule "* ]] && chunks=", virtual_stages: 2"
      echo "schedule: {name: $schedule, stages: $stages, microbatches: $microbatches$chunks}" \
        >"$scenarios/shape-$schedule-$stages-$microbatches.yaml"
    done
  done
}

# Writes the random scenario number $1.
write_random() {
  local model='' cluster='' options='' training='' parts=''
  one_of "${schedules[@]}"; local schedule=$drawn
  one_of 1 2 2 3 4 4 6 8; local stages=$drawn
  one_of 1 2 3 4 6; local microbatches=$((stages * drawn))
  one_in 4 && microbatches=$((microbatches + RANDOM % 3))
  [[ " ${chunked[*]} " == *" $schedule "* ]] && one_in 2 && options+=", virtual_stages: 2"
  one_in 6 && options+=", data_parallel: 2"
  one_in 12 && { one_of none 1 2 3; options+=", sharding: $drawn"; }
  one_in 10 && { one_of always except_last; options+=", checkpoint: $drawn"; }
  one_in 20 && options+=", checkpoint: always, recompute: late"
  one_in 10 && options+=", barrier: true"
  one_in 10 && options+=", blocking: true"
  one_in 12 && { one_of 1 2 4; options+=", capacity: $drawn"; }
  one_in 12 && options+=", eager: 1 MB"
  one_in 16 && options+=", launch_order: true"
  one_in 3 && { one_of rank pair direction directed boundary; options+=", channel: $drawn"; }
  one_in 20 && options+=", buckets: 2"
  one_in 20 && options+=", warmup: $((RANDOM % 4 + 1))"
  [[ $schedule == 1f1b-rr ]] && one_in 2 && { one_of latest vertical_sync stash; options+=", weights: $drawn"; }
  if ! one_in 4; then
    for key in activation kept weights transient; do
      one_in 2 && parts+=", $key: $((RANDOM % 8 + 1)) MB"
    done
    one_in 6 && parts+=", recomputed: 2 MB"
    one_in 5 && parts+=", step: $((RANDOM % 3)) ms"
    one_in 6 && parts+=", overhead: 20 us"
    if one_in 2; then
      model="model: {stages: {forward: $((RANDOM % 5)) ms, backward: $((RANDOM % 9 + 1)) ms$parts}}"
    else
      parts+=", backward_input: $((RANDOM % 4 + 1)) ms, backward_weight: $((RANDOM % 4 + 1)) ms"
      model="model: {stages: {forward: $((RANDOM % 5 + 1)) ms$parts}}"
    fi
  fi
  case $((RANDOM % 5)) in
    0) cluster="cluster: {preset: uniform, bandwidth: 1 GB/s, latency: $((RANDOM % 900)) us, memory: 40 MB}" ;;
    1) cluster="cluster: {preset: uniform, latency: 2 ms}" ;;
    2) cluster="cluster: {preset: two-level, nodes: 4, devices_per_node: 4, intra_bandwidth: 8 GB/s,
      inter_bandwidth: 1 GB/s}" ;;
  esac
  one_in 8 && training+=", iterations: $((RANDOM % 2 + 2))"
  one_in 8 && training+=", weight_versions: cloned"
  one_in 4 && training+=", micro_batch_size: 4"
  one_in 8 && training+=", optimizer: adam"
  {
    echo "schedule: {name: $schedule, stages: $stages, microbatches: $microbatches$options}"
    printf '%s\n' "$model" "$cluster"
    [[ -n $training ]] && echo "training: {${training:2}}"
  } >"$scenarios/random-$1.yaml"
}

# The schedules that take virtual_stages; "chunked" asks one of the executables.
mapfile -t schedules < <("$old" schedules --json | sed -n 's/^ *"name": "\(.*\)",$/\1/p')
mapfile -t chunked < <("$old" schedules | awk '/^[^ ]/ {name = $1} /^ *options .*virtual_stages/ {print name}')
copy_library
write_shapes
RANDOM=34
for ((number = $(find "$scenarios" -type f | wc -l); number < wanted; ++number)); do write_random "$number"; done

# --- the runs ------------------------------------------------------------------------------------------------

# said_by EXECUTABLE SCENARIO FOLDER: runs all commands, and stores their output and files in FOLDER.
said_by() {
  local penstock=$1 scenario=$2 folder=$3
  # A scenario of the library refers to files beside it. It is therefore given as a file that contains its name.
  [[ $scenario == *.yaml ]] || scenario=$(cat "$scenario")
  mkdir -p "$folder" && cd "$folder"
  run() {
    local name=$1
    shift
    timeout 60 "$penstock" "$@" >"$name.out" 2>"$name.err" </dev/null || echo "exit $?" >>"$name.out"
  }
  run plain simulate "$scenario"
  run json simulate "$scenario" --json
  run timeline simulate "$scenario" --json --timeline -o spans.csv -o page.html -o chart.svg -o trace.json
  run sweep sweep "$scenario" --quiet -o table.csv -o table.json
}

# both SCENARIO: prints its name if the two executables differ on it.
both() {
  local name
  name=$(basename "$1" .yaml)
  (said_by "$old" "$1" "$place/old/$name")
  (said_by "$new" "$1" "$place/new/$name")
  if ! diff -r "$place/old/$name" "$place/new/$name" >"$place/differs-$name"; then
    echo "DIFFERENT: $name"
    head -n 12 "$place/differs-$name" | cut -c -300
    [[ $1 == *.yaml ]] && sed 's/^/    /' "$1"
  else
    rm "$place/differs-$name"
    grep -q '^exit' "$place/old/$name/plain.out" && touch "$place/refused-$name"
  fi
  rm -rf "$place/old/$name" "$place/new/$name"
}

export -f said_by both
export old new place
find "$scenarios" -type f | sort | xargs -P "$(nproc)" -I{} bash -c 'both {}'
differences=$(find "$place" -name 'differs-*' | wc -l)
refused=$(find "$place" -name 'refused-*' | wc -l)
echo "$(find "$scenarios" -type f | wc -l) scenarios ($refused are refused by both), $differences differences"
exit $((differences > 0))
