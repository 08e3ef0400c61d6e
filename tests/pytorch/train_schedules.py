"""Trains by every schedule that Penstock knows, in PyTorch's own pipeline runtime.

`penstock convert` writes each schedule as CSV, torch.distributed.pipelining loads it and runs one step of a model of
linear stages, a process a rank (gloo, CPU, loopback). The gradients must be those of the same model in one piece.
Programs without backwards run by eval(), and their outputs and losses must be those of that model. Torch's loader
refuses them, so they are loaded without its check.
What the CSV cannot say stands in REFUSED, with the reason that `convert` must give. Torch's runtime sends one message
at a time and cannot read the groups of `convert --group`. The form "batched" has the same places of messages without
the groups, and a note of `convert` names it.

    python train_schedules.py PENSTOCK [SCHEDULE]...
    exit 0: all as expected; 1: something is not; 77: this Python has no torch that can
"""

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest.mock
import warnings
from dataclasses import dataclass, field

SKIPPED = 77
WIDTH = 4  # features in and out of each stage
SAMPLES = 2  # a microbatch
MICROBATCHES = 8
RANKS = (2, 4)

# Schedules that one CSV row a rank, one stage on one rank and one update a step cannot say.
REFUSED = {
    "1f1b-rr": "it must update once a minibatch",
    "data-parallel": "stage 0 has 4 replicas",
    "dualpipe": "stage 0 has 2 replicas",
    "chimera": "stage 0 has 2 replicas",
    "gems": "stage 0 has 2 replicas",
    "1f1b-vocab-1": "the stage edges must form a chain",
    "1f1b-vocab-2": "the stage edges must form a chain",
    "1f1b-encoder-first": "stage 0 has 4 replicas",
    "1f1b-encoder-bubbles": "stage 0 has 4 replicas",
    "pipedream-2bw": "it must update once a minibatch",
}

# Forms of the file: what torch calls it, the flags of `convert`, and by how much its gradients are too large.
FORMS = {
    "compute": ("compute_only", [], 1),
    "messages": ("compute_comms", ["--lower"], 1),
    "fsdp": ("compute_comms", ["--fsdp", "--lower"], 1),
    "batched": ("compute_comms", ["--set", "schedule.blocking=batched", "--lower"], 1),
}
# Schedules with a forward half, and the forms in which torch runs it.
FORWARD_ONLY = ("naive", "gpipe", "1f1b", "interleaved", "looped-bfs")
FORWARD_FORMS = ("compute", "messages", "batched")
NO_BACKWARD = ["--forward-only"]
# What torch says about lists without backwards, and what `convert` says about that.
NEEDS_BACKWARDS = "Invalid backward microbatches for stage 0"
NEEDS_BACKWARDS_NOTE = "this .csv has no backwards, which PyTorch 2.11 and older check for when they load it"
# What `convert` says about groups, which torch refuses to read.
GROUPS_NOTE = "has groups of transfers (GROUP), which PyTorch does not read; with --lower in place of --group"
# What the first two must be told from: torch divides by the microbatches at REDUCE_GRAD and nowhere else.
BARE = ("compute_comms", ["--lower", "--without-reduce-grad"], MICROBATCHES)


@dataclass
class Case:
    """One file to train by."""

    name: str
    ranks: int
    stages: int
    torch_format: str
    scale: int
    file: str
    forward_only: bool = False


@dataclass
class Schedules:
    cases: list = field(default_factory=list)
    faults: list = field(default_factory=list)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


# Orders that are searched for costs: stages of a first one with an embedding, a last one with a head, measured
# links, and a memory limit that binds.
SEARCHED = {
    "one chunk": ("synthesized", 1, "13 MiB"),
    "two chunks": ("synthesized", 2, "22 MiB"),
    "a V": ("zb-v", 2, "30 MiB"),
}
SEARCHED_RANKS = 4


def searched_scenario(schedule, chunks, limit):
    stages = SEARCHED_RANKS * chunks
    times = {
        "forward": ["2 ms"] + ["1 ms"] * (stages - 2) + ["2500 us"],
        "backward_input": ["1 ms"] * (stages - 1) + ["2 ms"],
        "backward_weight": ["1 ms"] + ["800 us"] * (stages - 2) + ["2 ms"],
    }
    lines = [f"    {key}: [{', '.join(values)}]" for key, values in times.items()]
    return "\n".join(
        [
            "model:",
            "  stages:",
            *lines,
            "    kept: 4 MiB",
            "    released_by_input: 2 MiB",
            "cluster: {preset: uniform, latency: 100 us}",
            f"schedule: {{name: {schedule}, stages: {SEARCHED_RANKS}, virtual_stages: {chunks}, "
            f"microbatches: {MICROBATCHES}, memory_limit: {limit}}}",
            "",
        ]
    )


def shape_flags(schedule, ranks):
    flags = ["--schedule", schedule["name"], "--pp-size", str(ranks), "--num-microbatches", str(MICROBATCHES)]
    return flags + (["--virtual-stages", "2"] if "virtual_stages" in schedule["options"] else [])


def convert(penstock, flags):
    command = [penstock, "convert", "--quiet", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def stage_count(csv):
    return 1 + max(int(stage) for stage in re.findall(r"(\d+)F\d", csv))


def write_case(penstock, folder, schedule, ranks, form, found):
    name = f"{schedule['name']}, {ranks} ranks, {form}"
    write_file(penstock, folder, name, shape_flags(schedule, ranks), ranks, form, found)


def write_searched(penstock, folder, name, form, found):
    file = os.path.join(folder, f"{name.replace(' ', '-')}.yaml")
    with open(file, "w", encoding="ascii") as scenario:
        scenario.write(searched_scenario(*SEARCHED[name]))
    write_file(penstock, folder, f"searched, {name}, {form}", [file], SEARCHED_RANKS, form, found)


def write_file(penstock, folder, name, what, ranks, form, found):
    torch_format, flags, scale = BARE if form == "bare" else FORMS[form]
    file = os.path.join(folder, name.replace(", ", "-").replace(" ", "-") + ".csv")
    made = convert(penstock, [*what, *flags, "-o", file])
    if made.returncode != 0:
        found.faults.append(f"{name}: {made.stderr.strip()}")
        return
    with open(file, encoding="ascii") as csv:
        stages = stage_count(csv.read())
    found.cases.append(Case(name, ranks, stages, torch_format, scale, file, "--forward-only" in what))


def check_forwards_alone(penstock, folder, found):
    """Torch's loader refuses a file of forwards, and a note of `convert` says so."""
    from torch.distributed.pipelining.schedules import _Action, _validate_schedule

    file = os.path.join(folder, "forwards.csv")
    flags = ["--schedule", "1f1b", "--pp-size", "2", "--num-microbatches", "4", "--forward-only", "-o", file]
    made = subprocess.run([penstock, "convert", *flags], capture_output=True, text=True, check=False)
    if made.returncode != 0 or NEEDS_BACKWARDS_NOTE not in made.stderr:
        found.faults.append(f"forwards: expected the note \"{NEEDS_BACKWARDS_NOTE}\", got {made.stderr.strip()!r}")
        return
    with open(file, encoding="ascii") as csv:
        rows = csv.read().splitlines()
    lists = {rank: [_Action.from_str(cell) for cell in row.split(",")] for rank, row in enumerate(rows)}
    try:
        _validate_schedule(lists, 2, 2, 4)
    except AssertionError as error:
        if NEEDS_BACKWARDS in str(error):
            return
    found.faults.append("forwards: torch loads them now; leave its check in place, and change the note of `convert`")


def check_groups(penstock, folder, found):
    """Torch refuses a file with groups, and a note of `convert` says so."""
    from torch.distributed.pipelining.schedules import _Action

    file = os.path.join(folder, "groups.csv")
    flags = ["--schedule", "1f1b", "--pp-size", "2", "--num-microbatches", "4", "--group", "megatron", "-o", file]
    made = subprocess.run([penstock, "convert", *flags], capture_output=True, text=True, check=False)
    if made.returncode != 0 or GROUPS_NOTE not in made.stderr:
        found.faults.append(f"groups: expected the note \"{GROUPS_NOTE}\", got {made.stderr.strip()!r}")
        return
    with open(file, encoding="ascii") as csv:
        group = next(cell for cell in csv.read().replace("\n", ",").split(",") if "GROUP" in cell)
    try:
        _Action.from_str(group)
    except (RuntimeError, ValueError):
        return
    found.faults.append(f"groups: torch reads {group} now; train by such files, and change the note of `convert`")


def check_refusal(penstock, schedule, found):
    made = convert(penstock, [*shape_flags(schedule, 4), "--lower", "--format", "csv"])
    expected = f"PyTorch's CSV cannot express this program: {REFUSED[schedule['name']]}"
    if made.returncode != 2 or expected not in made.stderr:
        found.faults.append(f"{schedule['name']}: expected the refusal \"{expected}\", got {made.stderr.strip()!r}")


def schedules_to_train(penstock, folder, only):
    """Every schedule of `penstock schedules`, or of those in `only`, is trained or refused."""
    listed = subprocess.run([penstock, "schedules", "--json"], capture_output=True, text=True, check=True)
    schedules = json.loads(listed.stdout)["schedules"]
    found = Schedules()
    for name in REFUSED.keys() - {schedule["name"] for schedule in schedules}:
        found.faults.append(f"{name}: is no schedule any more; take it out of REFUSED")
    schedules = [schedule for schedule in schedules if not only or schedule["name"] in only]
    for schedule in schedules:
        if schedule["name"] in REFUSED:
            check_refusal(penstock, schedule, found)
            continue
        for ranks in RANKS:
            for form in FORMS:
                write_case(penstock, folder, schedule, ranks, form, found)
        for ranks in RANKS if schedule["name"] in FORWARD_ONLY else ():
            for form in FORWARD_FORMS:
                name = f"{schedule['name']}, {ranks} ranks, forward only, {form}"
                write_file(penstock, folder, name, [*shape_flags(schedule, ranks), *NO_BACKWARD], ranks, form, found)
    if not only:
        check_groups(penstock, folder, found)
        check_forwards_alone(penstock, folder, found)
    for name, (schedule_name, _, _) in SEARCHED.items():
        if only and schedule_name not in only:
            continue
        for form in FORMS:
            write_searched(penstock, folder, name, form, found)
    for schedule in schedules:
        if schedule["name"] in ("gpipe", "interleaved", "zb-h1"):
            write_case(penstock, folder, schedule, 2, "bare", found)
    return found


def stage_module(torch, stage):
    torch.manual_seed(stage)
    linear = torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
    return torch.nn.Sequential(linear, torch.nn.Tanh())


def batch(torch):
    torch.manual_seed(1000)
    return [torch.randn(MICROBATCHES * SAMPLES, WIDTH, dtype=torch.float64) for _ in range(2)]


def unsplit_gradients(torch, stages):
    """By stage: the gradients of its parameters, from the whole model and the whole batch at once."""
    modules = [stage_module(torch, stage) for stage in range(stages)]
    inputs, targets = batch(torch)
    loss = torch.nn.functional.mse_loss(torch.nn.Sequential(*modules)(inputs), targets)
    loss.backward()
    return [[parameter.grad for parameter in module.parameters()] for module in modules]


def unsplit_outputs(torch, stages):
    """The output of the whole model for the whole batch, and the loss of each microbatch."""
    inputs, targets = batch(torch)
    with torch.no_grad():
        outputs = torch.nn.Sequential(*[stage_module(torch, stage) for stage in range(stages)])(inputs)
        pairs = zip(outputs.split(SAMPLES), targets.split(SAMPLES))
        return outputs, torch.stack([torch.nn.functional.mse_loss(output, target) for output, target in pairs])


def stages_of_row(file, rank):
    with open(file, encoding="ascii") as csv:
        return sorted({int(stage) for stage in re.findall(r"(\d+)F\d", csv.read().split("\n")[rank])})


def unchecked():
    """Leaves out the loader's check, which also returns the rank of each stage."""
    from torch.distributed.pipelining import schedules

    def ranks_of_stages(actions, *_):
        return {action.stage_index: rank for rank, row in actions.items() for action in row if action}

    return unittest.mock.patch.object(schedules, "_validate_schedule", ranks_of_stages)


def train(torch, pipelining, case, rank):
    """One step. Returns what is wrong with its gradients or outputs, or nothing."""
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    sample = torch.zeros(SAMPLES, WIDTH, dtype=torch.float64)
    modules = {stage: stage_module(torch, stage) for stage in stages_of_row(case.file, rank)}
    stages = [
        pipelining.PipelineStage(
            module, stage, case.stages, torch.device("cpu"), input_args=(sample,), output_args=(sample,)
        )
        for stage, module in modules.items()
    ]
    for stage in stages:  # a first message to each neighbour, which NCCL wants and gloo cannot send to its own rank
        stage._get_init_p2p_neighbors_ops = list
    runtime = _PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    with unchecked() if case.forward_only else contextlib.nullcontext():
        runtime._load_csv(case.file, format=case.torch_format)
    inputs, targets = batch(torch)
    feeds = (inputs,) if 0 in modules else ()
    target = targets if case.stages - 1 in modules else None
    if not case.forward_only:
        runtime.step(*feeds, target=target)
        return gradient_fault(torch, case, rank, modules)
    losses = []
    with torch.no_grad():
        outputs = runtime.eval(*feeds, target=target, losses=losses if target is not None else None)
    return output_fault(torch, case, rank, outputs, losses) if target is not None else None


def output_fault(torch, case, rank, outputs, losses):
    """What is wrong with the outputs or losses of the rank with the last stage, or nothing."""
    expected, expected_losses = unsplit_outputs(torch, case.stages)
    if not torch.allclose(outputs, expected, rtol=1e-9, atol=1e-12):
        return f"{case.name}: the outputs on rank {rank} are not those of the unsplit model"
    if not torch.allclose(torch.stack(losses), expected_losses, rtol=1e-9, atol=1e-12):
        return f"{case.name}: the losses on rank {rank} are not those of the unsplit model"
    return None


def gradient_fault(torch, case, rank, modules):
    """What is wrong with the gradients, or nothing."""
    expected = unsplit_gradients(torch, case.stages)
    for stage, module in modules.items():
        for parameter, gradient in zip(module.parameters(), expected[stage]):
            if parameter.grad is None:
                return f"{case.name}: stage {stage} on rank {rank} has no gradient"
            if not torch.allclose(parameter.grad, case.scale * gradient, rtol=1e-9, atol=1e-12):
                ratio = (parameter.grad.norm() / gradient.norm()).item()
                return (
                    f"{case.name}: stage {stage} on rank {rank}: expected {case.scale} times the gradients of the "
                    f"unsplit model, got {ratio:.6g} times as large ones"
                )
    return None


def run_rank(rank, ranks, folder, cases):
    """One process: all cases of so many ranks, in turn."""
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store-{ranks}", rank=rank, world_size=ranks)
    faults = []
    for case in cases:
        try:
            fault = train(torch, pipelining, case, rank)
        except Exception as error:  # the other ranks wait for this one: say why before all stop
            print(f"{case.name}: rank {rank}: {type(error).__name__}: {error}", flush=True)
            os._exit(1)
        if fault:
            faults.append(fault)
    with open(f"{folder}/faults-{ranks}-{rank}.json", "w", encoding="utf-8") as file:
        json.dump(faults, file)
    dist.destroy_process_group()


def run_ranks(ranks, folder, cases):
    import torch.multiprocessing

    torch.multiprocessing.start_processes(
        run_rank, args=(ranks, folder, cases), nprocs=ranks, start_method="fork"
    )
    faults = []
    for rank in range(ranks):
        with open(f"{folder}/faults-{ranks}-{rank}.json", encoding="utf-8") as file:
            faults += json.load(file)
    return faults


def require_torch():
    warnings.filterwarnings("ignore")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        import torch
        from torch.distributed.pipelining.schedules import _ComputationType
    except ImportError as error:
        skip(f"this Python cannot import torch.distributed.pipelining: {error}")
    if not torch.distributed.is_gloo_available():
        skip("this torch has no gloo")
    if not hasattr(_ComputationType, "REDUCE_GRAD"):
        skip(f"torch {torch.__version__} has no REDUCE_GRAD; 2.10 and later have it")


def main():
    require_torch()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = schedules_to_train(sys.argv[1], folder, sys.argv[2:])
        for ranks in RANKS:
            cases = [case for case in found.cases if case.ranks == ranks]
            if cases:
                found.faults += run_ranks(ranks, folder, cases)
    for fault in found.faults:
        print(fault)
    print(
        f"{len(found.cases)} files trained, {len(REFUSED)} schedules refused, {len(found.faults)} faults, "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if found.faults or not found.cases else 0


if __name__ == "__main__":
    sys.exit(main())
