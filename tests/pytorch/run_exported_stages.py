"""Trains a PyTorch model under many schedules in Penstock, and holds the losses against PyTorch itself.

tools/export_stages.py exports a transformer in four stages. `penstock-torch run` trains it for two minibatches. The loss
of the second minibatch depends on every gradient of the first one, so it must be that of the unsplit model.

    python run_exported_stages.py PENSTOCK_TORCH EXPORT_STAGES [--cuda] [SCHEDULE]...
    --cuda: export the stages for a GPU and run them on its partitions (cuda-local)
    exit 0: all as expected; 1: something is not; 77: this Python has no torch that can
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from train_schedules import require_torch

WIDTH, TOKENS, POSITIONS, SAMPLES, MICROBATCHES, ITERATIONS = 16, 32, 8, 2, 4, 2
LEARNING_RATE = 0.01  # of sgd in Penstock's own training

# Schedules with one chunk on each of four ranks, and with two chunks on each of two ranks.
ONE_CHUNK = ["naive", "gpipe", "1f1b", "zb-h1", "zb-h2"]
TWO_CHUNKS = ["interleaved", "looped-bfs", "interleaved-zero-bubble", "zbv-zero-bubble", "dualpipe-v", "v-half", "1f1b-v"]


def exporter(path):
    spec = importlib.util.spec_from_file_location("export_stages", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["export_stages"] = module
    spec.loader.exec_module(module)
    return module


def model(torch, **changes):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
            self.heads = torch.nn.Linear(WIDTH, 3 * WIDTH)
            self.out = torch.nn.Linear(WIDTH, WIDTH)
            self.mlp = torch.nn.Sequential(
                torch.nn.Linear(WIDTH, 4 * WIDTH),
                torch.nn.GELU(),
                torch.nn.Dropout(changes.get("dropout", 0.0)),
                torch.nn.Linear(4 * WIDTH, WIDTH),
            )
            self.register_buffer("mask", torch.tril(torch.ones(POSITIONS, POSITIONS, dtype=torch.bool)))

        def forward(self, values):
            queries, keys, contents = self.heads(self.norms[0](values)).chunk(3, -1)
            scores = (queries @ keys.transpose(-1, -2) / WIDTH**0.5).masked_fill(~self.mask, float("-inf"))
            values = values + self.out(scores.softmax(-1) @ contents)
            return values + self.mlp(self.norms[1](values))

    class Transformer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(TOKENS, WIDTH)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(4))
            self.head = torch.nn.Linear(WIDTH, TOKENS, bias=False)
            if changes.get("tied"):
                self.head.weight = self.embedding.weight

        def forward(self, tokens):
            values = self.embedding(tokens)
            for block in self.blocks:
                values = block(values)
            return self.head(values)

    torch.manual_seed(0)
    return Transformer().double()


def job(torch, export, device="cpu", **changes):
    return export.Job(
        module=model(torch, **changes).to(device),
        example=torch.zeros(SAMPLES, POSITIONS, dtype=torch.long, device=device),
        split_before=["blocks.1", "blocks.2", "blocks.3"],
        loss="cross_entropy",
        input_below=TOKENS,
        target_below=TOKENS,
    )


def mixed(bits):
    """The hash that Penstock's random data use (splitmix64)."""
    mask = (1 << 64) - 1
    bits = (bits + 0x9E3779B97F4A7C15) & mask
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & mask
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & mask
    return bits ^ (bits >> 31)


def data(torch, microbatch, use):
    generator = torch.Generator().manual_seed(mixed(mixed(microbatch) ^ use))
    return torch.randint(0, TOKENS, (SAMPLES, POSITIONS), generator=generator)


def expected_loss(torch):
    """The mean loss of all microbatches of all minibatches, of the unsplit model."""
    whole = model(torch)
    losses = []
    for iteration in range(ITERATIONS):
        whole.zero_grad()
        for microbatch in range(iteration * MICROBATCHES, (iteration + 1) * MICROBATCHES):
            predicted = whole(data(torch, microbatch, 1)).flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(predicted, data(torch, microbatch, 2).flatten())
            (loss / MICROBATCHES).backward()
            losses.append(loss.item())
        with torch.no_grad():
            for parameter in whole.parameters():
                parameter -= LEARNING_RATE * parameter.grad
    return sum(losses) / len(losses)


def run(penstock, folder, schedule, ranks, backend):
    scenario = f"model: {{network: {{graphs: {folder}}}}}\ntraining: {{micro_batch_size: {SAMPLES}}}\n"
    command = [penstock, "run", "-", "--schedule", schedule, "--pp-size", str(ranks), "--backend", backend]
    command += ["--num-microbatches", str(MICROBATCHES), "--iterations", str(ITERATIONS)]
    command += ["--virtual-stages", "2"] if schedule in ("interleaved", "looped-bfs", "interleaved-zero-bubble") else []
    command += ["--warmup", "0", "--repeats", "1", "--json"]
    done = subprocess.run(command, input=scenario, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip()
    notes = " ".join(json.loads(done.stdout)["notes"])
    found = re.search(r"mean loss of \d+ microbatches: ([\d.e+-]+)", notes)
    return (float(found[1]), "") if found else (None, f"no loss in {notes!r}")


def check_refusals(torch, export, folder):
    faults = []
    for changes, expected in [
        ({"dropout": 0.5}, "draws random numbers"),
        ({"tied": True}, "is on stages 0 and 3: expected weights that one stage holds"),
    ]:
        try:
            export.export_stages(job(torch, export, **changes), os.path.join(folder, "refused"))
            faults.append(f"{changes} was not refused")
        except export.ExportError as error:
            if expected not in str(error):
                faults.append(f"{changes}: the refusal says {error}")
    return faults


def main():
    require_torch()
    import torch

    penstock, export = sys.argv[1], exporter(sys.argv[2])
    cuda = "--cuda" in sys.argv[3:]
    only = [name for name in sys.argv[3:] if name != "--cuda"]
    device, backend = ("cuda", "cuda-local") if cuda else ("cpu", "cpu-thread")
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        manifest = export.export_stages(job(torch, export, device), folder)
        if [stage["weights"] for stage in manifest["stages"]] != [13, 12, 12, 13]:
            faults.append(f"expected stages of 13, 12, 12 and 13 weights, got {manifest['stages']}")
        expected = expected_loss(torch)
        cases = [(name, 4, backend) for name in ONE_CHUNK] + [(name, 2, backend) for name in TWO_CHUNKS]
        cases += [] if cuda else [("1f1b", 4, "cpu-process")]
        count = 0
        for schedule, ranks, backend in cases:
            if only and schedule not in only:
                continue
            count += 1
            loss, fault = run(penstock, folder, schedule, ranks, backend)
            if loss is None:
                faults.append(f"{schedule} on {backend}: {fault}")
            elif abs(loss - expected) > 1e-8 * expected:
                faults.append(f"{schedule} on {backend}: loss {loss!r}, expected {expected!r}")
        faults += check_refusals(torch, export, folder)
    for fault in faults:
        print(fault)
    print(f"{count} runs of exported stages, {len(faults)} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
