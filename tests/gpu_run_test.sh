#!/usr/bin/env bash
# Tests scripts/gpu_run.sh: a step that fails, is killed or is too slow costs only its own time, and the output of the
# other steps is preserved. In gpu_run_test.sh SOURCE SCRATCH, small scripts replace the programs of the bundle.
set -euo pipefail
source=$1 scratch=$2
export PARTS="schedules losses four-ranks launch-order groups"  # without the recorder, which needs torch
rm -rf "$scratch" && mkdir -p "$scratch/bundle/bin"
cp "$source/scripts/gpu_run.sh" "$scratch/bundle/"

program() { printf '#!/usr/bin/env bash\n%s\n' "$2" >"$scratch/bundle/bin/$1" && chmod +x "$scratch/bundle/bin/$1"; }
program penstock 'case $1 in
  selftest) echo "timer: WRONG"; exit 1 ;;
  run) for word; do [[ $word != --iterations ]] || echo "note: mean loss of 16 microbatches: 0.5"; done ;;&
  compare) echo "iteration time   33.000 ms   33.100 ms   -0.30 %   5.00 %  ok" ;;
  *) while (($# > 0)); do if [[ $1 == -o ]]; then echo "of $0" >"$2"; fi; shift; done ;;
esac'
program penstock-cuda 'echo "penstock 0.1.0"'
program backend_cuda_tests 'echo "begins"; sleep 60'
program gpu_validation 'echo "| a row |" >validation.md; kill -KILL $$'
program nvidia-smi 'echo "no GPU, a script"'

fail() { echo "$1"; cat "$scratch/out/summary.txt"; exit 1; }
status=0
begin=$SECONDS
sed -i 's/^step 02-device-tests 90 /step 02-device-tests 2 /' "$scratch/bundle/gpu_run.sh"
OUT=$scratch/out LIMIT=50 STEPS='00|01|02|10|20' "$scratch/bundle/gpu_run.sh" >/dev/null || status=$?
((status == 1)) || fail "expected exit 1 for steps that failed, found $status"
((SECONDS - begin < 45)) || fail "a late step cost more than its own time"
expect() { grep -qE "$1" "$scratch/out/summary.txt" || fail "expected a line $1"; }
expect '^00-machine +exit +0 '
expect '^01-selftest +exit +1 .* timer: WRONG$'
expect '^02-device-tests +exit +124 .* begins$'
expect '^10-schedules-K4 +exit +0 .*zbv-zero-bubble-K4 .* -0.30 %'
expect '^20-validation +exit +137 '
expect '^took .*; 3 steps failed$'
tar -xOf "$scratch/out/all.tar" ./validation.md | grep -q 'a row' || fail "the killed step's rows are lost"
[[ $(tar -xOf "$scratch/out/all.tar" ./10-schedules-K4.log | wc -l) == 23 ]] || fail "expected 23 schedules"

# Ranks share a GPU only if the bundle has an NCCL. If there is no MPS, they first run without it.
rm -rf "$scratch/out"
OUT=$scratch/out STEPS='35' "$scratch/bundle/gpu_run.sh" >/dev/null
expect '^35-nccl-rehearsal +exit +77 .* skipped: no nccl/libnccl.so.2 in the bundle$'
mkdir "$scratch/bundle/nccl" && touch "$scratch/bundle/nccl/libnccl.so.2"
program nvidia-cuda-mps-control 'exit 1'
OUT=$scratch/out STEPS='35' "$scratch/bundle/gpu_run.sh" >/dev/null || fail "the rehearsal failed"
expect '^35-nccl-rehearsal +exit +0 .* setting: alone; status 0$'
log=$(tar -xOf "$scratch/out/all.tar" ./35-nccl-rehearsal.log)
[[ $(grep -c -- '-K[24] .* -0.30 %' <<<"$log") == 23 ]] || fail "expected 23 rows over NCCL"
grep -q '^fully-sharded .* loss 0.5 over NCCL, 0.5 over copies$' <<<"$log" || fail "expected the losses of both backends"
grep -q '^queues of each of four ranks: alone$' <<<"$log" || fail "expected four ranks without MPS"

# A loss that is absent over NCCL fails the step. PARTS leaves out the other schedules.
rm -rf "$scratch/out"
cp "$scratch/bundle/bin/penstock" "$scratch/penstock"
program penstock '[[ "$*" != *nccl*--iterations* ]] || { echo "rank 1: the start: cudaSetDevice"; exit 4; }
exec '"$scratch"'/penstock "$@"'
status=0
OUT=$scratch/out STEPS='35' PARTS=losses "$scratch/bundle/gpu_run.sh" >/dev/null || status=$?
((status == 1)) || fail "expected exit 1 without a loss over NCCL, found $status"
expect '^35-nccl-rehearsal +exit +1 .* setting: alone; status 1$'
log=$(tar -xOf "$scratch/out/all.tar" ./35-nccl-rehearsal.log)
[[ $(grep -c ' loss none over NCCL, 0.5 over copies$' <<<"$log") == 2 ]] || fail "expected two losses that are absent"
[[ $(grep -c -- '-K[24] ' <<<"$log") == 1 ]] || fail "expected one schedule with PARTS=losses"

# Under MPS, four ranks take the first number of queues with which they work, and copies run without MPS.
rm -rf "$scratch/out"
program nvidia-cuda-mps-control ':'
program penstock 'case $1 in
  run)
    [[ "$*" != *"--pp-size 4"* || ${CUDA_DEVICE_MAX_CONNECTIONS:-32} -le 4 ]] || { echo "rank 3: out of memory"; exit 4; }
    [[ "$*" != *cuda-local* || -z ${CUDA_MPS_PIPE_DIRECTORY:-} ]] || { echo "partitions share SMs"; exit 4; }
    [[ "$*" != *--iterations* ]] || echo "note: mean loss of 16 microbatches: 0.5" ;;&
  compare) echo "iteration time   33.000 ms   33.100 ms   -0.30 %   5.00 %  ok" ;;
  *) while (($# > 0)); do if [[ $1 == -o ]]; then echo "of $0" >"$2"; fi; shift; done ;;
esac'
OUT=$scratch/out STEPS='35' "$scratch/bundle/gpu_run.sh" >/dev/null || fail "the rehearsal under MPS failed"
expect '^35-nccl-rehearsal +exit +0 .* setting: mps; status 0$'
log=$(tar -xOf "$scratch/out/all.tar" ./35-nccl-rehearsal.log)
grep -q '^queues of each of four ranks: 4$' <<<"$log" || fail "expected four queues a rank"
grep -q '^nccl-1f1b-K4 .* rank 3: out of memory$' <<<"$log" || fail "expected the failure with eight queues"
tar -tf "$scratch/out/all.tar" ./failed-nccl-K4-8.txt >/dev/null || fail "expected a diagnosis"
grep -q '^pipeline .* loss 0.5 over NCCL, 0.5 over copies$' <<<"$log" || fail "expected the losses of both backends"

# If no time is left, a step is not begun, and the script prints this.
rm -rf "$scratch/out"
OUT=$scratch/out LIMIT=1 STEPS='00' "$scratch/bundle/gpu_run.sh" >/dev/null
expect '^00-machine +not begun: no time is left$'
