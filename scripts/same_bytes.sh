#!/usr/bin/env bash
# Checks that the output of Penstock is equal, byte for byte, for different compilers, with and without
# optimization, and in different locales: scripts/same_bytes.sh [EXECUTABLE ...]. Without arguments, it builds
# Release and Debug executables with g++ and clang++-19. The reference is the first executable in the locale
# C. All executables then run in German, Turkish and C. The last line has the number of differences.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
library=$root/scenarios/library

# Prints the commands to run, which run in a separate folder. Files in this folder are compared, too. No command may
# measure time.
commands() {
  cat <<'COMMANDS'
penstock schedules
penstock schedules --json
for name in $(penstock schedules --json | sed -n 's/^ *"name": "\(.*\)",$/\1/p'); do penstock convert --schedule $name --pp-size 4 --num-microbatches 8 -o $name.psched; done
for name in 1f1b interleaved zb-h1 zb-v looped-bfs; do penstock convert $name.psched --lower --format csv; done
for name in 1f1b zb-h2 v-min dualpipe chimera; do penstock check $name.psched --json; penstock show $name.psched; done
penstock simulate --schedule zb-v --pp-size 4 --num-microbatches 8 --json --timeline -o zb-v.json -o zb-v.csv
penstock simulate --schedule interleaved --pp-size 4 --num-microbatches 8 --virtual-stages 2 -o chart.svg -o page.html
penstock simulate --schedule 1f1b --pp-size 8 --num-microbatches 5000 --iterations 3
for file in $library/*.yaml; do penstock simulate $file --json --timeline; penstock simulate $file; done
penstock simulate $library/llama-70b-h100.yaml --set training.micro_batch_size=2 --json
penstock risk $library/gpipe-transformer-k4.yaml --jitter 0.1 --stragglers 0.01 --mtbf 50000h --seed 3 --json
penstock sweep --schedule gpipe,1f1b,zb-h1,interleaved --pp-size 1..8 --num-microbatches 1,2,4..32 --quiet -o sweep.csv -o sweep.json
penstock sweep $library/vgg16-cluster-a.yaml --schedule 1f1b-rr --pp-size 1..4 --num-microbatches 8,32 --quiet -o vgg.csv
penstock plan $library/gnmt-cluster-a.yaml --json
penstock plan $library/vgg16-cluster-a.yaml --objective sum --no-front
penstock model $library/models/llama-3.1-8b.json --device h100-sxm --sequence 8192 --json
penstock model $library/models/mixtral-8x7b.json
penstock tune --model $library/models/llama-3.1-8b.json --layers 4 --device h100-sxm --sequence 4096 --global-batch-size 16 --tensor-parallel 1,2 --context-parallel 1 --micro-batch-size 1 --json | sed 's/"seconds": *[0-9.e+-]*//'
penstock runs $library/runs/training_steps.csv --json
penstock check --baseline $library/baseline.json
penstock diff 1f1b.psched gpipe.psched
penstock diff $library/gpipe-transformer-k2.yaml $library/gpipe-transformer-k4.yaml --json
penstock simulate missing.yaml
penstock simulate --schedule 1f1b --pp-size 2 --num-microbatches 2 --set model.stages.forward=1,5ms
COMMANDS
}

# said_by EXECUTABLE LOCALE FOLDER: runs all commands, and stores their output and files in the folder.
said_by() {
  local executable=$1
  rm -rf "$3" && mkdir -p "$3" && cd "$3"
  penstock() { "$executable" "$@"; }
  commands | while read -r command; do
    # A missing locale would be replaced by C. LOCPATH is the folder in which the script has made the locales.
    (export LC_ALL=$2; eval "$command") >>said 2>>complained </dev/null || echo "exit $? of $command" >>said
  done
}

make_locales() {
  local name
  mkdir -p "$places/locales"
  for name in de_DE tr_TR; do
    localedef -i "$name" -f UTF-8 "$places/locales/$name.UTF-8" 2>/dev/null && locales+=("$name.UTF-8")
  done
  ((${#locales[@]} > 1)) || echo "no locale but C: the package \`locales\` is not installed" >&2
}

build_all() {
  local preset
  for preset in release debug clang clang-debug; do
    if [[ $preset == clang* ]] && ! command -v clang++-19 >/dev/null; then
      echo "no clang++-19 (Debian: clang-19): the preset $preset is left out" >&2
      continue
    fi
    (cd "$root" && { [[ -f build/$preset/build.ninja ]] || cmake --preset "$preset"; } &&
      cmake --build --preset "$preset" --target penstock) >&2
    executables+=("$root/build/$preset/bin/penstock")
  done
}

executables=()
for executable in "$@"; do executables+=("$(realpath "$executable")"); done
if (($# == 0)); then build_all; fi
places=$(mktemp -d)
trap 'rm -rf "$places"' EXIT
locales=(C)
make_locales
export LOCPATH=$places/locales

(said_by "${executables[0]}" C "$places/expected")
echo "$(wc -l <"$places/expected/said") lines and $(find "$places/expected" -type f | wc -l) files of ${executables[0]}"
differences=0
for executable in "${executables[@]}"; do
  for locale in "${locales[@]}"; do
    (said_by "$executable" "$locale" "$places/found")
    if diff -r "$places/expected" "$places/found" >"$places/difference"; then
      echo "the same: $executable, $locale"
    else
      differences=$((differences + 1))
      echo "DIFFERENT: $executable, $locale"
      head -n 20 "$places/difference" | cut -c -300
    fi
  done
done
echo "$differences differences"
exit $((differences > 0))
