#!/usr/bin/env bash
# Tests Penstock on one GPU within a time limit, from a folder that scripts/gpu_pack.sh made:
#   OUT=FOLDER [LIMIT=540] [STEPS=REGEX] BUNDLE/gpu_run.sh
# With an NCCL of 2.30 or newer in BUNDLE/nccl/libnccl.so.2, ranks also share the GPU over NCCL (a rehearsal).
# The rehearsal begins with 1F1B of two ranks. PARTS says what follows; PARTS=losses takes about a minute, and
# PARTS=recorder records schedules of torch.distributed.pipelining.
# The most important steps come first. Each step has its own time limit, so a step that fails or is too slow costs
# only its own time. $OUT/summary.txt gets a line for each step. After each step, $OUT/all.tar contains all files that
# have been written. The exit code is 0 if every step that was begun has ended with 0 or 77 (skipped), and 1
# otherwise.
set -uo pipefail
: "${OUT:?the folder that results go to}"
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LIMIT=${LIMIT:-540}
STEPS=${STEPS:-.}
PENSTOCK=${PENSTOCK:-penstock}
BACKEND=${BACKEND:-cuda-local}
REPEATS=${REPEATS:-3}
PARTS=${PARTS:-schedules losses four-ranks launch-order groups recorder validate}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PENSTOCK BACKEND REPEATS PARTS PYTHONUNBUFFERED=1 BUNDLE=$bundle PREFIX="" SCALE=3 EACH=60
export PATH=$bundle/bin:$PATH
torch=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))' 2>/dev/null || true)
libraries=$bundle/lib:/usr/local/cuda/lib64
if [[ -n $torch ]]; then
  libraries+=:$torch/lib
  for folder in "$torch"/../nvidia/*/lib; do libraries+=:$folder; done
fi
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
failures=0

keep() { tar -C "$work" -cf "$OUT/all.tar.new" . && mv "$OUT/all.tar.new" "$OUT/all.tar"; }

say() { echo "$*" | tee -a "$OUT/summary.txt"; }

# step NAME SECONDS COMMAND: runs COMMAND by bash in the folder of results, for at most SECONDS.
step() {
  local name=$1 most=$2 left=$((LIMIT - SECONDS)) begin=$SECONDS status
  [[ $name =~ $STEPS ]] || return 0
  if ((left < 5)); then
    say "$(printf '%-24s not begun: no time is left' "$name")"
    return
  fi
  ((most <= left)) || most=$left
  (cd "$work" && exec timeout -k 5 "$most" bash -c "$3") >"$work/$name.log" 2>&1 </dev/null
  status=$?
  ((status == 0 || status == 77)) || failures=$((failures + 1))
  say "$(printf '%-24s exit %3d %4d s  %s' "$name" "$status" $((SECONDS - begin)) "$(tail -n 1 "$work/$name.log" | cut -c1-120)")"
  keep
}

# Predicts and executes one schedule on free links, and compares action by action: SCHEDULE K M V [FLAG...]. Forwards
# take $SCALE ms.
compared() {
  local schedule=$1 ranks=$2 microbatches=$3 chunks=$4 name=$PREFIX$1-K$2
  local shape=(--schedule "$schedule" --pp-size "$ranks" --num-microbatches "$microbatches" --virtual-stages "$chunks")
  local order=()
  [[ "${*:5}" != *"--launch-order on"* ]] || order=(--set schedule.launch_order=true)
  shape+=(${BLOCKING:+--blocking=$BLOCKING})
  "$PENSTOCK" simulate "${shape[@]}" "${order[@]}" --timeline --quiet -o "predicted-$name.json" >"$name.txt" 2>&1 &&
    timeout -k 5 "$EACH" "$PENSTOCK" run "${shape[@]}" --backend "$BACKEND" --warmup 1 --repeats "$REPEATS" \
      --time-scale "$SCALE" "${@:5}" --timeline --quiet -o "measured-$name.json" >>"$name.txt" 2>&1 &&
    "$PENSTOCK" compare "predicted-$name.json" "measured-$name.json" --quiet -o "$name.json" >>"$name.txt" 2>&1
  local status=$? line
  line=$(grep -m1 "^iteration time" "$name.txt" || tail -n 1 "$name.txt")
  printf '%-28s exit %d  %s\n' "$name" "$status" "$line"
  return "$status"
}

# Does the same for several "SCHEDULE K M V". Tries all of them, and then fails if one of them has failed.
all_compared() {
  local row status=0
  for row in "$@"; do
    # shellcheck disable=SC2086
    compared $row || status=1
  done
  return $status
}

# Prints the mean loss of a network after two iterations: SCENARIO BACKEND [FLAG...]. Partitions of cuda-local are
# apart only without MPS.
loss() {
  local without=()
  [[ $2 != cuda-local ]] || without=(env -u CUDA_MPS_PIPE_DIRECTORY -u CUDA_MPS_LOG_DIRECTORY)
  "${without[@]}" timeout -k 5 "$EACH" "$PENSTOCK" run "$1" --backend "$2" --warmup 0 --repeats 1 --iterations 2 \
    "${@:3}" 2>&1 | tee -a "loss-$2.txt" | sed -n 's/.*mean loss of [0-9]* microbatches: //p'
}

# Compares the loss of a network over NCCL with the loss over copies: NAME SCENARIO K [FLAG...].
same_loss() {
  local copies nccl
  copies=$(loss "$2" cuda-local "${@:4}")
  nccl=$(loss "$2" nccl --ranks-per-gpu "$3" "${@:4}")
  printf '%-28s loss %s over NCCL, %s over copies\n' "$1" "${nccl:-none}" "${copies:-none}"
  python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(not abs(a - b) <= 1e-5 * abs(b))' \
    "${nccl:-nan}" "${copies:-nan}" || { tail -n 3 loss-*.txt; return 1; }
}

losses() {
  local status=0
  same_loss pipeline "$BUNDLE/gpu-mlp.yaml" 2 --pp-size 2 || status=1
  same_loss fully-sharded "$BUNDLE/gpu-mlp.yaml" 2 --pp-size 1 --data-parallel 2 --sharding 3 || status=1
  return $status
}

stop_mps() {
  [[ -n ${CUDA_MPS_PIPE_DIRECTORY:-} ]] || return 0
  echo quit | timeout 10 nvidia-cuda-mps-control
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

# Prints information that may explain why a rank cannot use the GPU.
diagnosis() {
  ulimit -a
  free -m
  nvidia-smi --query-gpu=memory.used,memory.total,compute_mode --format=csv
  dmesg 2>/dev/null | tail -n 5
  [[ -z ${CUDA_MPS_LOG_DIRECTORY:-} ]] || tail -n 8 "$CUDA_MPS_LOG_DIRECTORY/server.log"
}

# Runs schedules with two ranks over NCCL.
two_ranks() {
  local row status=0
  for row in "gpipe 2 4 1" "zb-h1 2 4 1" "interleaved 2 4 2"; do
    # shellcheck disable=SC2086
    compared $row --ranks-per-gpu 2 || status=1
  done
  PREFIX=nccl-ordered- compared interleaved 2 4 2 --ranks-per-gpu 2 --launch-order on || status=1
  return $status
}

# Runs schedules with four ranks over NCCL. Under MPS, the clients share the hardware queues of the GPU. The script
# tries several numbers of queues for each rank, and uses the first one with which 1F1B works. If none works, it runs
# without MPS.
four_ranks() {
  local queues found="" status=0 row
  for queues in ${CUDA_MPS_PIPE_DIRECTORY:+8 4 2 1} alone; do
    if [[ $queues == alone ]]; then
      stop_mps
      unset CUDA_DEVICE_MAX_CONNECTIONS
      SCALE=30
    else
      export CUDA_DEVICE_MAX_CONNECTIONS=$queues
    fi
    status=0
    compared 1f1b 4 8 1 --ranks-per-gpu 4 || status=1
    if [[ -e measured-nccl-1f1b-K4.json ]]; then
      found=$queues
      break
    fi
    diagnosis >"failed-nccl-K4-$queues.txt" 2>&1
    tail -n 30 "failed-nccl-K4-$queues.txt"
  done
  echo "queues of each of four ranks: ${found:-none works}"
  [[ -n $found ]] || return 1
  for row in "gpipe 4 8 1" "zb-h1 4 8 1" "interleaved 4 8 2"; do
    # shellcheck disable=SC2086
    compared $row --ranks-per-gpu 4 || status=1
  done
  PREFIX=nccl-ordered- compared interleaved 4 8 2 --ranks-per-gpu 4 --launch-order on || status=1
  return $status
}

# Runs schedules in which receives wait behind sends, with and without NCCL's launch order.
launch_order() {
  local status=0 row
  export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-8}
  for row in "interleaved 4 8 2" "looped-bfs 4 8 2" "interleaved-zero-bubble 4 8 2" "dualpipe 4 8 1" "dualpipe-v 4 8 2"; do
    # shellcheck disable=SC2086
    compared $row --ranks-per-gpu 4 || status=1
    # shellcheck disable=SC2086
    PREFIX=nccl-ordered- compared $row --ranks-per-gpu 4 --launch-order on || status=1
  done
  return $status
}

# Runs schedules whose ranks post all transfers between two computations as one group.
grouped() {
  local status=0 row
  for row in "gpipe 4 8 1" "1f1b 4 8 1" "interleaved 4 8 2"; do
    # shellcheck disable=SC2086
    PREFIX=nccl-groups- compared $row --ranks-per-gpu 4 || status=1
  done
  return $status
}

# Records schedules of torch.distributed.pipelining with two ranks on the GPU. An NCCL that allows this replaces the
# NCCL of torch.
recorder() {
  env LD_PRELOAD="$BUNDLE/nccl/libnccl.so.2" NCCL_MULTI_RANK_GPU_ENABLE=1 timeout -k 5 60 \
    python3 -W ignore "$BUNDLE/pytorch/record_schedules.py" "$PENSTOCK" "$BUNDLE/pytorch/recorder.py" \
    --cuda --keep "recorded-$1" "$@" 2>&1 | tee -a recorder.txt
}

# Validates networks over NCCL with two ranks on the GPU.
validate_nccl() {
  timeout -k 5 120 "$PENSTOCK" validate "$BUNDLE/gpu-mlp.yaml" --schedule gpipe,1f1b,zb-h1 --num-microbatches 4,8 \
    --pp-size 2 --rounds 3 --backend nccl --ranks-per-gpu 2 --quiet -o validate-nccl.json
}

recorders() {
  local status=0
  recorder gpipe 1f1b looped-bfs interleaved interleaved-zero-bubble || status=1
  recorder zbv-zero-bubble dualpipe-v || status=1
  return $status
}

# Runs schedules over NCCL with all ranks on one GPU. Uses the first of four settings with which two ranks work. With
# MPS, the processes run at the same time. Without MPS, the GPU gives each process a slice of time, so the forwards
# take longer here.
rehearsal() {
  [[ -e $BUNDLE/nccl/libnccl.so.2 ]] || { echo "skipped: no nccl/libnccl.so.2 in the bundle"; return 77; }
  export LD_LIBRARY_PATH=$BUNDLE/nccl:$LD_LIBRARY_PATH NCCL_DEBUG=WARN BACKEND=nccl PREFIX=nccl- EACH=30
  local setting found="" status=0
  for setting in mps alone no-p2p sockets; do
    SCALE=30
    case $setting in
      mps)
        export CUDA_MPS_PIPE_DIRECTORY=$PWD/mps CUDA_MPS_LOG_DIRECTORY=$PWD/mps-log SCALE=3
        mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
        if ! timeout 10 nvidia-cuda-mps-control -d; then
          echo "no MPS on this machine"
          unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
          continue
        fi ;;
      no-p2p) export NCCL_P2P_DISABLE=1 ;;
      sockets) export NCCL_SHM_DISABLE=1 ;;
    esac
    export SCALE
    compared 1f1b 2 4 1 --ranks-per-gpu 2 || status=1
    if [[ -e measured-nccl-1f1b-K2.json ]]; then
      found=$setting
      break
    fi
    status=0
    mkdir -p "failed-$setting" && mv nccl-*.txt "failed-$setting"
    tail -n 25 "failed-$setting"/*.txt
    stop_mps
  done
  echo "setting: ${found:-none works}"
  [[ -n $found ]] || return 1
  local part
  for part in $PARTS; do
    case $part in
      schedules) two_ranks || status=1 ;;
      losses) losses || status=1 ;;
      four-ranks) four_ranks || status=1 ;;
      launch-order) launch_order || status=1 ;;
      recorder) recorders || status=1 ;;
      validate) validate_nccl || status=1 ;;
      groups) BLOCKING=batched grouped || status=1 ;;
      *) echo "PARTS: expected schedules, losses, four-ranks, launch-order, groups, recorder or validate, found $part"; status=1 ;;
    esac
  done
  grep -h "NCCL WARN" ./*.txt | sort | uniq -c | sort -rn | head -n 5
  stop_mps
  echo "setting: $found; status $status"
  return $status
}
export -f compared all_compared loss same_loss losses stop_mps diagnosis two_ranks four_ranks launch_order grouped recorder \
  recorders validate_nccl rehearsal

rows() {
  local ranks=$1 name chunks
  for name in gpipe 1f1b interleaved:2 zb-h1 zb-v:2 dualpipe dualpipe-v:2 naive 1f1b-rr zb-h2 looped-bfs:2 \
    interleaved-zero-bubble:2 v-half:2 v-min:2 chimera hanayo:2 gems kfkb eager-1f1b seq-1f1b 1f1b-v:2 pipedream-2bw \
    zbv-zero-bubble:2; do
    chunks=${name#*:}
    [[ $chunks == "$name" ]] && chunks=1
    printf '"%s %d %d %d" ' "${name%:*}" "$ranks" $((2 * ranks)) "$chunks"
  done
}

step 00-machine 15 'nvidia-smi; uname -r; ldd "$(command -v penstock-cuda)" | grep "not found"; penstock-cuda --version'
step 01-selftest 60 '"$PENSTOCK" selftest'
# A test starts the program again by its path.
step 02-device-tests 90 '"$(command -v backend_cuda_tests)" --gtest_brief=1 --gtest_filter=-*SeveralGpus*:GpuExecutable*'
step 10-schedules-K4 110 "all_compared $(rows 4)"
step 11-schedules-K2-K8 40 'all_compared "1f1b 2 4 1" "zb-h1 2 4 1" "1f1b 8 16 1" "interleaved 8 16 2"'
step 20-validation 150 'gpu_validation --quick -o validation.md'
for file in "$bundle"/gpu-*.yaml; do
  name=$(basename "$file" .yaml)
  step "30-$name" 70 '
    file='"$file"' name='"$name"'
    status=0
    for schedule in 1f1b gpipe zb-h1; do
      # One file has exact times of B, or of I and W: gpipe takes the file of 1f1b.
      [[ $schedule == gpipe ]] || "$PENSTOCK" calibrate "$file" --schedule $schedule --backend "$BACKEND" --warmup 3 \
        --samples 8 --sizes 1,2,3 -o "$name-costs.yaml" || exit 1
      "$PENSTOCK" simulate "$file" --schedule $schedule --set model="$PWD/$name-costs.yaml" --set cluster="$PWD/$name-costs.yaml" \
          --timeline --quiet -o "predicted-$name-$schedule.json" &&
        "$PENSTOCK" run "$file" --schedule $schedule --backend "$BACKEND" --repeats 5 --timeline --quiet \
          -o "measured-$name-$schedule.json" &&
        "$PENSTOCK" compare "predicted-$name-$schedule.json" "measured-$name-$schedule.json" || status=1
    done
    exit $status'
done
# The exit code is 0 if all predictions hold, 1 if one does not, and 5 if the machine is too noisy to decide.
for name in gpu-mlp gpu-transformer; do
  step "36-validate-$name" 150 '"$PENSTOCK" validate "$BUNDLE/'"$name"'.yaml" --schedule gpipe,1f1b,zb-h1,naive \
    --num-microbatches 8,16 --rounds 5 --backend "$BACKEND" --quiet -o "validate-'"$name"'.json"'
done
# The network has 800 million weights. The processes must be ready within ten seconds.
step 37-large-network 60 'began=$(date +%s%N)
  "$PENSTOCK" run "$BUNDLE/gpu-mlp.yaml" --set model.network.mlp.width=7168 --set training.micro_batch_size=256 \
    --backend "$BACKEND" --warmup 0 --repeats 1 --timeline --quiet -o large.json -o large.txt || exit 1
  cat large.txt
  echo "the whole run of 822 million weights took $((($(date +%s%N) - began) / 1000000)) ms"'
step 38-graphs 90 'python3 -W ignore "$BUNDLE/pytorch/run_exported_stages.py" "$PENSTOCK" "$BUNDLE/pytorch/export_stages.py" --cuda'
step 35-nccl-rehearsal 300 rehearsal
step 40-torch 60 'python3 "'"$bundle"'/gpu_torch_baseline.py"'
step 60-memcheck 60 'compute-sanitizer --tool memcheck --error-exitcode 9 penstock-cuda run --schedule 1f1b --pp-size 2 \
  --num-microbatches 2 --backend cuda-local --warmup 0 --repeats 1'
say "took $SECONDS s; $failures steps failed"
keep
((failures == 0))
