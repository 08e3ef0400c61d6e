#!/usr/bin/env bash
# Makes the Debian packages penstock and libpenstock-dev, and tries them in a fresh minimal Debian 12:
#   scripts/deb.sh [FOLDER]    FOLDER: a build in release mode; default build/release, which is built first
# The packages are FOLDER/packages/NAME_VERSION_ARCHITECTURE.deb. The trial needs root and debootstrap.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
build=${1:-build/release}

install_missing "${build_packages[@]}" dpkg-dev file
if (($# == 0)); then
  [[ -f $build/build.ninja ]] || cmake --preset release
fi
cmake --build "$build" --target penstock penstock_share
rm -rf "$build/packages"
(cd "$build" && cpack -G DEB --config CPackConfig.cmake >/dev/null)
package=$(realpath "$build"/packages/penstock_*.deb)
for file in "$build"/packages/*.deb; do
  echo "$file: $(stat -c %s "$file") bytes"
  dpkg-deb --info "$file" | sed -n '/^ Architecture/,$p'
done

# The image of the Containerfile needs the same libraries. The first three are part of every Debian.
for library in $(dpkg-deb --field "$package" Depends | tr ',' '\n' | awk '{ print $1 }'); do
  case $library in
    libc6 | libgcc-s1 | libstdc++6) ;;
    *) grep -qw -- "$library" Containerfile || { echo "deb.sh: the Containerfile does not install $library" >&2; exit 1; } ;;
  esac
done

# Checks that the program runs, that the library is present, and that shells and man find their files. Then builds a
# C++ program with the installed headers. The fresh machine has no TBB, NLopt, SQLite and OpenSSL, because predictions
# do not need them.
trial='
  apt-get update -q >/dev/null
  apt-get install -q -y --no-install-recommends "$1"/penstock_*.deb man-db bash-completion >/dev/null
  penstock --version | head -n 1
  penstock simulate /usr/share/penstock/library/llama-70b-h100.yaml --quiet | grep makespan
  penstock simulate --model llama-3.1-8b --device h100-sxm --sequence 8192 --global-batch-size 64 --quiet >/dev/null
  man --no-justification penstock-sweep | grep -q "num-microbatches"
  # bash-completion loads the script of a command by its name.
  grep -q "complete -F _penstock penstock" /usr/share/bash-completion/completions/penstock
  for file in zsh/site-functions/_penstock fish/vendor_completions.d/penstock.fish doc/penstock/copyright; do
    test -s "/usr/share/$file"
  done
  apt-get install -q -y --no-install-recommends "$1"/libpenstock-dev_*.deb cmake g++ ninja-build >/dev/null
  tests/install/check.sh /usr /tmp/penstock-consumer
  apt-get remove -q -y penstock libpenstock-dev >/dev/null
  ! test -e /usr/bin/penstock
  ! test -e /usr/include/penstock
  echo "the packages were installed, used and removed"'
folder=$(realpath "$build/packages")
PENSTOCK_FRESH_BIND=$folder exec scripts/fresh_machine.sh bash -euo pipefail -c "$trial" deb "$folder"
