"""Records real steps of `torch.distributed.pipelining` in the form in which Penstock predicts them.

    from penstock_sim.torch import Recorder

    recorder = Recorder(schedule)                # any schedule of torch.distributed.pipelining, on every rank
    for inputs, targets in batches:
        schedule.step(inputs, target=targets)    # as before
        optimizer.step()
        recorder.step()                          # ends one step
    recorder.end()                               # every rank must call it; it brings all records together
    recorder.costs("costs.yaml", micro_batch_size=4)
    recorder.measured("predicted.json", "measured.json")

The recorder replaces methods of the stages by methods that also note the time, until `end()` puts the old ones back.
On a GPU it notes CUDA events and reads them in `end()`, so no action waits for the host. A message has no time of its
own in torch. The recorder says that it starts when its SEND is called and its producer has ended. It has arrived when
its consumer starts, or after the time of the quickest message between the same two ranks if that is earlier.

This module uses methods of torch that are not public. It was tested with torch 2.11.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union

import torch  # type: ignore[import-not-found,unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found,unused-ignore]

Path = Union[str, "os.PathLike[str]"]

#: Number of message pairs from which the difference of two clocks is found.
_PINGS = 16
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Span(NamedTuple):
    """One action of one rank, such as "0F3". Times are nanoseconds from where the first rank begins the step."""

    action: str
    start_ns: int
    end_ns: int


class Step(NamedTuple):
    """One step of the training loop: the spans of each rank, in the order in which the rank ran them."""

    ranks: list[list[Span]]

    @property
    def makespan_ns(self) -> int:
        """Time from the first start to the last end."""
        return max((span.end_ns for spans in self.ranks for span in spans), default=0)


class OrderError(ValueError):
    """The recorded ranks did not run the actions of the prediction in the order of the prediction."""


@dataclass
class _Raw:
    """What one rank notes during one step. A time is a number of nanoseconds or an index of a CUDA event."""

    computes: list[tuple[str, int, int, int, int]] = field(default_factory=list)  # kind, stage, microbatch, start, end
    posts: list[tuple[str, int, int, int]] = field(default_factory=list)  # kind, stage, microbatch, time
    begin: int = 0
    after_schedule: int = 0
    end: int = 0


class Recorder:
    """Records the steps of one pipeline schedule. Make one on every rank of the pipeline, before the first step.

    `schedule` is a schedule of torch.distributed.pipelining: GPipe, 1F1B, LoopedBFS, Interleaved1F1B,
    InterleavedZeroBubble, ZBVZeroBubble, DualPipeV, or a runtime that has loaded a CSV. `skip` steps at the start do
    not count: torch allocates memory and finds shapes in them.
    """

    def __init__(self, schedule: Any, skip: int = 1) -> None:
        stages = getattr(schedule, "_stages", None) or [getattr(schedule, "_stage", None)]
        if stages[0] is None:
            raise TypeError(
                f"Recorder expects a schedule of torch.distributed.pipelining, got {type(schedule).__name__}"
            )
        self._schedule = schedule
        self._stages = list(stages)
        self._group = self._stages[0].group
        self._rank: int = self._stages[0].group_rank
        self._size: int = self._stages[0].group_size
        self._device = torch.device(self._stages[0].device)
        self._clock: _Clock = _CudaClock(self._device) if self._device.type == "cuda" else _Clock()
        self._skip = skip
        self._raw: list[_Raw] = []
        self._open = _Raw()
        self._replaced: list[tuple[Any, str]] = []
        self._offset = self._measure_offset()
        self._steps: list[Step] | None = None
        self._wrap()

    def step(self) -> None:
        """Ends one step. Call it after `optimizer.step()`, so that the time of the optimizer counts as STEP."""
        self._open.end = self._clock.now()
        self._raw.append(self._open)
        self._open = _Raw()

    def end(self) -> None:
        """Stops recording and brings the records of all ranks together. All ranks of the pipeline must call it."""
        for owner, name in self._replaced:
            delattr(owner, name)
        self._replaced.clear()
        raw = [self._clock.resolve(step) for step in self._raw[self._skip :]]
        if not raw:
            raise ValueError(
                f"Recorder.end: expected more than {self._skip} steps, the number that does not count, but "
                f"Recorder.step() was called {len(self._raw)} times"
            )
        last = self._measure_offset()
        mine = [_shifted(step, self._offset, last) for step in raw]
        everyone = [[_Raw(*parts) for parts in rank] for rank in self._gather([_parts(step) for step in mine])]
        self._steps = [_step_of([ranks[number] for ranks in everyone]) for number in range(min(map(len, everyone)))]

    @property
    def steps(self) -> list[Step]:
        """The recorded steps of all ranks. They exist after `end()`."""
        if self._steps is None:
            raise RuntimeError("Recorder: call end() on every rank before you read what was recorded")
        return self._steps

    def median(self) -> Step:
        """Returns the recorded step with the median makespan."""
        return sorted(self.steps, key=lambda step: step.makespan_ns)[(len(self.steps) - 1) // 2]

    def measured(self, predicted: Path, out: Path) -> dict[str, Any]:
        """Writes the median step as a result that `penstock compare`, `explain` and `diff` read, and returns it.

        `predicted` is the JSON of `penstock simulate --timeline` for the same schedule. Its actions must be those that
        ran, in the same order on each rank; otherwise `OrderError` names the first difference. Rank 0 writes `out`.
        """
        with open(predicted, encoding="utf-8") as file:
            document = json.load(file)
        if document.get("kind") != "predicted" or not document.get("timeline"):
            raise ValueError(
                f"{os.fspath(predicted)}: expected the result of a prediction with its actions; make it with "
                "`penstock simulate ... --timeline -o FILE.json`"
            )
        result = _measured_result(document, self.median(), len(self.steps))
        if self._rank == 0:
            with open(out, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
                file.write("\n")
        return result

    def costs(self, out: Path, micro_batch_size: int = 1) -> str:
        """Writes the mean times of each stage as a scenario that `penstock simulate` takes, and returns its text.

        `micro_batch_size` is the number of samples of a microbatch. Rank 0 writes `out`.
        """
        text = _costs_text(self.steps, micro_batch_size)
        if self._rank == 0:
            with open(out, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def _wrap(self) -> None:
        for stage in self._stages:
            self._wrap_stage(stage)
        owner, now = self._schedule, self._clock.now
        microbatches, loss = owner._step_microbatches, owner._maybe_compute_loss

        def step_microbatches(*args: Any, **kwargs: Any) -> Any:
            self._open.begin = self._clock.start()
            result = microbatches(*args, **kwargs)
            self._open.after_schedule = now()
            return result

        def maybe_compute_loss(stage: Any, *args: Any, **kwargs: Any) -> Any:
            result = loss(stage, *args, **kwargs)
            if stage.is_last:  # the loss belongs to the forward pass of the last stage
                self._open.computes[-1] = (*self._open.computes[-1][:4], now())
            return result

        self._replace(owner, "_step_microbatches", step_microbatches)
        self._replace(owner, "_maybe_compute_loss", maybe_compute_loss)

    def _wrap_stage(self, stage: Any) -> None:
        now, number = self._clock.now, stage.stage_index
        forward, backward = stage.forward_one_chunk, stage.backward_one_chunk
        weight, reduce_grad = stage.backward_weight_one_chunk, stage.perform_reduce_grad

        def forward_one_chunk(microbatch: int, *args: Any, **kwargs: Any) -> Any:
            start = now()
            result = forward(microbatch, *args, **kwargs)
            self._open.computes.append(("F", number, microbatch, start, now()))
            return result

        def backward_one_chunk(
            microbatch: int, loss: Any = None, full_backward: bool = True, last_backward: bool = False
        ) -> Any:
            start = now()
            result = backward(microbatch, loss=loss, full_backward=full_backward, last_backward=last_backward)
            self._open.computes.append(("B" if full_backward else "I", number, microbatch, start, now()))
            return result

        def backward_weight_one_chunk(microbatch: int, *args: Any, **kwargs: Any) -> Any:
            start = now()
            result = weight(microbatch, *args, **kwargs)
            self._open.computes.append(("W", number, microbatch, start, now()))
            return result

        def perform_reduce_grad(*args: Any, **kwargs: Any) -> Any:
            start = now()
            result = reduce_grad(*args, **kwargs)
            self._open.computes.append(("REDUCE_GRAD", number, -1, start, now()))
            return result

        self._replace(stage, "forward_one_chunk", forward_one_chunk)
        self._replace(stage, "backward_one_chunk", backward_one_chunk)
        self._replace(stage, "backward_weight_one_chunk", backward_weight_one_chunk)
        self._replace(stage, "perform_reduce_grad", perform_reduce_grad)
        for name, kind in _POSTS.items():
            self._replace(stage, name, self._post(getattr(stage, name), kind, number))

    def _post(self, call: Any, kind: str, number: int) -> Any:
        now = self._clock.now

        def post(microbatch: int) -> Any:
            operations = call(microbatch)
            if operations:
                self._open.posts.append((kind, number, microbatch, now()))
            return operations

        return post

    def _replace(self, owner: Any, name: str, function: Any) -> None:
        setattr(owner, name, function)
        self._replaced.append((owner, name))

    def _measure_offset(self) -> tuple[int, int]:
        """Returns (own time, own time minus rank 0's time at that moment). Ranks of one host share their clock."""
        boots = self._gather(_boot_id())
        here = time.perf_counter_ns()
        for other in range(1, self._size):
            if boots[other] == boots[0]:
                continue
            if self._rank == 0:
                self._answer(other)
            elif self._rank == other:
                here, difference = self._ask()
                return here, difference
        return here, 0

    def _gather(self, value: Any) -> list[Any]:
        """Returns the values of all ranks. (all_gather_object of torch needs NumPy, which a torch may lack.)"""
        mine = torch.tensor(list(json.dumps(value).encode("ascii")), dtype=torch.uint8, device=self._device)
        length = torch.tensor([len(mine)], device=self._device)
        lengths = [torch.zeros_like(length) for _ in range(self._size)]
        dist.all_gather(lengths, length, group=self._group)
        most = max(int(each.item()) for each in lengths)
        texts = [torch.zeros(most, dtype=torch.uint8, device=self._device) for _ in range(self._size)]
        dist.all_gather(texts, torch.nn.functional.pad(mine, (0, most - len(mine))), group=self._group)
        return [json.loads(bytes(text[: int(size.item())].tolist())) for text, size in zip(texts, lengths)]

    def _answer(self, other: int) -> None:
        peer = dist.get_global_rank(self._group, other) if self._group is not None else other
        for _ in range(_PINGS):
            dist.recv(torch.zeros(1, dtype=torch.int64, device=self._device), peer, group=self._group)
            dist.send(torch.tensor([time.perf_counter_ns()], device=self._device), peer, group=self._group)

    def _ask(self) -> tuple[int, int]:
        peer = dist.get_global_rank(self._group, 0) if self._group is not None else 0
        best: tuple[int, int, int] | None = None
        for _ in range(_PINGS):
            answer = torch.zeros(1, dtype=torch.int64, device=self._device)
            sent = time.perf_counter_ns()
            dist.send(answer, peer, group=self._group)
            dist.recv(answer, peer, group=self._group)
            theirs = int(answer.item())
            got = time.perf_counter_ns()
            middle = (sent + got) // 2
            best = min(best or (got - sent, middle, middle - theirs), (got - sent, middle, middle - theirs))
        assert best is not None
        return best[1], best[2]


#: The methods of a stage that make the operations of a message, and the action that they stand for.
_POSTS = {
    "get_fwd_send_ops": "SEND_F",
    "get_bwd_send_ops": "SEND_B",
    "get_fwd_recv_ops": "RECV_F",
    "get_bwd_recv_ops": "RECV_B",
}


class _Clock:
    """The clock of the host."""

    def now(self) -> int:
        """Returns the present time."""
        return time.perf_counter_ns()

    def start(self) -> int:
        """Returns the time at which a step starts."""
        return time.perf_counter_ns()

    def resolve(self, step: _Raw) -> _Raw:
        """Returns the step with all times in nanoseconds of the host."""
        return step


class _CudaClock(_Clock):
    """Events on the current stream of a GPU. A time is the index of an event until `resolve` reads it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events: list[Any] = []
        self._bases: dict[int, tuple[int, int]] = {}  # index of the first event of a step: host time, index

    def now(self) -> int:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        self._events.append(event)
        return len(self._events) - 1

    def start(self) -> int:
        torch.cuda.synchronize(self._device)
        index = self.now()
        self._bases[index] = (time.perf_counter_ns(), index)
        return index

    def resolve(self, step: _Raw) -> _Raw:
        torch.cuda.synchronize(self._device)
        host, base = self._bases[step.begin]

        def at(index: int) -> int:
            return int(host + 1e6 * self._events[base].elapsed_time(self._events[index]))

        return _with_times(step, at)


def _parts(step: _Raw) -> list[Any]:
    return [step.computes, step.posts, step.begin, step.after_schedule, step.end]


def _boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return str(file.read())
    except OSError:
        return os.uname().nodename


def _with_times(step: _Raw, at: Callable[[int], int]) -> _Raw:
    """Returns the step with each of its times replaced by `at(time)`."""
    return _Raw(
        [(kind, stage, number, at(start), at(end)) for kind, stage, number, start, end in step.computes],
        [(kind, stage, number, at(when)) for kind, stage, number, when in step.posts],
        at(step.begin),
        at(step.after_schedule),
        at(step.end),
    )


def _shifted(step: _Raw, first: tuple[int, int], last: tuple[int, int]) -> _Raw:
    """Returns the step in rank 0's time. The clocks' difference is on the line between two measurements."""
    slope = (last[1] - first[1]) / max(1, last[0] - first[0])

    def at(when: int) -> int:
        return when - first[1] - round(slope * (when - first[0]))

    return _with_times(step, at)


class _Message(NamedTuple):
    sender: int
    receiver: int
    send: str
    receive: str
    start_ns: int
    posted_ns: int
    consumed_ns: int


def _step_of(raw: list[_Raw]) -> Step:
    """Puts one step together: compute spans as noted, and messages from their posts."""
    # The last rank ends its step, and begins the next one, before the first rank does. So the step begins with the
    # rank that computes first.
    zero = min(raw, key=lambda step: min((start for _, _, _, start, _ in step.computes), default=step.end)).begin
    ranks = [
        [_compute_span(kind, stage, number, start - zero, end - zero) for kind, stage, number, start, end in step.computes]
        for step in raw
    ]
    messages = _messages(raw, zero)
    quickest: dict[tuple[int, int], int] = {}
    for message in messages:
        pair = (message.sender, message.receiver)
        quickest[pair] = min(quickest.get(pair, 1 << 62), max(0, message.consumed_ns - message.start_ns))
    for message in messages:
        arrival = message.start_ns + quickest[(message.sender, message.receiver)]
        arrival = max(message.start_ns, min(arrival, message.consumed_ns))
        ranks[message.sender].append(Span(message.send, message.start_ns, arrival))
        ranks[message.receiver].append(
            Span(message.receive, min(arrival, max(message.start_ns, message.posted_ns)), arrival)
        )
    for rank, step in enumerate(raw):
        own = sorted({stage for _, stage, _, _, _ in step.computes})
        for position, stage in enumerate(own):  # the whole optimizer step is noted on the rank's first stage
            start = step.after_schedule if position == 0 else step.end
            ranks[rank].append(Span(f"{stage}STEP", start - zero, step.end - zero))
    return Step([sorted(spans, key=lambda span: (span.start_ns, span.end_ns)) for spans in ranks])


def _compute_span(kind: str, stage: int, microbatch: int, start: int, end: int) -> Span:
    return Span(f"{stage}{kind}{microbatch if microbatch >= 0 else ''}", start, end)


def _messages(raw: list[_Raw], zero: int) -> list[_Message]:
    """Pairs the post of each SEND with that of its RECV and with its consumer."""
    begins: dict[tuple[str, int, int], int] = {}
    ends: dict[tuple[str, int, int], int] = {}
    received: dict[tuple[str, int, int], tuple[int, int]] = {}
    for rank, step in enumerate(raw):
        for kind, stage, microbatch, start, end in step.computes:
            way = "F" if kind == "F" else "B"  # B and I take the gradient, W takes no message
            if kind in "FBI":
                begins[way, stage, microbatch] = start - zero
                ends[way, stage, microbatch] = end - zero
        for kind, stage, microbatch, when in step.posts:
            if kind.startswith("RECV"):
                received[kind[-1], stage, microbatch] = (rank, when - zero)
    messages = []
    for rank, step in enumerate(raw):
        for kind, stage, microbatch, when in step.posts:
            if not kind.startswith("SEND"):
                continue
            way = kind[-1]
            peer = stage + 1 if way == "F" else stage - 1
            receiver, posted = received[way, peer, microbatch]
            start = max(when - zero, ends[way, stage, microbatch])
            consumed = begins[way, peer, microbatch]
            send, receive = f"{stage}SEND_{way}{microbatch}", f"{peer}RECV_{way}{microbatch}"
            messages.append(_Message(rank, receiver, send, receive, start, posted, consumed))
    return messages


def _kind(action: str) -> str:
    return action.lstrip("0123456789").rstrip("0123456789")


def _is_compute(action: str) -> bool:
    return _kind(action) in ("F", "B", "I", "W", "R")


def _measured_result(document: dict[str, Any], step: Step, count: int) -> dict[str, Any]:
    ranks = document["program"]["ranks"]
    if ranks != len(step.ranks):
        raise OrderError(f"the prediction has {ranks} ranks, and {len(step.ranks)} ranks ran")
    timeline = []
    for rank, spans in enumerate(step.ranks):
        planned = [row for row in document["timeline"] if row["rank"] == rank]
        _check_order(rank, planned, spans)
        times = {span.action: span for span in spans}
        for row in planned:
            span = times.get(row["action"])
            if span is None:
                raise OrderError(f"rank {rank}: the prediction has {row['action']}, which the recorder did not see")
            row = {key: value for key, value in row.items() if key != "released_ns"}
            timeline.append({**row, "start_ns": span.start_ns, "end_ns": span.end_ns})
    makespan = step.makespan_ns
    figures = [_rank_figures(row, step, makespan) for row in document["ranks"]]
    idle, busy = (sum(figure[key] for figure in figures) for key in ("idle_ns", "busy_ns"))
    samples = document["throughput"]["samples"]
    return {
        **document,
        "kind": "measured",
        "engine": "torch.distributed.pipelining",
        "makespan_ns": makespan,
        "bubble": {
            "idle_over_total": idle / (ranks * makespan),
            "idle_over_ideal": idle / busy if busy else 0.0,
            "longest_span_rate": _longest_span_rate(step),
        },
        "throughput": {
            "samples_per_second": samples * 1e9 / makespan,
            "steady_samples_per_second": None,
            "samples": samples,
            "samples_per_update": document["throughput"]["samples_per_update"],
        },
        "ranks": figures,
        "notes": [f"recorded by penstock_sim.torch, torch {torch.__version__}: the median of {count} steps"],
        "timeline": timeline,
    }


def _check_order(rank: int, planned: list[dict[str, Any]], spans: list[Span]) -> None:
    """Compares the compute actions of one rank. The parts of an overlapped pair may run in either order."""
    expected = [row for row in planned if _is_compute(row["action"])]
    ran = [span.action for span in spans if _is_compute(span.action)]
    position = 0
    while position < max(len(expected), len(ran)):
        want = expected[position]["action"] if position < len(expected) else "nothing"
        got = ran[position] if position < len(ran) else "nothing"
        if want != got:
            following = expected[position + 1] if position + 1 < len(expected) else None
            overlaps = following is not None and following["start_ns"] < expected[position]["end_ns"]
            swapped = [following["action"], want] if following is not None else []
            if not (overlaps and ran[position : position + 2] == swapped):
                raise OrderError(
                    f"rank {rank}: action {position} of the prediction is {want}, and {got} ran; predict the schedule "
                    "that runs, for example from the CSV that torch's _dump_csv writes"
                )
            position += 1
        position += 1


def _rank_figures(row: dict[str, Any], step: Step, makespan: int) -> dict[str, Any]:
    spans = step.ranks[row["rank"]]
    busy = sum(span.end_ns - span.start_ns for span in spans if _is_compute(span.action))
    return {
        "rank": row["rank"],
        "device": row["device"],
        "busy_ns": busy,
        "idle_ns": makespan - busy,
        "exposed_communication_ns": _exposed(spans),
        "peak_bytes": 0,
        "peak_live_activations": row["peak_live_activations"],
        "weight_versions": row["weight_versions"],
        "sent_bytes": row["sent_bytes"],
        "received_bytes": row["received_bytes"],
    }


def _exposed(spans: list[Span]) -> int:
    """Idle time of a rank in which the message that its next compute action waits for is under way."""
    received = {span.action.replace("RECV_", ""): span for span in spans if "RECV_" in span.action}
    exposed = before = 0
    for span in spans:
        if not _is_compute(span.action):
            continue
        message = received.get(span.action.replace("I", "B"))
        if message is not None:
            exposed += max(0, min(span.start_ns, message.end_ns) - max(before, message.start_ns))
        before = span.end_ns
    return exposed


def _longest_span_rate(step: Step) -> float:
    """The idle share of the rank whose time from its first start to its last end is longest."""
    longest, rate = -1, 0.0
    for spans in step.ranks:
        compute = [span for span in spans if _is_compute(span.action)]
        if not compute:
            continue
        length = max(span.end_ns for span in compute) - min(span.start_ns for span in compute)
        if length > longest:
            longest = length
            rate = 1 - sum(span.end_ns - span.start_ns for span in compute) / max(1, length)
    return rate


def _costs_text(steps: list[Step], micro_batch_size: int) -> str:
    kinds: dict[str, dict[int, list[int]]] = {}
    gaps: dict[int, list[int]] = {}
    hops: list[int] = []
    for step in steps:
        for spans in step.ranks:
            arrivals = {span.action.replace("RECV_", ""): span.end_ns for span in spans if "RECV_" in span.action}
            hops += [span.end_ns - span.start_ns for span in spans if "SEND_" in span.action]
            before: int | None = None
            for span in spans:
                kind = _kind(span.action)
                if kind not in ("F", "B", "I", "W", "STEP"):
                    continue
                stage = int(span.action[: span.action.index(kind)])
                kinds.setdefault(kind, {}).setdefault(stage, []).append(span.end_ns - span.start_ns)
                if kind != "STEP" and before is not None:
                    input_name = span.action.replace("I", "B")
                    gaps.setdefault(stage, []).append(
                        max(0, span.start_ns - max(before, arrivals.get(input_name, 0)))
                    )
                before = span.end_ns
    stages = sorted(kinds["F"])

    def row(key: str, times: dict[int, list[int]]) -> str:
        values = [times.get(stage, [0]) for stage in stages]
        return f"    {key}: [{', '.join(f'{sum(value) // max(1, len(value))} ns' for value in values)}]\n"

    text = "# Means of recorded steps of torch.distributed.pipelining. The optimizer's time stands on a rank's first stage.\n"
    text += "model:\n  stages:\n" + row("forward", kinds["F"])
    text += "".join(
        row(key, kinds[kind])
        for kind, key in (("B", "backward"), ("I", "backward_input"), ("W", "backward_weight"))
        if kind in kinds and not (kind == "B" and "I" in kinds)
    )
    text += row("step", kinds["STEP"]) + row("overhead", gaps)
    latency = sorted(hops)[len(hops) // 2] if hops else 0
    text += f"cluster:\n  preset: uniform\n  latency: {latency} ns\n"
    return text + f"training:\n  micro_batch_size: {micro_batch_size}\n"
