#!/usr/bin/env bash
# Makes the Debian package of Penstock and tries it in a fresh minimal Debian 12:
#   scripts/deb.sh [FOLDER]      FOLDER: a build in release mode; default build/release, which is built first
# The package is FOLDER/packages/penstock_VERSION_ARCHITECTURE.deb. Root and debootstrap are needed for the trial.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
build=${1:-build/release}

install_missing "${build_packages[@]}" dpkg-dev
if (($# == 0)); then
  [[ -f $build/build.ninja ]] || cmake --preset release
fi
cmake --build "$build" --target penstock penstock_share
rm -rf "$build/packages"
(cd "$build" && cpack -G DEB --config CPackConfig.cmake >/dev/null)
package=$(ls "$build"/packages/penstock_*.deb)
echo "$package: $(stat -c %s "$package") bytes"
dpkg-deb --info "$package" | sed -n '/^ Package/,$p'

# The image of the Containerfile needs the same libraries. The first three are part of every Debian.
for library in $(dpkg-deb --field "$package" Depends | tr ',' '\n' | awk '{ print $1 }'); do
  case $library in
    libc6 | libgcc-s1 | libstdc++6) ;;
    *) grep -qw -- "$library" Containerfile || { echo "deb.sh: the Containerfile does not install $library" >&2; exit 1; } ;;
  esac
done

# Installed where nothing else is: the program runs, the library is there, and shells and man find their files.
PENSTOCK_FRESH_BIND=$(realpath "$build/packages") exec scripts/fresh_machine.sh bash -euc '
  apt-get update -q >/dev/null
  apt-get install -q -y --no-install-recommends "$1" man-db bash-completion >/dev/null
  penstock --version | head -n 1
  penstock simulate /usr/share/penstock/library/llama-70b-h100.yaml --quiet | grep makespan
  penstock simulate --model llama-3.1-8b --device h100-sxm --sequence 8192 --global-batch-size 64 --quiet >/dev/null
  man --no-justification penstock-sweep | grep -q "num-microbatches"
  # bash-completion loads the script of a command by its name.
  grep -q "complete -F _penstock penstock" /usr/share/bash-completion/completions/penstock
  for file in zsh/site-functions/_penstock fish/vendor_completions.d/penstock.fish doc/penstock/copyright; do
    test -s "/usr/share/$file"
  done
  apt-get remove -q -y penstock >/dev/null
  ! test -e /usr/bin/penstock
  echo "the package was installed, used and removed"' deb "$(realpath "$package")"
