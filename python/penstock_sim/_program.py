"""Programs: one list of actions for each rank."""

from __future__ import annotations

import os

from . import _core
from ._arguments import Written, flags_of, input_of
from ._errors import raise_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ._types import Order, Scenario


class Program:
    """A schedule as lists of actions, such as "0F3" or "1SEND_B2", one list for each rank."""

    def __init__(self, core: _core.Program) -> None:
        self._core = core

    @staticmethod
    def from_text(text: str, name: str = "program") -> Program:
        """Reads the text of a .psched file. `name` stands in error messages."""
        return Program(_program(_core.program_of_text(text, name)))

    @staticmethod
    def from_csv(path: str | os.PathLike[str], dialect: str = "torch-2.6") -> Program:
        """Reads a CSV file of torch.distributed.pipelining. `dialect` is the release that wrote it."""
        name = os.fspath(path)
        with open(name, encoding="utf-8") as file:
            return Program(_program(_core.program_of_csv(file.read(), name, dialect)))

    @staticmethod
    def from_rows(rows: Sequence[Sequence[str]], dialect: str = "torch-2.6") -> Program:
        """Reads one row of cells for each rank, as `torch.distributed.pipelining` has them. Blank cells are idle."""
        text = "".join(",".join(f'"{cell}"' if ";" in cell else cell for cell in row) + "\n" for row in rows)
        return Program(_program(_core.program_of_csv(text, "rows", dialect)))

    @staticmethod
    def from_order(order: Order, ranks: int, microbatches: int) -> Program:
        """Calls `order(rank, K, M)` for each rank. Stage s lives on rank s mod K; without a stage, on its own rank.

            def order(rank, K, M):
                for m in range(M):
                    yield "F", m
                for m in range(M):
                    yield "B", m
        """
        return program_of_order(order, ranks, microbatches)

    @staticmethod
    def generate(schedule: str, pp_size: int, num_microbatches: int, **keys: Any) -> Program:
        """Returns the program of a named schedule, without messages. `keys` are flags of `penstock convert`."""
        shape = {"schedule": schedule, "pp_size": pp_size, "num_microbatches": num_microbatches}
        return Program(_program(_core.generate(flags_of({**shape, **keys}), "")))

    @property
    def schedule(self) -> str:
        """The name of the schedule; "custom" for a program that no rule made."""
        return self._core.schedule

    @property
    def ranks(self) -> int:
        """The number of ranks, K."""
        return self._core.ranks

    @property
    def stages(self) -> int:
        """The number of stages."""
        return self._core.stages

    @property
    def microbatches(self) -> int:
        """The number of microbatches, M."""
        return self._core.microbatches

    def lists(self) -> list[list[str]]:
        """Returns the actions of each rank."""
        return self._core.lists()

    def to_text(self) -> str:
        """Returns the text of a .psched file."""
        return self._core.text()

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Returns the CSV of torch.distributed.pipelining, and writes it to `path` if one is given."""
        text = self._core.csv()
        if isinstance(text, _core.Failure):
            raise_failure(text)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def lower(self) -> Program:
        """Returns the program with every SEND and RECV in place."""
        return Program(_program(self._core.lower()))

    def shrink(self) -> Program | None:
        """Returns the smallest program that fails as this one does, or None if this one does not fail."""
        smallest = self._core.shrink()
        return None if smallest is None else Program(smallest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._core == other._core

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Program {self.schedule}: {self.ranks} ranks, {self.stages} stages, {self.microbatches} microbatches>"


class Verdict:
    """What `penstock check` finds about a program."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    @property
    def valid(self) -> bool:
        """True if the program is legal."""
        return bool(self._document["valid"])

    @property
    def hangs(self) -> bool:
        """True if the program can hang under its channel."""
        return self._under_channel("hangs")

    @property
    def crosses(self) -> bool:
        """True if a SEND meets the RECV of another message."""
        return self._under_channel("crosses")

    @property
    def error(self) -> str:
        """The reason why the program is not valid; empty if it is valid."""
        return str(self._document.get("error") or "")

    @property
    def cycle(self) -> list[dict[str, Any]]:
        """The waits of a shortest cycle, each with its rank, position, action and what it waits for."""
        return list(self._document.get("cycle") or [])

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `penstock check --json`."""
        return self._document

    def _under_channel(self, verdict: str) -> bool:
        return self.valid and bool(self._document[verdict][self._document["channel"]])

    def __bool__(self) -> bool:
        return self.valid and not self.hangs and not self.crosses

    def __repr__(self) -> str:
        words = [word for word, true in [("hangs", self.hangs), ("crossed messages", self.crosses)] if true]
        return f"<Verdict {'not valid' if not self.valid else ', '.join(words) or 'safe'}>"


def check(program: Program | Scenario = None, channel: str | None = None, **keys: Any) -> Verdict:
    """Proves that a program, or the program of a scenario, is valid and cannot hang.

    `channel` is a channel model: rank, pair, direction, directed or boundary; without it the program's own. `keys`
    are flags of `penstock check`; `schedule` may also be a function, see `Program.from_order`. The verdict is true if
    nothing is wrong.
    """
    keys["channel"] = channel
    given = CallInput(None, program, keys) if isinstance(program, Program) else CallInput(program, None, keys)
    with given:
        answer = _core.check(given.arguments, given.text)
    if isinstance(answer, _core.Failure):
        raise_failure(answer)
    import json

    return Verdict(json.loads(answer))


class CallInput:
    """The arguments of a call, and the text of its standard input.

    A program replaces the scenario's schedule. Beside a scenario it is a second text, so it becomes a file, which the
    end of the context deletes. A function in `keys["schedule"]` is a program of pp_size ranks and num_microbatches.
    """

    def __init__(self, scenario: Scenario, program: Program | None, keys: dict[str, Any]) -> None:
        self._keys = dict(keys)
        if callable(self._keys.get("schedule")):
            program = _program_of_keys(self._keys)
        self._file: Written | None = None
        if program is not None and scenario is None:
            self._names, self.text = ["-"], program.to_text()
            return
        self._names, self.text = input_of(scenario)
        if program is not None:
            self._file = Written(program.to_text(), ".psched")

    @property
    def has_file(self) -> bool:
        """True if the arguments name a file that the end of the context deletes."""
        return self._file is not None

    def __enter__(self) -> CallInput:
        if self._file is not None:
            self._keys["schedule.program"] = self._file.__enter__()
        self.arguments = [*self._names, *flags_of(self._keys)]
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.__exit__(*error)


def _program_of_keys(keys: dict[str, Any]) -> Program:
    """Returns the program of a function, and takes the keys away that it stands for."""
    order, ranks, microbatches = keys.pop("schedule"), keys.pop("pp_size", None), keys.pop("num_microbatches", None)
    if ranks is None or microbatches is None:
        raise TypeError("a schedule that is a function needs pp_size and num_microbatches")
    return program_of_order(order, ranks, microbatches)


def program_of_order(order: Order, ranks: int, microbatches: int) -> Program:
    """Returns the program of a function, see `Program.from_order`."""
    lists: list[list[str]] = []
    stages = ranks
    for rank in range(ranks):
        own = {rank}
        actions: list[str] = []
        for entry in order(rank, ranks, microbatches):
            kind, microbatch = entry[0], entry[1]
            stage = entry[2] if len(entry) == 3 else rank
            own.add(stage)
            actions.append(f"{stage}{kind}{microbatch}")
        stages = max(stages, max(own) + 1)
        lists.append(actions + [f"{stage}STEP" for stage in sorted(own)])
    head = ["penstock program 1", "schedule custom", f"microbatches {microbatches}"]
    placement = [f"stage {stage}: rank {stage % ranks}" for stage in range(stages)]
    rows = [f"rank {rank}: {' '.join(actions)}" for rank, actions in enumerate(lists)]
    return Program.from_text("\n".join([*head, *placement, *rows]) + "\n", getattr(order, "__name__", "order"))


def _program(answer: _core.Program | _core.Failure) -> _core.Program:
    if isinstance(answer, _core.Failure):
        raise_failure(answer)
    return answer
