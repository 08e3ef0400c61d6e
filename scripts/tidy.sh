#!/usr/bin/env bash
# clang-tidy over the sources of the program (tests and benchmarks apart, whose macros it does not see through) that
# have changed: scripts/tidy.sh [--deep] BUILD_DIRECTORY. A source is checked again when it, a header of the project that it
# includes, the flags, .clang-tidy or clang-tidy itself differ from all that was found clean before. Folders do not
# count: a file that moves, and one that includes a file that moved, stay clean. TIDY_JOBS (default: the processors) run
# at a time.
#
# Sources are read without precompiled headers, so that one that includes too little is seen here, as is a header that
# its own source includes first.
#
# The release is a wheel that is kept in build/tools: it passes over the system's headers, which halves the time of
# Debian's. --deep adds the static analyzer, which takes as long again as all the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
wheel=clang-tidy==23.1.4
tools=build/tools
export tidy=$tools/bin/clang-tidy

install_tidy() {
  [[ -f $tools/installed && $(<"$tools/installed") == "$wheel" ]] && return
  echo "== installing $wheel into $tools"
  python3 -c 'import ensurepip, venv' 2>/dev/null || install_missing python3 python3-venv
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --no-input "$wheel"
  echo "$wheel" >"$tools/installed"
}
install_tidy
checks=()
if [[ ${1:-} == --deep ]]; then
  checks=(--checks=clang-analyzer-*)
  shift
fi
build=$(realpath "${1:-build/dev}")
stamps=$build/tidy
jobs=${TIDY_JOBS:-$(nproc)}
rm -rf "$stamps/wanted" "$stamps/texts"
mkdir -p "$stamps/wanted" "$stamps/texts" "$stamps/clean"
sed -E 's/ -Winvalid-pch -include [^ ]*cmake_pch\.hxx//; s/ -fpch-preprocess//' "$build/compile_commands.json" \
  >"$stamps/compile_commands.json"

# Each file's text as clean runs remember it: what it includes of the project comes last, in alphabetical order and
# without folders. The copies' names are paths with % for /.
find . -path ./build -prune -o -type f \( -name '*.cpp' -o -name '*.hpp' \) -printf '%P\0' |
  xargs -0 awk -v texts="$stamps/texts/" '
    FNR == 1 { if (copy) close(copy); copy = FILENAME; gsub("/", "%", copy); copy = texts copy; printf "" > copy }
    /^#include "/ { header = $2; gsub("\"|.*/", "", header); print copy, header; next }
    { print > copy }' |
  sort | awk '$1 != copy { if (copy) close(copy); copy = $1 } { print $2 >> copy }'
(cd "$stamps/texts" && find . -type f -printf '%P\0' | xargs -0 sha256sum) >"$stamps/digests"

# What a clean run depends on, a file a source: the digests of its files and of the settings. Ninja knows the headers.
settings=$({ cat .clang-tidy; echo "${checks[@]}"; echo "$wheel"; grep CMAKE_CXX_FLAGS: "$build/CMakeCache.txt"; } | sha256sum | cut -c1-64)
ninja -C "$build" -t deps 2>/dev/null | awk -v root="$PWD/" -v wanted="$stamps/wanted/" -v settings="$settings" '
  FNR == NR { digest[$2] = $1; next }
  /^[^ ]/ { if (file) close(file); file = ""; next }
  NF == 0 { next }
  {
    path = $1
    if (index(path, root) == 1) path = substr(path, length(root) + 1)
    sub(/^(\.\.\/)+/, "", path)  # as compiler caches write it
    gsub("/", "%", path)
    if (!(path in digest)) next
    if (!file) {
      if (path !~ /\.cpp$/ || path ~ /^(tests|bench)%/) next
      file = wanted path
      print settings > file
    }
    name = path; sub(".*%", "", name)
    print digest[path], name > file
  }' "$stamps/digests" -

# A clean run leaves a file whose name is the digest of all that.
key_of() { sort "$stamps/wanted/$1" | sha256sum | cut -c1-64; }

shopt -s nullglob
stale=()
for wanted in "$stamps"/wanted/*; do
  name=${wanted##*/}
  [[ -e $stamps/clean/$(key_of "$name") ]] || stale+=("$name")
done
echo "clang-tidy: ${#stale[@]} of $(find "$stamps/wanted" -type f | wc -l) sources to check"
if ((${#stale[@]} == 0)); then exit 0; fi

check_one() {
  local number=${1%%:*} name=${1#*:} source output begin=$SECONDS
  source=${name//%//}
  if output=$("$tidy" -p "$stamps" --quiet ${deep:+"$deep"} --extra-arg=-Wno-unknown-warning-option "$source" 2>&1); then
    touch "$stamps/clean/$(key_of "$name")"
    echo "[$number/$total] $source ($((SECONDS - begin)) s)"
  else
    printf '[%s] %s FAILED\n%s\n' "$number/$total" "$source" "$output"
    return 1
  fi
}
export -f check_one key_of
export build stamps deep=${checks[0]:-} total=${#stale[@]}
for i in "${!stale[@]}"; do printf '%s:%s\0' "$((i + 1))" "${stale[$i]}"; done |
  xargs -0 -P "$jobs" -I{} bash -c 'check_one "$1"' _ {}
