#!/usr/bin/env bash
# Installs LibTorch (the torch wheel) into build/libtorch, where cmake/libtorch.cmake finds it. The download
# has about 760 MB, and the installation 1.5 GB. A second run does nothing. The script also does nothing with
# PENSTOCK_LIBTORCH=off, or if CMAKE_PREFIX_PATH contains a LibTorch. After a failure, no incomplete
# installation remains.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

# The wheel links with these libraries, which a CUDA toolkit does not contain. The package cuda-toolkit
# determines the versions of its parts.
torch_wheels=(torch==2.11.0 nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5)
toolkit_wheels=('cuda-toolkit[cudart,cupti,cufile]==13.0.2')
# The Python packages that `import torch` needs, in any suitable version. Only tests/pytorch imports torch. It
# is skipped if they are missing.
python_wheels=(filelock fsspec jinja2 networkx 'sympy>=1.13.3' 'typing-extensions>=4.10')
environment=build/libtorch
done_mark=$environment/installed
importable_mark=$environment/importable

if [[ ${PENSTOCK_LIBTORCH:-} == off ]]; then
  echo "LibTorch: not installed, PENSTOCK_LIBTORCH=off"
  exit 0
fi
IFS=: read -r -a prefixes <<<"${CMAKE_PREFIX_PATH:-}"
for prefix in "${prefixes[@]}"; do
  for root in "$prefix" "$prefix/../.."; do
    if [[ -n $prefix && -e $root/lib/libtorch_cpu.so ]]; then exit 0; fi
  done
done

pip_install() { "$environment/bin/pip" install --quiet --disable-pip-version-check --no-input --no-cache-dir "$@"; }
is_marked() { [[ -f $1 && $(<"$1") == "$2" ]]; }

make_importable() {
  is_marked "$importable_mark" "${python_wheels[*]}" && return
  echo "== installing what LibTorch's Python imports: ${python_wheels[*]}"
  if pip_install "${python_wheels[@]}"; then
    echo "${python_wheels[*]}" >"$importable_mark"
  else
    echo "LibTorch: its Python cannot import torch; PyTorch's own runtime is not tested" >&2
  fi
}

wanted="${torch_wheels[*]} ${toolkit_wheels[*]}"
if is_marked "$done_mark" "$wanted"; then
  make_importable
  exit 0
fi
if [[ $(uname -sm) != "Linux x86_64" ]]; then
  echo "LibTorch: no wheel that is known to work on $(uname -sm); name one by CMAKE_PREFIX_PATH" >&2
  exit 1
fi

echo "== installing LibTorch into $environment: $wanted"
python3 -c 'import ensurepip, venv' 2>/dev/null || install_missing python3 python3-venv
rm -rf "$environment"
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
pip_install "${toolkit_wheels[@]}"
pip_install --no-deps "${torch_wheels[@]}"
make_importable
echo "$wanted" >"$done_mark"
trap - EXIT
