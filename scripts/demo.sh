#!/usr/bin/env bash
# Builds the release core on a Debian 12 machine and sweeps VGG-16 over stages, microbatches and schedules.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

install_missing "${build_packages[@]}"
echo "== building (build/release)"
[[ -f build/release/build.ninja ]] || cmake --preset release
cmake --build --preset release

echo "== VGG-16 on 16 V100: K = 1..16 stages, M = 1..128 microbatches, four schedules"
mkdir -p out
build/release/bin/penstock sweep scenarios/library/vgg16-cluster-a.yaml \
  --pp-size 1..16 --num-microbatches 1,2,4..128 --schedule naive,gpipe,1f1b,1f1b-rr \
  -o out/vgg16-cluster-a.csv -o out/vgg16-cluster-a.html
