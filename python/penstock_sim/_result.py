"""One prediction."""

from __future__ import annotations

from . import _core
from ._errors import raise_failure
from ._program import CallInput, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pandas

    from ._types import Scenario


class Result:
    """The prediction of one run. Times in `..._ns` are whole nanoseconds; `makespan` is in seconds."""

    def __init__(self, core: _core.Result, repeat: Callable[[], _core.Result]) -> None:
        self._core = core
        self._repeat = repeat  # Predicts the same run again and stores its timeline.
        self._long: _core.Result | None = None

    @property
    def makespan_ns(self) -> int:
        """The time from the first start to the last end of an action, in nanoseconds."""
        return self._core.makespan_ns

    @property
    def makespan(self) -> float:
        """The makespan in seconds."""
        return self._core.makespan_ns / 1e9

    @property
    def bubble(self) -> float:
        """The idle time of all ranks, divided by the number of ranks and the makespan, in [0, 1]."""
        return self._core.bubble

    @property
    def peak(self) -> int:
        """The memory of the fullest rank at its peak, in bytes; 0 if the scenario has no sizes.

        Without sizes, memory is counted in activations; `ranks()` has these counts.
        """
        return self._core.peak_bytes

    @property
    def samples_per_second(self) -> float:
        """The samples of the run, divided by its makespan; 0 if the makespan is 0."""
        return self._core.samples_per_second

    @property
    def out_of_memory(self) -> bool:
        """True if a rank needs more memory than its device has."""
        return self._core.out_of_memory

    @property
    def schedule(self) -> str:
        """The name of the schedule; "custom" for a program of the user."""
        return self._core.schedule

    @property
    def notes(self) -> list[str]:
        """The assumptions of the prediction."""
        return list(self._core.notes)

    def ranks(self) -> list[dict[str, Any]]:
        """Returns the figures of each rank, with the keys of the JSON document."""
        ranks: list[dict[str, Any]] = self.to_dict()["ranks"]
        return ranks

    def to_dict(self, timeline: bool = False) -> dict[str, Any]:
        """Returns the JSON document of `penstock simulate --json`, with every span and memory sample if asked."""
        import json

        core = self._with_timeline() if timeline else self._core
        document: dict[str, Any] = json.loads(core.json(timeline))
        return document

    def timeline(self) -> pandas.DataFrame:
        """Returns a row for each action of each rank: rank, kind, stage, microbatch, ..., start_ns and end_ns."""
        import pandas

        columns = self._with_timeline().timeline_columns()
        kinds: Any = _core.kind_words()
        columns["kind"] = pandas.Categorical.from_codes(columns["kind"], kinds)
        return pandas.DataFrame(columns, copy=False)

    def svg(self, width: int = 1200) -> str:
        """Returns the picture of the schedule as an <svg> element of `width` pixels."""
        return self._with_timeline().svg(width)

    def to_html(self) -> str:
        """Returns the page of `penstock simulate -o FILE.html`."""
        return self._with_timeline().html()

    def _repr_html_(self) -> str:
        return f"<p>{repr(self)[1:-1]}</p>{self.svg(900)}"

    def __repr__(self) -> str:
        return (
            f"<Result {self.schedule}: makespan {self.makespan_ns / 1e6:.3f} ms, "
            f"bubble {100 * self.bubble:.2f} %, peak {self.peak / 2**30:.2f} GiB>"
        )

    def _with_timeline(self) -> _core.Result:
        if self._long is None:
            self._long = self._repeat()
        return self._long


def simulate(scenario: Scenario = None, *, program: Program | None = None, **keys: Any) -> Result:
    """Predicts one run.

    `scenario` is a dict, the text of a YAML document, or the path of a scenario or program file. `program` replaces
    the scenario's schedule. `keys` are the flags of `penstock simulate`; `schedule` may also be a function
    `order(rank, K, M)`, see `Program.from_order`. Raises ScenarioError for wrong input, and Hang if the program is
    not valid or can hang.
    """
    with CallInput(scenario, program, keys) as given:
        result = _simulated(given.arguments, given.text)
        if given.has_file:
            result._with_timeline()  # The file of the program is gone after this block.
    return result


def _simulated(arguments: list[str], text: str) -> Result:
    def predict(timeline: bool) -> _core.Result:
        answer = _core.simulate(arguments, text, timeline)
        if isinstance(answer, _core.Failure):
            raise_failure(answer)
        return answer

    return Result(predict(False), lambda: predict(True))
