#!/usr/bin/env python3
"""Measures the Python package: wall time and processor time, each the best of several repetitions.

    python3 bench/python_bench.py      in an environment with penstock-sim and pandas

The import is timed in new processes, without the start of Python itself. On a machine that others use, the processor time is
the figure that does not depend on them.
"""

import platform
import subprocess
import sys
import time
from collections.abc import Callable

IMPORT = """
import time
wall, processor = time.perf_counter(), time.process_time()
import penstock_sim
print(time.perf_counter() - wall, time.process_time() - processor)
"""

Seconds = tuple[float, float]


def timed(action: Callable[[], object]) -> Seconds:
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def timed_import() -> Seconds:
    wall, processor = subprocess.check_output([sys.executable, "-c", IMPORT]).split()
    return float(wall), float(processor)


def best(measure: Callable[[], Seconds], repetitions: int) -> Seconds:
    walls, processors = zip(*(measure() for _ in range(repetitions)))
    return min(walls), min(processors)


def main() -> None:
    import penstock_sim as ps

    small = {"schedule": "1f1b", "pp_size": 4, "num_microbatches": 8}
    long_run = ps.simulate(schedule="1f1b", pp_size=16, num_microbatches=2182)
    spans = len(long_run.timeline())  # pandas is imported here
    rows = [
        ("import penstock_sim", best(timed_import, 20), "30 ms"),
        ('simulate(schedule="1f1b", pp_size=4, num_microbatches=8)', best(lambda: timed(lambda: ps.simulate(**small)), 300), "0.2 ms"),
        (f"timeline() of {spans} spans, as a DataFrame", best(lambda: timed(long_run.timeline), 20), "100 ms"),
    ]
    print(f"{platform.machine()}, Python {platform.python_version()}, penstock-sim {ps.__version__}")
    print(f"{'':56} {'wall':>10} {'processor':>10} {'aim':>10}")
    for what, (wall, processor), aim in rows:
        print(f"{what:56} {wall * 1e3:7.3f} ms {processor * 1e3:7.3f} ms {aim:>10}")


if __name__ == "__main__":
    main()
