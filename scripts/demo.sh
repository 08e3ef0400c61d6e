#!/usr/bin/env bash
# Builds the release core on a Debian 12 machine. Then predicts Llama 3.1 70B on 64 H100 with several schedules, and
# compares predictions with measured training steps. Sweeps VGG-16 over stages, microbatches and schedules, and
# explains the idle time of the Llama run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

cat <<'TEXT'
This builds Penstock and writes three pages:
  1. installs what is missing of its Debian packages      about a minute
  2. builds the program build/release/bin/penstock        about 6 minutes on 2 cores, 1 on 16
  3. out/llama-70b-h100.html   K, v and schedule for Llama 3.1 70B on 64 H100
     out/measured-runs.html    32 measured training steps beside their predictions
     out/vgg16-cluster-a.html  PipeDream's VGG-16 over K, M and schedules           some seconds
     and prints why the ranks of the Llama run are idle
A second run builds only what has changed.
TEXT
install_missing "${build_packages[@]}"
echo "== building (build/release)"
cmake --preset release
cmake --build --preset release

mkdir -p out
echo "== Llama 3.1 70B on 64 H100: tensor 8, K = 2, 4, 8 stages, v = 1, 2, 5 chunks, three schedules"
build/release/bin/penstock sweep scenarios/library/llama-70b-h100.yaml \
  --pp-size 2,4,8 --virtual-stages 1,2,5 --schedule 1f1b,interleaved,zb-h1 \
  -o out/llama-70b-h100.csv -o out/llama-70b-h100.html

echo "== 32 training steps that others measured, on up to 8192 GPUs, beside predictions"
build/release/bin/penstock runs scenarios/library/runs/training_steps.csv -o out/measured-runs.html

echo "== VGG-16 on 16 V100: K = 1..16 stages, M = 1..128 microbatches, four schedules"
build/release/bin/penstock sweep scenarios/library/vgg16-cluster-a.yaml \
  --pp-size 1..16 --num-microbatches 1,2,4..128 --schedule naive,gpipe,1f1b,1f1b-rr \
  -o out/vgg16-cluster-a.csv -o out/vgg16-cluster-a.html
echo "== Why each rank of the Llama run is idle, and what to mend first"
build/release/bin/penstock explain scenarios/library/llama-70b-h100.yaml -o out/llama-70b-h100-why.txt
echo "== done in $SECONDS s: open out/llama-70b-h100.html, and try build/release/bin/penstock --help"
