"""Commands that take long. Each runs as a process of its own, which Ctrl-C ends."""

from __future__ import annotations

import os
import sys

from ._arguments import flags_of, input_of
from ._errors import raise_for
from ._program import Program, program_of_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import pandas

    from ._types import Order, Scenario


def sweep(scenario: Scenario = None, *, client: Any = None, **keys: Any) -> pandas.DataFrame:
    """Predicts every combination of the lists, and returns a row for each point.

    `keys` are the flags of `penstock sweep`: `sweep("x.yaml", pp_size=[2, 4], schedule=["1f1b", "zb-h1"])`. An entry
    of `schedule` may be a function, see `Program.from_order`. `client` is a client of Dask: its workers, which need
    this package and the same files, share the points. Rows are the same for any number of workers. `attrs["notes"]` of
    the table has the notes.
    """
    import pandas

    orders = [one for one in _as_list(keys.get("schedule")) if callable(one)]
    if orders:
        return _sweep_with_orders(scenario, client, keys, orders)
    arguments, text = input_of(scenario)
    arguments = ["sweep", *arguments, *flags_of(keys)]
    document = _json_of(arguments, text) if client is None else _shared_sweep(client, arguments, text)
    table = pandas.json_normalize(document["rows"])
    table.attrs["notes"] = document.get("notes", [])
    return table


def tune(scenario: Scenario = None, **keys: Any) -> dict[str, Any]:
    """Returns the JSON document of `penstock tune --json`: the best configurations first."""
    arguments, text = input_of(scenario)
    return _json_of(["tune", *arguments, *flags_of(keys)], text)


def explain(scenario: Scenario = None, *, program: Program | None = None, **keys: Any) -> dict[str, Any]:
    """Returns the JSON document of `penstock explain --json`: why each rank is idle, and what would help."""
    arguments, text = (["-"], program.to_text()) if program is not None else input_of(scenario)
    return _json_of(["explain", *arguments, *flags_of(keys)], text)


def runs(*files: str | os.PathLike[str], **keys: Any) -> dict[str, Any]:
    """Returns the JSON document of `penstock runs --json`: measured steps beside their predictions."""
    return _json_of(["runs", *[os.fspath(file) for file in files], *flags_of(keys)], "")


def _sweep_with_orders(
    scenario: Scenario, client: Any, keys: dict[str, Any], orders: list[Order]
) -> pandas.DataFrame:
    import pandas

    names = [one for one in _as_list(keys["schedule"]) if not callable(one)]
    tables = [sweep(scenario, client=client, **{**keys, "schedule": names})] if names else []
    others = {name: value for name, value in keys.items() if name not in ("schedule", "pp_size", "num_microbatches")}
    for order in orders:
        for ranks in _as_list(keys.get("pp_size")):
            for microbatches in _as_list(keys.get("num_microbatches")):
                program = program_of_order(order, ranks, microbatches)
                with _Written(program.to_text(), ".psched") as file:
                    given = {**others, "schedule.program": file} if scenario is not None else others
                    table = sweep(file if scenario is None else scenario, client=client, **given)
                table["schedule"] = getattr(order, "__name__", "order")
                tables.append(table)
    return pandas.concat(tables, ignore_index=True)


def _shared_sweep(client: Any, arguments: list[str], text: str) -> dict[str, Any]:
    """Lets the workers of a Dask client compute shards, and joins them."""
    import tempfile

    with _Written(text, ".yaml") as file:
        # Shards are compared by the text of their scenario, so every worker reads the same one.
        arguments = [file if argument == "-" else argument for argument in arguments]
        count = max(1, len(client.scheduler_info()["workers"]))
        futures = client.map(_part, [(arguments, text, file, index + 1, count) for index in range(count)])
        parts: list[str] = client.gather(futures)
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for index, part in enumerate(parts):
                names.append(os.path.join(folder, f"part-{index + 1}.jsonl"))
                _write(names[-1], part)
            merged = [item for name in names for item in ("--merge", name)]
            return _json_of(["sweep", *merged], "")


def _part(task: tuple[list[str], str, str, int, int]) -> str:
    """Computes one shard on a worker and returns its file."""
    import tempfile

    arguments, text, scenario, index, count = task
    if text and not os.path.exists(scenario):
        _write(scenario, text)
    with tempfile.TemporaryDirectory() as folder:
        part = os.path.join(folder, "part.jsonl")
        _run([*arguments, "--shard", f"{index}/{count}", "-o", part], "")
        with open(part, encoding="utf-8") as file:
            return file.read()


def _json_of(arguments: list[str], text: str) -> dict[str, Any]:
    import json

    document: dict[str, Any] = json.loads(_run([*arguments, "--json"], text))
    return document


def _run(arguments: list[str], text: str) -> str:
    """Runs the command line, and returns what it prints. Raises the exception of its exit code."""
    import subprocess

    command = [sys.executable, "-m", "penstock_sim", *arguments, "--quiet"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    message = done.stderr.strip().removeprefix("penstock: ")
    raise_for({2: 0, 1: 1}.get(done.returncode, 2), message, [])


def _write(name: str, text: str) -> None:
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


class _Written:
    """A temporary file that holds a text. Its context gives the name of the file."""

    def __init__(self, text: str, suffix: str) -> None:
        self._text = text
        self._suffix = suffix

    def __enter__(self) -> str:
        import tempfile

        self._file = tempfile.NamedTemporaryFile("w", suffix=self._suffix, encoding="utf-8")
        self._file.write(self._text)
        self._file.flush()
        return self._file.name

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, range)) else [value]
