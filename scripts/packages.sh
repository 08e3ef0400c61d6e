# shellcheck shell=bash disable=SC2034 The Debian packages that Penstock needs, and a function that installs
# them. demo.sh and test.sh source this file.

build_packages=(
  cmake ninja-build g++ pkg-config
  libboost-dev libboost-graph-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libfmt-dev
  libpugixml-dev libtbb-dev libexpected-dev libxxhash-dev libnlopt-cxx-dev libeigen3-dev libssl-dev zlib1g-dev
  libsqlite3-dev libtomlplusplus-dev
)
test_packages=(
  "${build_packages[@]}"
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev clang-format-19 git
  iproute2 locales doxygen
)

# Installs the named packages that are missing, without questions. If none is missing, it does not call
# apt-get.
install_missing() {
  local package missing=()
  for package in "$@"; do
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then return; fi
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || {
      echo "missing packages: ${missing[*]}; run as root, or install sudo" >&2
      return 1
    }
    as_root=(sudo)
  fi
  echo "== installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}
