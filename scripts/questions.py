#!/usr/bin/env python3
"""Asks `penstock tune` what practitioners ask, and writes each answer beside the configuration that was published.

Usage: scripts/questions.py PENSTOCK [--page PAGE]

The published steps are rows of scenarios/library/runs. Two configurations have no row there, so they stand below with their
source. Both configurations of a question are priced with the constants of the device. --page writes the page instead of printing it.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "scenarios" / "library" / "runs"
FILES = ["training_steps.csv", "more_training_steps.csv"]

# The recipe of Megatron Bridge for 256 GB200 in MXFP8, whose summary prints 13.3 s.
DEEPSEEK = {"id": "bridge-moe:deepseek-v3:gb200x256", "source": "bridge-moe", "model": "../models/deepseek-v3.json", "device": "gb200",
            "precision": "fp8", "devices": "256", "tensor": "1", "stages": "4", "virtual_stages": "4", "context": "1", "expert": "64",
            "data": "64", "micro_batch_size": "1", "microbatches": "64", "sequence": "4096", "layers": "61",
            "layer_split": "Et*4|" + "t*4|" * 14 + "tL", "schedule": "interleaved", "recompute": "mla_up_proj", "tensor_overlap": "no",
            "data_overlap": "yes", "gradient_bytes": "2", "step_seconds": "13.3", "expert_dispatch": "hybridep"}
# The script of Megatron Core 0.9 for Mixtral 8x7B. It prints 468 TFLOP/s a GPU and no step, so the step follows from the operations.
MIXTRAL = {"id": "megatron-core:0.9:mixtral-8x7b", "source": "megatron-core", "model": "../models/mixtral-8x7b.json",
           "device": "h100-sxm", "precision": "bf16", "devices": "64", "tensor": "1", "stages": "4", "virtual_stages": "8",
           "context": "1", "expert": "8", "data": "16", "micro_batch_size": "1", "microbatches": "16", "sequence": "4096",
           "layers": "32", "schedule": "interleaved", "recompute": "none", "tensor_overlap": "no", "data_overlap": "yes",
           "gradient_bytes": "2", "step_seconds": "2.77", "expert_dispatch": "alltoall"}

# Each question with the id of the published row, or the row itself.
QUESTIONS = [
    ("Llama 3.1 8B on 8 H100", "dgxc:25.04:llama3.1-8b:h100x8:bf16:gbs128"),
    ("Llama 3.1 8B on 32 H100", "dgxc:25.04:llama3.1-8b:h100x32:bf16:gbs512"),
    ("Llama 3.1 70B on 64 H100", "dgxc:25.04:llama3.1-70b:h100x64:bf16:gbs128"),
    ("Llama 3.1 405B on 1 024 GB200", "mlperf:v5.0:carina_ngpu1024_ngc25.04_nemo"),
    ("Mixtral 8x7B on 64 H100", MIXTRAL),
    ("Qwen3-30B on 16 H100", "bridge-moe:26.06:qwen3-30b-a3b:h100-sxmx16:FP8:tp1pp1vp1ep16:mbs1gbs1024"),
    ("Qwen3-235B on 256 GB200", "bridge-moe:26.08:qwen3-235b-a22b:gb200x256:MXFP8:tp1pp8vp3ep32:mbs1gbs8192"),
    ("DeepSeek-V3 on 256 GB200", DEEPSEEK),
]
# The time that the host takes for a layer of experts in rows without CUDA graphs, as in scenarios/library/runs/README.md.
HOST_LAYER = "8.8ms"
GPUS_PER_NODE = {"gb200": 4, "gb300": 4}


def library_rows():
    rows = {}
    for name in FILES:
        with open(RUNS / name, newline="") as file:
            rows.update({row["id"]: row for row in csv.DictReader(file)})
    return rows


def answer(command):
    """Returns the JSON that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"questions.py: {' '.join(command)} failed: {done.stderr}")
    return json.loads(done.stdout)


def predicted(program, row):
    """Returns the predicted seconds of a published row."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "row.csv"
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerow({**row, "model": str((RUNS / row["model"]).resolve())})
        found = answer([program, "runs", str(path), "--json", "--quiet"])
    if not found["rows"]:
        sys.exit(f"questions.py: {row['id']}: {found['left_out']}")
    return found["rows"][0]["predicted_seconds"]


def tuned(program, row):
    """Returns the answer of `tune` to the task of a row, with the software's choices that the row states."""
    samples = int(row["micro_batch_size"]) * int(row["microbatches"]) * int(row["data"])
    nodes = int(row["devices"]) // GPUS_PER_NODE.get(row["device"], 8)
    command = [program, "tune", "--model", pathlib.Path(row["model"]).stem, "--device", row["device"], "--nodes", str(nodes),
               "--sequence", row["sequence"], "--global-batch-size", str(samples), "--precision", row["precision"],
               "--schedule", "1f1b,interleaved", "--sharding", "1", "--top", "1", "--json", "--quiet",
               "--set", f"training.gradient_bytes={row['gradient_bytes']}",
               "--set", f"parallel.data_overlap={'true' if row['data_overlap'] == 'yes' else 'false'}",
               "--set", f"parallel.tensor_overlap={'true' if row['tensor_overlap'] == 'yes' else 'false'}"]
    if row.get("expert_dispatch"):
        command += ["--set", f"parallel.expert_dispatch={row['expert_dispatch']}"]
    if row.get("cuda_graphs") == "no":
        command += ["--set", f"training.host_layer={HOST_LAYER}"]
    return answer(command)


def configuration(row):
    """Returns a short text of a row of `runs` or of a candidate of `tune`: tp 4, pp 4 x 5, cp 2, dp 2, mbs 1."""
    parts = []
    for name, key in [("tp", "tensor"), ("cp", "context"), ("ep", "expert")]:
        if int(row.get(key) or 1) > 1:
            parts.append(f"{name} {row[key]}")
    if int(row["stages"]) > 1:
        chunks = int(row.get("virtual_stages") or 1)
        parts.append(f"pp {row['stages']}" + (f" x {chunks}" if chunks > 1 else ""))
    parts += [f"dp {row['data']}", f"mbs {row['micro_batch_size']}"]
    if int(row.get("sharding") or 1) > 1:
        parts.append(f"ZeRO {row['sharding']}")
    if row["recompute"] != "none":
        parts.append(f"recompute {row['recompute']}")
    return ", ".join(parts)


def verdict(shorter, deviation):
    """Says whether a gain is larger than twice the usual error of a ratio."""
    if shorter <= 0:
        return "none: the published one is as good"
    return "within the error" if shorter <= 2 * deviation else "larger than the error"


def line(program, question, row):
    published_s = predicted(program, row)
    found = tuned(program, row)
    best = found["candidates"][0]
    best_s = best["step_ns"] * 1e-9
    shorter = 1 - best_s / published_s
    deviation = found["ratio_error"]["deviation"]
    measured_s = float(row["step_seconds"])
    return [question, configuration(row), f"{measured_s:.2f}", f"{published_s:.2f} ({100 * (published_s / measured_s - 1):+.1f} %)",
            configuration(best), f"{best_s:.2f}", f"{100 * shorter:.1f} %", f"{100 * deviation:.1f} %", verdict(shorter, deviation),
            f"{found['seconds']:.1f}"]


PAGE = """# What `tune` answers to eight questions

Each line asks `penstock tune` for the best configuration of a published task, and shows it beside the configuration that was
published. Seconds are those of one step. The search has what Megatron-LM runs: 1F1B, interleaved 1F1B and the distributed
optimizer (ZeRO 1). It has the dispatch, overlaps and bytes of gradients of the published run. Both configurations are priced
with the device's own constants. The search ran on two cores that had other work.

<!-- not run: a search takes seconds, and the last column depends on the machine -->

    $ scripts/questions.py build/release/bin/penstock --page docs/design/questions.md

{tables}
How to read it:

* Ratios of two configurations of one job err, too. `error of a ratio` is the usual error on pairs of measured configurations,
  dense models and experts apart. A gain below twice this error shows nothing.
* A gain that is larger than the error is a claim and not a measurement. Measure it before you rely on it.
* The step of Mixtral follows from 468 TFLOP/s a GPU, which Megatron Core 0.9 prints without a step. The number of GPUs and the
  batch are assumed.
* DeepSeek-V3 has the recipe of Megatron Bridge for these GPUs. Its summary prints 13.3 s, and not what is recomputed.
* Software of experts differs by release. Its factor (`training.expert_factor`) is 1 here. The pairs of experts come from several
  releases, so their error is that of the software, too.
"""


def markdown(table):
    head, *rows = table
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("penstock", help="the program")
    parser.add_argument("--page", type=pathlib.Path, help="the page that is written")
    asked = parser.parse_args()
    rows = library_rows()
    published = [["question", "published", "measured s", "predicted s"]]
    best = [["question", "best found", "predicted s", "shorter", "error of a ratio", "gain", "search s"]]
    for question, row in QUESTIONS:
        cells = line(asked.penstock, question, rows[row] if isinstance(row, str) else row)
        published.append(cells[:4])
        best.append([cells[0], *cells[4:]])
        print(" | ".join(cells), file=sys.stderr)
    page = PAGE.format(tables=f"## Published\n\n{markdown(published)}\n## Found\n\n{markdown(best)}")
    if asked.page:
        asked.page.write_text(page)
    else:
        print(page, end="")


if __name__ == "__main__":
    main()
