#!/usr/bin/env bash
# Makes a folder with Penstock's GPU programs. They run on a machine that has only a driver, CUDA 13, torch
# and glibc 2.34:
#   scripts/gpu_pack.sh [BUILD, default build/release] [BUNDLE, default build/gpu-bundle]
# The folder contains stripped programs, the Debian libraries that they need, and the scenarios of
# scripts/gpu_run.sh. BUNDLE.tar.xz is the same folder as one file, to be copied to the machine. The script prints
# the libraries that the target machine must provide. The last line has the size of that file. If a program or
# library is missing, or if the file is larger than 50 MiB, the exit code is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release}
bundle=${2:-build/gpu-bundle}
most_kib=$((50 * 1024))
programs=(penstock penstock-cuda gpu_validation backend_cuda_tests)
# The C library and the compiler's run-time library must come from the target machine, because other versions
# would not work with its loader.
of_the_machine='^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|gomp)\.so.*)$'

missing=()
for program in "${programs[@]}"; do
  [[ -x $build/bin/$program ]] || missing+=("$build/bin/$program")
done
if ((${#missing[@]} > 0)); then
  echo "gpu_pack.sh: not built: ${missing[*]}; build the preset dev on a machine with CUDA, NCCL and LibTorch" >&2
  exit 1
fi

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib"
brought=()
for program in "${programs[@]}"; do
  strip -o "$bundle/bin/$program" "$build/bin/$program"
  while read -r name path; do
    [[ $name =~ $of_the_machine ]] && continue
    case $path in
      not) missing+=("$name, which $program needs") ;;
      /lib/* | /usr/lib/*) [[ -e $bundle/lib/$name ]] || cp -L "$path" "$bundle/lib/$name" ;;
      *) brought+=("$name") ;;
    esac
  done < <(ldd "$build/bin/$program" | sed -n 's/^[[:space:]]*\([^ ]*\) => \([^ ]*\).*/\1 \2/p')
done
cp scripts/gpu_run.sh scripts/gpu_torch_baseline.py scenarios/library/gpu/*.yaml "$bundle/"
mkdir "$bundle/pytorch"
cp tests/pytorch/{record_schedules,train_schedules,run_exported_stages}.py tools/export_stages.py "$bundle/pytorch/"
# Beside the other files its own name would hide the package torch.
cp python/penstock_sim/torch.py "$bundle/pytorch/recorder.py"

printf '%s\n' "${brought[@]}" | sort -u | paste -sd' ' | fold -s -w 110 | sed '1s/^/expected on the machine: /'
if ((${#missing[@]} > 0)); then
  printf 'gpu_pack.sh: missing: %s\n' "${missing[@]}" >&2
  exit 1
fi
tar -C "$(dirname "$bundle")" -cJf "$bundle.tar.xz" "$(basename "$bundle")"
size=$(du -k "$bundle.tar.xz" | cut -f1)
echo "$bundle.tar.xz: $(ls "$bundle/bin" | wc -l) programs, $(ls "$bundle/lib" | wc -l) libraries, $size KiB"
if ((size > most_kib)); then
  echo "gpu_pack.sh: $bundle.tar.xz has $size KiB, more than $most_kib" >&2
  exit 1
fi
