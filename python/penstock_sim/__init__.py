"""Predicts pipeline-parallel training schedules.

    import penstock_sim as ps

    result = ps.simulate(schedule="zb-h1", pp_size=4, num_microbatches=8)
    print(result.makespan, result.bubble, result.peak)

Keyword arguments are the flags of the command `penstock`, with "_" in place of "-": `pp_size=4` is `--pp-size 4`.
A name with a dot is a key of the scenario, as in `--set`: `**{"cluster.latency": "4us"}`.
"""

from ._commands import explain, runs, sweep, tune
from ._errors import Hang, PenstockError, RunError, ScenarioError
from ._program import Order, Program, Verdict, check
from ._result import Result, simulate

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
    "simulate",
    "sweep",
    "tune",
]
