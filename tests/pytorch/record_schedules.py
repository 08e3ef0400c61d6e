"""Records real training steps of PyTorch's pipeline schedules, and holds them against Penstock's predictions.

Seven classes of torch.distributed.pipelining train stages that wait for known times (gloo, CPU, a process for each
rank). The recorder must see the order that Penstock predicts and the waited times, its costs must predict the recorded
step, `penstock compare` must take its result, and gradients must be those of a run without a recorder.

    python record_schedules.py PENSTOCK RECORDER [--cuda] [--keep FOLDER] [SCHEDULE]...
    --keep: write the predicted and measured results to this folder, which must not exist
    --cuda: the stages wait on a GPU, and messages go over NCCL. Ranks share a GPU where there are fewer than ranks.
        NCCL allows that from 2.30 on, with NCCL_MULTI_RANK_GPU_ENABLE=1; CUDA's MPS lets the ranks run at once.
    exit 0: all as expected; 1: something is not; 77: this Python has no torch that can
"""

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from train_schedules import SAMPLES, WIDTH, require_torch

RANKS = 2
MICROBATCHES = 4
STEPS = 4
FORWARD = 0.004  # seconds that the forward pass of each stage waits
BACKWARD = 0.008

# The class of torch, Penstock's name, and chunks on each rank.
SCHEDULES = [
    ("ScheduleGPipe", "gpipe", 1),
    ("Schedule1F1B", "1f1b", 1),
    ("ScheduleLoopedBFS", "looped-bfs", 2),
    ("ScheduleInterleaved1F1B", "interleaved", 2),
    ("ScheduleInterleavedZeroBubble", "interleaved-zero-bubble", 2),
    ("ScheduleZBVZeroBubble", "zbv-zero-bubble", 2),
    ("ScheduleDualPipeV", "dualpipe-v", 2),
]


def recorder_module(path):
    spec = importlib.util.spec_from_file_location("penstock_recorder", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["penstock_recorder"] = module
    spec.loader.exec_module(module)
    return module


def cycles_of_a_second(torch):
    """How far the GPU's clock counts in a second, by a kernel that waits for 20 million cycles."""
    count, ends = 20_000_000, [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    torch.cuda._sleep(count)
    for event in ends:
        event.record()
        torch.cuda._sleep(count)
    torch.cuda.synchronize()
    return count / (ends[0].elapsed_time(ends[1]) / 1e3)


def waiting_module(torch, stage, device):
    """A linear stage whose forward and backward passes wait for a known time."""
    speed = cycles_of_a_second(torch) if device.type == "cuda" else 0

    def wait(seconds):
        if device.type == "cuda":
            torch.cuda._sleep(int(seconds * speed))
        else:
            time.sleep(seconds)

    class Wait(torch.autograd.Function):
        @staticmethod
        def forward(_, values):
            wait(FORWARD)
            return values.clone()

        @staticmethod
        def backward(_, gradient):
            wait(BACKWARD)
            return gradient

    class Stage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(stage)
            self.linear = torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64)

        def forward(self, values):
            return Wait.apply(torch.tanh(self.linear(values)))

    return Stage().to(device)


def pipeline(torch, pipelining, name, chunks, rank, device):
    count = RANKS * chunks
    own = [rank] if chunks == 1 else [rank, rank + RANKS]
    if name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV"):
        own = [rank, count - 1 - rank]
    sample = torch.zeros(SAMPLES, WIDTH, dtype=torch.float64, device=device)
    modules = {stage: waiting_module(torch, stage, device) for stage in own}
    stages = [
        pipelining.PipelineStage(module, stage, count, device, input_args=(sample,), output_args=(sample,))
        for stage, module in modules.items()
    ]
    for stage in stages:  # torch first sends a message to each neighbour. A rank cannot send one to itself.
        first = stage._get_init_p2p_neighbors_ops
        stage._get_init_p2p_neighbors_ops = lambda first=first: [each for each in first() if each.group_peer != rank]
    loss = torch.nn.functional.mse_loss
    kind = getattr(pipelining.schedules, name)
    return modules, kind(stages[0] if chunks == 1 else stages, MICROBATCHES, loss_fn=loss)


def train(torch, schedule, modules, count, recorder=None):
    """Runs steps without an optimizer, so that gradients add up. Returns them."""
    torch.manual_seed(1000)
    device = next(next(iter(modules.values())).parameters()).device
    inputs, targets = (torch.randn(MICROBATCHES * SAMPLES, WIDTH, dtype=torch.float64).to(device) for _ in range(2))
    for _ in range(STEPS):
        feeds = (inputs,) if 0 in modules else ()
        schedule.step(*feeds, target=targets if count - 1 in modules else None)
        if recorder is not None:
            recorder.step()
    return [parameter.grad.clone() for module in modules.values() for parameter in module.parameters()]


def run_rank(rank, penstock, recorder_path, folder, cuda, schedules):
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining

    torch.set_num_threads(1)
    device = torch.device("cuda", rank % torch.cuda.device_count()) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    transport = "nccl" if cuda else "gloo"
    dist.init_process_group(transport, init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    recording = recorder_module(recorder_path)
    faults = []
    for name, _, chunks in schedules:
        try:
            faults += record(torch, pipelining, recording, penstock, folder, name, chunks, rank, device)
        except Exception as error:  # the other rank waits for this one: say why before both stop
            print(f"{name}: rank {rank}: {type(error).__name__}: {error}", flush=True)
            os._exit(1)
    with open(f"{folder}/faults-{rank}.json", "w", encoding="utf-8") as file:
        json.dump(faults, file)
    dist.destroy_process_group()


def record(torch, pipelining, recording, penstock, folder, name, chunks, rank, device):
    count = RANKS * chunks
    modules, schedule = pipeline(torch, pipelining, name, chunks, rank, device)
    plain = train(torch, schedule, modules, count)

    modules, schedule = pipeline(torch, pipelining, name, chunks, rank, device)
    methods = {key: getattr(schedule, key) for key in ("_step_microbatches", "_maybe_compute_loss")}
    recorder = recording.Recorder(schedule)
    recorded = train(torch, schedule, modules, count, recorder)
    recorder.end()

    faults = []
    if not all(torch.equal(one, other) for one, other in zip(plain, recorded)):
        faults.append(f"{name}: rank {rank}: the recorder changed the gradients")
    if any(getattr(schedule, key) != method for key, method in methods.items()):
        faults.append(f"{name}: rank {rank}: end() left methods of the recorder in the schedule")
    if len(recorder.steps) != STEPS - 1:
        faults.append(f"{name}: expected {STEPS - 1} recorded steps, got {len(recorder.steps)}")
    faults += too_short(name, recorder.median(), 0.97 if device.type == "cuda" else 1.0)
    costs = f"{folder}/{name}.yaml"
    recorder.costs(costs, micro_batch_size=SAMPLES)
    predicted = f"{folder}/{name}.json"
    if rank == 0:
        predict(penstock, name, costs, predicted)
    torch.distributed.barrier()
    result = recorder.measured(predicted, f"{folder}/{name}-measured.json")
    if rank == 0:
        faults += compare(penstock, name, predicted, f"{folder}/{name}-measured.json", result)
        faults += refuses_another_order(recording, recorder, folder, name, predicted)
    return faults


def too_short(name, step, share):
    """Actions that ended before that share of the time for which their stage waits had passed."""
    waits = {"F": FORWARD, "B": BACKWARD}
    faults = []
    for spans in step.ranks:
        for span in spans:
            kind = span.action.lstrip("0123456789").rstrip("0123456789")
            if span.end_ns - span.start_ns < share * 1e9 * waits.get(kind, 0):
                faults.append(f"{name}: {span.action} was recorded with {span.end_ns - span.start_ns} ns")
    actions = {span.action for spans in step.ranks for span in spans}
    if not {"0SEND_F0", "1RECV_F0", "1SEND_B0", "0RECV_B0"} <= actions:
        faults.append(f"{name}: messages between stages 0 and 1 were not recorded: {sorted(actions)}")
    return faults


def predict(penstock, name, costs, out):
    _, schedule, chunks = next(entry for entry in SCHEDULES if entry[0] == name)
    shape = ["--schedule", schedule, "--pp-size", str(RANKS), "--num-microbatches", str(MICROBATCHES)]
    shape += ["--virtual-stages", str(chunks)] if schedule not in ("gpipe", "1f1b", "zbv-zero-bubble", "dualpipe-v") else []
    command = [penstock, "simulate", costs, *shape, "--timeline", "-o", out, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def compare(penstock, name, predicted, measured, result):
    """`penstock compare` must take the result, and the recorded costs must predict the recorded step."""
    command = [penstock, "compare", predicted, measured, "--json", "--tolerance", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        return [f"{name}: compare: {done.stderr.strip()}"]
    command = [penstock, "explain", measured, "--json", "--levers", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"{name}: explain: {done.stderr.strip()}"]
    with open(predicted, encoding="utf-8") as file:
        expected = json.load(file)["makespan_ns"]
    error = expected / result["makespan_ns"] - 1
    print(f"{name}: predicted from the recorded costs {expected / 1e6:.2f} ms, {100 * error:+.1f} %", flush=True)
    return [] if abs(error) < 0.35 else [f"{name}: the recorded costs predict the step {100 * error:+.0f} % off"]


def refuses_another_order(recording, recorder, folder, name, predicted):
    """A prediction in which two actions of rank 0 stand the other way round must be refused by name."""
    with open(predicted, encoding="utf-8") as file:
        document = json.load(file)
    rows = [row for row in document["timeline"] if row["rank"] == 0 and row["action"] in ("0F0", "0F1")]
    rows[0]["action"], rows[1]["action"] = rows[1]["action"], rows[0]["action"]
    other = f"{folder}/other.json"
    with open(other, "w", encoding="utf-8") as file:
        json.dump(document, file)
    try:
        recorder.measured(other, f"{folder}/never.json")
    except recording.OrderError as error:
        expected = "rank 0: action 0 of the prediction is 0F1, and 0F0 ran"
        return [] if expected in str(error) else [f"{name}: the refusal says {error}"]
    return [f"{name}: another order was not refused"]


def main():
    require_torch()
    import torch.multiprocessing

    parser = argparse.ArgumentParser()
    parser.add_argument("penstock")
    parser.add_argument("recorder")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("schedules", nargs="*")
    given = parser.parse_intermixed_args()
    schedules = [entry for entry in SCHEDULES if not given.schedules or entry[1] in given.schedules]
    faults = []
    with contextlib.ExitStack() as stack:
        if given.keep:
            os.mkdir(given.keep)
        folder = given.keep or stack.enter_context(tempfile.TemporaryDirectory())
        arguments = (given.penstock, given.recorder, folder, given.cuda, schedules)
        torch.multiprocessing.start_processes(run_rank, args=arguments, nprocs=RANKS, start_method="fork")
        for rank in range(RANKS):
            with open(f"{folder}/faults-{rank}.json", encoding="utf-8") as file:
                faults += json.load(file)
    for fault in faults:
        print(fault)
    print(f"{len(schedules)} schedules recorded, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
