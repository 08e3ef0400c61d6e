#!/usr/bin/env bash
# clang-tidy over the sources of the program (tests and benchmarks apart, whose macros it does not see through) that
# have changed: scripts/tidy.sh BUILD_DIRECTORY. A source is checked again when it, a header of
# the project that it includes, its compile command's flags, .clang-tidy or clang-tidy itself has changed since it was
# last found clean. TIDY_JOBS (default: the processors) run at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "${1:-build/dev}")
stamps=$build/tidy
jobs=${TIDY_JOBS:-$(nproc)}
rm -rf "$stamps/wanted"
mkdir -p "$stamps/wanted" "$stamps/clean"

# What a clean run depended on, a file a source: the digests of its files and of the settings. Ninja knows the headers.
settings=$({ cat .clang-tidy; clang-tidy-19 --version; grep CMAKE_CXX_FLAGS: "$build/CMakeCache.txt"; } | sha256sum | cut -c1-64)
find . -path ./build -prune -o -type f \( -name '*.cpp' -o -name '*.hpp' \) -printf '%P\0' | xargs -0 sha256sum >"$stamps/digests"
ninja -C "$build" -t deps 2>/dev/null | awk -v root="$PWD/" -v wanted="$stamps/wanted/" -v settings="$settings" '
  FNR == NR { digest[$2] = $1; next }
  /^[^ ]/ { if (file) close(file); file = ""; next }
  NF == 0 { next }
  {
    path = $1
    if (index(path, root) == 1) path = substr(path, length(root) + 1)
    if (!(path in digest)) next
    if (!file) {
      if (path !~ /\.cpp$/ || path ~ /^(tests|bench)\//) next
      file = path; gsub("/", "%", file); file = wanted file
      print settings > file
    }
    print digest[path], path > file
  }' "$stamps/digests" -

stale=()
for wanted in "$stamps"/wanted/*; do
  cmp -s "$wanted" "$stamps/clean/${wanted##*/}" || stale+=("${wanted##*/}")
done
echo "clang-tidy: ${#stale[@]} of $(find "$stamps/wanted" -type f | wc -l) sources to check"
if ((${#stale[@]} == 0)); then exit 0; fi

check_one() {
  local number=${1%%:*} name=${1#*:} source output begin=$SECONDS
  source=${name//%//}
  if output=$(clang-tidy-19 -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option "$source" 2>&1); then
    cp "$stamps/wanted/$name" "$stamps/clean/$name"
    echo "[$number/$total] $source ($((SECONDS - begin)) s)"
  else
    printf '[%s] %s FAILED\n%s\n' "$number/$total" "$source" "$output"
    return 1
  fi
}
export -f check_one
export build stamps total=${#stale[@]}
for i in "${!stale[@]}"; do printf '%s:%s\0' "$((i + 1))" "${stale[$i]}"; done |
  xargs -0 -P "$jobs" -I{} bash -c 'check_one "$1"' _ {}
