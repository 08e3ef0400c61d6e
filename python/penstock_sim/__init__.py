"""Predicts pipeline-parallel training schedules.

    import penstock_sim as ps

    result = ps.simulate(schedule="zb-h1", pp_size=4, num_microbatches=8)
    print(result.makespan, result.bubble, result.peak)

Keyword arguments are the flags of the command `penstock`, with "_" in place of "-": `pp_size=4` is `--pp-size 4`.
A name with a dot is a key of the scenario, as in `--set`: `**{"cluster.latency": "4us"}`.
"""

from __future__ import annotations

from ._commands import explain, runs, show, sweep, tune
from ._errors import Hang, PenstockError, RunError, ScenarioError
from ._program import Program, Verdict, check
from ._result import Result, simulate

# Type checkers read this as typing.TYPE_CHECKING. The module typing takes a sixth of the time of this import, so no module
# of the package imports it, nor json or re, before a function needs it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._types import Order

__version__ = "0.1.0"
__all__ = [
    "Hang",
    "Order",
    "PenstockError",
    "Program",
    "Result",
    "RunError",
    "ScenarioError",
    "Verdict",
    "check",
    "explain",
    "runs",
    "show",
    "simulate",
    "sweep",
    "tune",
]


def __getattr__(name: str) -> object:
    if name == "Order":
        from ._types import Order

        return Order
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
