"""Times the blocks of gpu-transformer.yaml in eager PyTorch on one whole GPU, beside `penstock calibrate` on its partitions.

Prints one line for each measurement: the median of the counted runs, in milliseconds, by CUDA events.
"""
import statistics
import sys

try:
    import torch
except ImportError:
    sys.exit("gpu_torch_baseline.py: this Python has no torch")

WIDTH, HEADS, BLOCKS, TOKENS, POSITIONS, SAMPLES = 512, 8, 8, 1024, 256, 8
MICROBATCHES, WARM_UPS, COUNTED = 8, 5, 20


class Block(torch.nn.Module):
    """A pre-norm block with causal attention and a GELU MLP of four times the width."""

    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm_1(x)).chunk(3, dim=-1)
        heads = [t.view(SAMPLES, POSITIONS, HEADS, -1).transpose(1, 2) for t in (q, k, v)]
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm_2(x))))


def milliseconds(work):
    times = []
    for run in range(WARM_UPS + COUNTED):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if run >= WARM_UPS:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def main():
    if not torch.cuda.is_available():
        sys.exit("gpu_torch_baseline.py: torch sees no GPU")
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Embedding(TOKENS, WIDTH), *[Block() for _ in range(BLOCKS)], torch.nn.LayerNorm(WIDTH),
        torch.nn.Linear(WIDTH, TOKENS)).cuda()
    data = torch.randint(0, TOKENS, (SAMPLES, POSITIONS), device="cuda")
    target = torch.randint(0, TOKENS, (SAMPLES * POSITIONS,), device="cuda")
    two_blocks, x = model[1:3], torch.randn(SAMPLES, POSITIONS, WIDTH, device="cuda", requires_grad=True)

    def forward_and_backward():
        two_blocks(x).sum().backward()

    def unsplit_model():
        for _ in range(MICROBATCHES):
            loss = torch.nn.functional.cross_entropy(model(data).flatten(0, 1), target)
            loss.backward()

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, whole GPU, single precision")
    print(f"two blocks, forward:              {milliseconds(lambda: two_blocks(x)):8.3f} ms")
    print(f"two blocks, forward and backward: {milliseconds(forward_and_backward):8.3f} ms")
    print(f"unsplit model, {MICROBATCHES} microbatches:     {milliseconds(unsplit_model):8.3f} ms")


main()
