#!/usr/bin/env bash
# Builds and runs the examples of the stable headers against an installed Penstock:
#   tests/install/check.sh PREFIX FOLDER    PREFIX: where it is installed; FOLDER: is made anew for the builds
# The first build hides the packages that a program which only predicts must not need. If the packages of the components
# are installed, the second build uses all components, and the third one shows the error if a package is missing.
set -euo pipefail
prefix=$1
folder=$2
consumer=$(dirname "${BASH_SOURCE[0]}")
hide() { printf -- '-DCMAKE_DISABLE_FIND_PACKAGE_%s=ON ' "$@"; }
configure() { cmake --no-warn-unused-cli -G Ninja -S "$consumer" -B "$folder/$1" -DCMAKE_PREFIX_PATH="$prefix" "${@:2}"; }
# The output of a step is shown only if the step fails.
quietly() { "$@" >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }; }
run() {
  quietly configure "$@"
  quietly cmake --build "$folder/$1"
  "$folder/$1/consumer"
}

rm -rf "$folder"
mkdir -p "$folder"
# shellcheck disable=SC2046 the flags are words
run predicting $(hide TBB NLopt pugixml SQLite3 OpenSSL Threads nlohmann_json Boost Eigen3 CLI11)
if [[ -d /usr/include/tbb && -e /usr/include/nlopt.hpp && -e /usr/include/pugixml.hpp && -e /usr/include/sqlite3.h && -d /usr/include/openssl ]]; then
  run everything -DEVERYTHING=ON
  # shellcheck disable=SC2046
  if configure without-tbb -DEVERYTHING=ON $(hide TBB) >"$folder/said" 2>&1 || ! grep -q TBB "$folder/said"; then
    echo "check.sh: expected an error that names TBB when it is missing, got:" >&2
    cat "$folder/said" >&2
    exit 1
  fi
fi
