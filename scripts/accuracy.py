#!/usr/bin/env python3
"""Prints how far predictions are from measured training steps, by class, with constants fitted on some rows and judged on others.

Usage: scripts/accuracy.py PENSTOCK [--page PAGE] [FILE ...]

Each line names the rows whose errors it averages and the rows on which constants were fitted. The second column of errors uses
the constants of the devices instead. No judged row was used for the fit of its line. The files are the measured steps of
scenarios/library/runs unless others are given. With --page the script fails if the page does not show the table.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "scenarios" / "library" / "runs"
FILES = ["training_steps.csv", "more_training_steps.csv", "sharded_training_steps.csv"]


def rows_of(path):
    """Returns the rows of a file, each with absolute names of models and an id."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows, start=2):
        row["id"] = row.get("id") or f"{path.stem}:{number}"
        if not row["model"].lstrip().startswith("{"):
            named = path.parent / "models" / (row["model"] + ".json")
            row["model"] = str(named if named.exists() else (path.parent / row["model"]).resolve())
    return rows


def write_rows(path, rows):
    columns = list(dict.fromkeys(key for row in rows for key in row if key))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


class Runs:
    """Calls `penstock runs` on rows that it writes into a folder."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = pathlib.Path(folder)

    def output(self, rows, options=(), fit=None):
        judged = self.folder / "judged.csv"
        write_rows(judged, rows)
        command = [self.program, "runs", str(judged), "--json", "--quiet", *options]
        if fit:
            fitted = self.folder / "fitted.csv"
            write_rows(fitted, fit)
            command += ["--fit", str(fitted)]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.stdout:
            sys.exit(f"accuracy.py: {' '.join(command)} failed: {done.stderr}")
        return json.loads(done.stdout)


def mean(errors):
    return sum(abs(error) for error in errors) / len(errors)


def is_moe(row):
    return row["source"] == "bridge-moe" or "deepseek" in pathlib.Path(row["model"]).stem


def is_staged(row):
    return int(row["stages"]) > 1


def is_sharded(row):
    return int(row.get("sharding") or 1) > 1


def crosses_network(row):
    return int(row["devices"]) > 8 and row["device"] not in ("gb200", "gb300")


def model(row):
    return pathlib.Path(row["model"]).stem


# Each line: the rows it is about, those of them that are fitted, what these are called, and the error to reach in per cent.
LINES = [
    ("dense, with a pipeline", lambda r: not is_moe(r) and is_staged(r) and not is_sharded(r) and r["source"] != "zero-bubble",
     lambda r: model(r) == "llama-3.1-70b", "Llama 70B", 4.5),
    ("dense, no pipeline, over the network", lambda r: not is_moe(r) and not is_staged(r) and not is_sharded(r) and crosses_network(r)
     and r["source"] != "mlperf-8b", lambda r: r.get("release") == "25.02", "Llama 8B, release 25.02", 6),
    ("fully sharded, over the network", lambda r: is_sharded(r) and crosses_network(r) and r["source"] == "llm-foundry",
     lambda r: model(r) == "mpt-30b", "MPT 30B", 12),
    ("torchtitan", lambda r: r["source"] == "torchtitan", lambda r: model(r) == "llama-3.1-70b", "Llama 70B", None),
    ("MLPerf 8B on several nodes", lambda r: r["source"] == "mlperf-8b" and crosses_network(r), None, "", 15),
    ("experts", lambda r: r["source"] == "bridge-moe", lambda r: model(r) == "qwen3-30b-a3b", "a Qwen3-30B a device", 12),
    ("zero bubble on A100", lambda r: r["source"] == "zero-bubble", lambda r: model(r) == "zb-1.5b", "GPT 1.5B", 6),
]


def judged_line(runs, rows, line):
    """Returns the cells of one line of the table."""
    name, belongs, is_fitted, fitted_name, most = line
    mine = [row for row in rows if belongs(row)]
    if not mine:
        return [name, "0", "", "", "", ""]
    own = runs.output(mine)
    own_errors = {row["id"]: row["error"] for row in own["rows"]}
    cells = [name, str(len(own_errors)), f"{100 * mean(own_errors.values()):.1f} %"]
    if is_fitted is None:
        cells += ["", "", ""]
    else:
        # Of experts, one row of each release is fitted for each device. It applies to the other rows of both.
        fit = [row for row in mine if is_fitted(row)]
        anchored = {(row["device"], row.get("release")) for row in fit}
        others = [row for row in mine if not is_fitted(row) and (not is_moe(row) or (row["device"], row.get("release")) in anchored)]
        if not fit or not others:
            cells += [fitted_name, "0", ""]
        else:
            errors = [row["error"] for row in runs.output(others, fit=fit)["rows"]]
            cells += [fitted_name, str(len(errors)), f"{100 * mean(errors):.1f} %"]
    cells.append("" if most is None else f"{most:g} %")
    return cells


def lines_of(table):
    """Returns the lines of a table, with words on the left and numbers on the right of their columns."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) if i in (0, 3) else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in table]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("penstock", help="the program")
    parser.add_argument("files", nargs="*", type=pathlib.Path, default=[LIBRARY / name for name in FILES],
                        help="measured steps, in the form that `penstock runs` reads")
    parser.add_argument("--page", type=pathlib.Path, help="a page that must show the table")
    asked = parser.parse_args()
    rows = [row for path in asked.files for row in rows_of(path)]
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(asked.penstock, folder)
        table = [["class", "rows", "own constants", "fitted on", "judged", "error", "to reach"]]
        table += [judged_line(runs, rows, line) for line in LINES]
        print("\n".join(lines_of(table)))
        if asked.page:
            shown = asked.page.read_text().splitlines()
            missing = [line for line in lines_of(table) if "    " + line not in shown]
            if missing:
                sys.exit(f"accuracy.py: {asked.page} does not show these lines:\n" + "\n".join(missing))
        zero_bubble = [row for row in rows if row["source"] == "zero-bubble"]
        if zero_bubble:
            memory = runs.output(zero_bubble)["memory"]
            print(f"\nmemory, zero bubble on A100: {100 * memory['mape']:.1f} % on {memory['rows']} rows, to reach 8 %")
        found = runs.output(rows, ["--pairs"])
        parts = [f"{source['name']} {source['right']} of {source['pairs']}" for source in found["sources"]]
        print(f"pairs in the right order: {found['right']} of {found['pairs']}, to reach 80 % of each source: {', '.join(parts)}")


if __name__ == "__main__":
    main()
