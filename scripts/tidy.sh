#!/usr/bin/env bash
# Runs clang-tidy on changed sources of the program: scripts/tidy.sh [--together] [--deep] BUILD_DIRECTORY. Tests
# and benchmarks are not checked, because clang-tidy cannot analyse their macros. A source is checked again if the
# source, a header of the project that it includes, the flags, .clang-tidy or clang-tidy itself have changed
# since it was found clean. If only the folder of a file changes, it is not checked again. TIDY_JOBS checks
# (default: the number of processors) run at the same time.
#
# Each source is read alone and without precompiled headers. So missing includes are found in sources, and in headers
# that their own source includes first. --together reads the sources together that the build compiles together. It
# takes a fourth of the time. It does not look at includes, nor for exceptions that leave a destructor: it would follow calls
# into the other sources, and find exceptions that the arguments of these calls rule out.
#
# clang-tidy comes from a wheel that is stored in build/tools. It skips the system's headers and takes half of
# the time of Debian's version. --deep adds the static analyzer, which doubles the time.
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
together=
checks=  # names that are added to those of .clang-tidy
while [[ ${1:-} == --* ]]; do
  case $1 in
    --together) together=yes checks+=,-misc-include-cleaner,-bugprone-suspicious-include,-bugprone-exception-escape ;;
    --deep) checks+=",clang-analyzer-*" ;;
    *) echo "tidy.sh: unknown flag $1; expected --together or --deep" >&2; exit 2 ;;
  esac
  shift
done
build=$(realpath "${1:-build/release}")
stamps=$build/tidy${together:+-together}
jobs=${TIDY_JOBS:-$(nproc)}
rm -rf "$stamps/wanted"
mkdir -p "$stamps/wanted" "$stamps/clean"
settings=$({ cat .clang-tidy; echo "$checks"; echo "$wheel"; grep CMAKE_CXX_FLAGS: "$build/CMakeCache.txt"; } | sha256sum | cut -c1-64)

# Writes the command that compiles each source. Also writes a file for each source, with the data on which a clean run
# depends. The name of the file is the path of the source with % in place of /. The file has the digests of the settings,
# of the source, and of all headers of the project that the source reaches. In a digest, the includes of project files are
# without folders and in alphabetical order. The build compiles many sources together. With --together, such a "source"
# is the file that CMake has written to include them, and otherwise each of them.
python3 - "$build/compile_commands.json" "$stamps" "$settings" "$together" <<'PYTHON'
import hashlib, json, pathlib, re, sys

commands, stamps, settings, together = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
root = pathlib.Path.cwd()
include = re.compile(r'^#include "(.*)".*\n?', re.M)
precompiled = re.compile(r' -Winvalid-pch -include \S*cmake_pch\.hxx| -fpch-preprocess')


def members(file):
    """Those that the compiled `file` consists of: itself, unless CMake has written it to include them."""
    return include.findall(file.read_text()) if file.parent.name == "Unity" else [str(file)]


def is_checked(source):
    return source.suffix == ".cpp" and source.is_relative_to(root) and source.relative_to(root).parts[0] not in ("build", "bench", "tests")


checked, seen = {}, set()
entries = json.loads(pathlib.Path(commands).read_text())
for entry in sorted(entries, key=lambda entry: len(members(pathlib.Path(entry["file"]))), reverse=True):
    inside = [source for source in members(pathlib.Path(entry["file"])) if is_checked(pathlib.Path(source)) and source not in seen]
    seen.update(inside)
    for source in [entry["file"]] if together and inside else inside:
        command = precompiled.sub("", entry["command"]).replace(entry["file"], source)
        checked[source] = {"directory": entry["directory"], "command": command, "file": source}
(stamps / "compile_commands.json").write_text(json.dumps(list(checked.values())))

known = {}  # a file's digest and the files of the project that it includes


def facts(path):
    if path not in known:
        text = path.read_text()
        names = include.findall(text)
        lines = [include.sub("", text)] + sorted(name.rsplit("/", 1)[-1] for name in names)
        found = (root / name for name in names)
        known[path] = hashlib.sha256("\n".join(lines).encode()).hexdigest(), [f for f in found if f.is_file()]
    return known[path]


def reached(source):
    files, waiting = set(), [source]
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.add(file)
            waiting += facts(file)[1]
    return files


for source in map(pathlib.Path, checked):
    depends = sorted(f"{facts(file)[0]} {file.name}" for file in reached(source))
    name = str(source.relative_to(root)).replace("/", "%")
    (stamps / "wanted" / name).write_text("\n".join([settings] + depends) + "\n")
PYTHON

# A clean run creates a file. Its name is the digest of all these data.
key_of() { sha256sum <"$stamps/wanted/$1" | cut -c1-64; }

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
  local flags=(--checks="$checks")
  if [[ -n $filter ]]; then flags+=(--header-filter="$filter"); fi
  if output=$("$tidy" -p "$stamps" --quiet "${flags[@]}" --extra-arg=-Wno-unknown-warning-option "$source" 2>&1); then
    touch "$stamps/clean/$(key_of "$name")"
    echo "[$number/$total] $source ($((SECONDS - begin)) s)"
  else
    printf '[%s] %s FAILED\n%s\n' "$number/$total" "$source" "$output"
    return 1
  fi
}
export -f check_one key_of
# What a file includes counts as a header, so findings in sources that are included need a wider filter.
filter=${together:+$(sed -n "s/^HeaderFilterRegex: '\(.*\)hpp'/\1[ch]pp/p" .clang-tidy)}
export build stamps filter checks=${checks#,} total=${#stale[@]}
for i in "${!stale[@]}"; do printf '%s:%s\0' "$((i + 1))" "${stale[$i]}"; done |
  xargs -0 -P "$jobs" -I{} bash -c 'check_one "$1"' _ {}
