"""Commands that run as processes of their own, which Ctrl-C ends."""

from __future__ import annotations

import os
import sys

from ._arguments import Written as _Written
from ._arguments import flags_of, input_of
from ._errors import raise_for
from ._program import CallInput, Program, program_of_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import pandas

    from ._types import Scenario


def sweep(scenario: Scenario = None, *, client: Any = None, **keys: Any) -> pandas.DataFrame:
    """Predicts every combination of the lists, and returns a row for each point.

    `keys` are the flags of `penstock sweep`: `sweep("x.yaml", pp_size=[2, 4], schedule=["1f1b", "zb-h1"])`. An entry
    of `schedule` may be the file of a program, or a function (see `Program.from_order`) that makes the program of each
    point. `client` is a client of Dask: its workers, which need this package and the same files, share the points.
    Rows are the same for any number of workers. `attrs["notes"]` of the table has the notes.
    """
    if any(callable(one) for one in _as_list(keys.get("schedule"))):
        return _sweep_with_orders(scenario, client, keys)
    return _table_of(scenario, client, keys, {})


def tune(scenario: Scenario = None, **keys: Any) -> dict[str, Any]:
    """Returns the JSON document of `penstock tune --json`: the best configurations first."""
    arguments, text = input_of(scenario)
    return _json_of(["tune", *arguments, *flags_of(keys)], text)


def explain(scenario: Scenario = None, *, program: Program | None = None, **keys: Any) -> dict[str, Any]:
    """Returns the JSON document of `penstock explain --json`: why each rank is idle, and what would help.

    `program` replaces the scenario's schedule. `keys` are the flags of the command; `schedule` may also be a function,
    see `Program.from_order`.
    """
    with CallInput(scenario, program, keys) as given:
        return _json_of(["explain", *given.arguments], given.text)


def show(scenario: Scenario = None, *, program: Program | None = None, **keys: Any) -> str:
    """Returns the text of `penstock show`: the timeline as characters, a row for each rank.

    The parameters are those of `explain`; `keys` are the flags of `penstock show`, such as width or actions.
    """
    with CallInput(scenario, program, keys) as given:
        return _run(["show", *given.arguments], given.text)


def runs(*files: str | os.PathLike[str], **keys: Any) -> dict[str, Any]:
    """Returns the JSON document of `penstock runs --json`: measured steps beside their predictions."""
    return _json_of(["runs", *[os.fspath(file) for file in files], *flags_of(keys)], "")


def _sweep_with_orders(scenario: Scenario, client: Any, keys: dict[str, Any]) -> pandas.DataFrame:
    """Sweeps the named schedules and then the programs that functions make, in one table."""
    import tempfile

    import pandas

    entries = _as_list(keys["schedule"])
    names = [one for one in entries if not callable(one)]
    tables = []
    notes: dict[str, None] = {}
    for ranks, counts in _sizes_of(scenario, keys).items():
        with tempfile.TemporaryDirectory() as folder:
            # A program has one number of microbatches, so each number has a file of its own.
            labels: dict[str, str] = {}
            numbers: dict[str, int] = {}
            programs: dict[str, str] = {}
            for i, order in enumerate(one for one in entries if callable(one)):
                for count in counts:
                    file = os.path.join(folder, f"{i}-{count}.psched")
                    labels[file] = getattr(order, "__name__", "order")
                    numbers[file] = count
                    programs[file] = program_of_order(order, ranks, count).to_text()
                    _write(file, programs[file])
            given = {**keys, "pp_size": ranks, "schedule": [*names, *programs]}
            table = _table_of(scenario, client, given, programs)
        notes.update(dict.fromkeys(table.attrs["notes"]))
        own = [numbers.get(name, count) for name, count in zip(table["schedule"], table["microbatches"])]
        table = table[table["microbatches"] == own].replace({"schedule": labels})
        tables.append(table.replace({"reason": labels}, regex=True))
    table = pandas.concat(tables)
    order = {name: place for place, name in enumerate(dict.fromkeys(table["schedule"]))}
    table = table.sort_values("schedule", key=lambda column: column.map(order), kind="stable", ignore_index=True)
    table.attrs["notes"] = list(notes)
    return table


def _table_of(scenario: Scenario, client: Any, keys: dict[str, Any], programs: dict[str, str]) -> pandas.DataFrame:
    """Sweeps schedules of names and files. `programs` has the texts of files that workers may not have."""
    import pandas

    arguments, text = input_of(scenario)
    arguments = ["sweep", *arguments, *flags_of(keys)]
    document = _json_of(arguments, text) if client is None else _shared_sweep(client, arguments, text, programs)
    table = pandas.json_normalize(document["rows"])
    table.attrs["notes"] = document.get("notes", [])
    return table


def _sizes_of(scenario: Scenario, keys: dict[str, Any]) -> dict[int, list[int]]:
    """Returns each K of a sweep with its values of M."""
    # The rows of a schedule that exists for all of them tell both, also where the scenario states them.
    sizes: dict[int, list[int]] = {}
    rows = sweep(scenario, **{**keys, "schedule": "gpipe", "virtual_stages": None})
    for ranks, count in zip(rows["stages"].tolist(), rows["microbatches"].tolist()):
        counts = sizes.setdefault(ranks, [])
        if count not in counts:
            counts.append(count)
    return sizes


def _shared_sweep(client: Any, arguments: list[str], text: str, programs: dict[str, str]) -> dict[str, Any]:
    """Lets the workers of a Dask client compute shards, and joins them."""
    import tempfile

    with _Written(text, ".yaml") as file:
        # Shards are compared by the text of their scenario, so every worker reads the same one.
        arguments = [file if argument == "-" else argument for argument in arguments]
        count = max(1, len(client.scheduler_info()["workers"]))
        files = {file: text, **programs} if text else programs
        futures = client.map(_part, [(arguments, files, index + 1, count) for index in range(count)])
        parts: list[str] = client.gather(futures)
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for index, part in enumerate(parts):
                names.append(os.path.join(folder, f"part-{index + 1}.jsonl"))
                _write(names[-1], part)
            merged = [item for name in names for item in ("--merge", name)]
            return _json_of(["sweep", *merged], "")


def _part(task: tuple[list[str], dict[str, str], int, int]) -> str:
    """Computes one shard on a worker and returns its file."""
    import tempfile

    arguments, files, index, count = task
    for name, text in files.items():
        if not os.path.exists(name):
            os.makedirs(os.path.dirname(name), exist_ok=True)
            _write(name, text)
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
    raise_for({2: 0, 1: 1}.get(done.returncode, 2), message, _cycle_of(message))


def _cycle_of(message: str) -> list[str]:
    """Returns the waits of a hang as `Hang.cycle` has them. A message has a line for each of them."""
    import re

    waits = re.findall(r"^  rank (\d+), position (\d+): (\S+) waits for (.*)$", message, re.MULTILINE)
    return [f"{action} on rank {rank}, position {at}, waits for {other}" for rank, at, action, other in waits]


def _write(name: str, text: str) -> None:
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, range)) else [value]
