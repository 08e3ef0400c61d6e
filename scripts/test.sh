#!/usr/bin/env bash
# Installs missing packages, builds everything and runs all checks on a Debian 12 machine. The last line has
# the number of checks. A second run repeats only the steps that changes require.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
build=build/release
passed=0
failed=0
failures_report=()

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

# Runs a single check and counts it.
check() {
  local name=$1
  shift
  step "$name"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
    failures_report+=("$name")
  fi
}

# Prints the failures again at the end, because a log is often read from its end.
finish() {
  if ((failed > 0)); then
    step "what failed"
    printf '%s\n' "${failures_report[@]}"
  fi
  echo "$passed passed, $failed failed"
  exit $((failed > 0))
}

sources() {
  find text topology schedules report scenarios sim backend cli tests bench -type f \
    \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null
}
format_check() { sources | xargs -0 clang-format-19 --dry-run -Werror; }

# The build is configured again each time, because scripts/demo.sh and scripts/wheel.sh configure the same folder
# without tests.
build_all() { cmake --preset dev && cmake --build --preset dev; }

# The build is configured again, because the configuration determines which headers no source of the same name
# includes first.
header_check() { cmake --preset dev >/dev/null && cmake --build --preset dev --target all_verify_interface_header_sets; }

install_check() {
  local prefix=$PWD/$build/install-prefix
  rm -rf "$prefix"
  cmake --install "$build" --prefix "$prefix" >/dev/null &&
    tests/install/check.sh "$prefix" "$build/install-consumer" &&
    "$prefix/bin/penstock" --version
}

# Runs the sanitizers on the readers of external bytes only, because this build takes few seconds. CONTRIBUTING.md
# says how to run all sanitizers on all tests.
sanitized_readers() {
  { [[ -f build/asan-part/build.ninja ]] || cmake --preset asan-part >/dev/null; } &&
    cmake --build --preset asan-part --target fuzz_tests && build/asan-part/bin/fuzz_tests
}

# Runs the thread sanitizer on tests of ranks in threads and of sockets. Tests with short deadlines are left out,
# because the sanitizer makes the program slower.
threads_watched() {
  { [[ -f build/tsan-part/build.ninja ]] || cmake --preset tsan-part >/dev/null; } &&
    cmake --build --preset tsan-part --target backend_tests &&
    TSAN_OPTIONS=history_size=7 build/tsan-part/bin/backend_tests --gtest_brief=1 \
      --gtest_filter='ThreadRun*:Transport*:RunningAttacks*:SocketLoop*:SocketTransport*-*Deadline*'
}

# Prints the Pythons for which wheels are made: that of this machine, and the first one of version 3.12 or newer that
# is found. The latter makes the wheel for the stable interface, with cp312-abi3 in its name. The second wheel
# compiles the module and links again.
pythons_of_wheels() {
  echo python3
  local python
  for python in python3.12 python3.13 python3.14 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9].*/bin/python3; do
    if command -v "$python" >/dev/null && "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
}
wheels_check() {
  local pythons
  mapfile -t pythons < <(pythons_of_wheels)
  if ((${#pythons[@]} < 2)); then echo "no Python from 3.12 on is at hand: the wheel cp312-abi3 is not made"; fi
  scripts/wheel.sh "${pythons[@]}"
}

# Counts the tests of CTest's report. A test has passed if it has neither failed nor been skipped.
count_tests() {
  local suite total failures skipped
  suite=$(tr '\n\t' '  ' <"$1" | grep -m1 -o '<testsuite [^>]*')
  number() { sed -n "s/.* $1=\"\([0-9]*\)\".*/\1/p" <<<"$suite"; }
  total=$(number tests) failures=$(number failures) skipped=$(($(number skipped) + $(number disabled)))
  failed=$((failed + failures))
  passed=$((passed + total - failures - skipped))
  echo "tests: $total, of them $failures failed and $skipped skipped"
  if ((failures > 0)); then failures_report+=("$(failed_tests "$1")"); fi
}

# Prints the name and the last lines of each test that has failed according to CTest's report.
failed_tests() {
  python3 - "$1" <<'PYTHON'
import sys
import xml.etree.ElementTree

for case in xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
    if case.get("status") == "fail":
        lines = (case.findtext("system-out") or "").splitlines()
        print("test", case.get("name"), *lines[-40:], sep="\n  ")
PYTHON
}

# run_tests NAME [CTEST ARGUMENT ...]
run_tests() {
  local name=$1 report=$PWD/$build/ctest-$1.xml
  shift
  step "tests: $name"
  rm -f "$report"
  ctest --preset dev --output-junit "$report" "$@" || true
  if [[ -s $report ]]; then
    count_tests "$report"
  else
    failed=$((failed + 1))
    failures_report+=("tests: $name (CTest wrote no report)")
  fi
}

install_missing "${test_packages[@]}"
scripts/libtorch.sh || echo "LibTorch could not be installed: what needs it is left out, and its tests are skipped"
check "format" format_check
failed_before=$failed
check "build" build_all
if ((failed > failed_before)); then finish; fi
check "clang-tidy" scripts/tidy.sh --together "$build"
check "headers compile alone" header_check
run_tests all-but-timing --label-exclude timing
# Other programs also use the machine on which times are measured, so the best of three runs counts.
run_tests timing --label-regex timing --repeat until-pass:3
check "install and use" install_check
check "pages of the C++ interface" scripts/api_pages.sh "$build/api"
# The wheel is made from build/release. In CI, scripts/demo.sh has built it before this script runs.
check "Python wheels in an empty environment" wheels_check
check "readers under sanitizers" sanitized_readers
check "threads under the thread sanitizer" threads_watched
finish
