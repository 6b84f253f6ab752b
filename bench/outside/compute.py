"""The models of `resilin bench compute` in PyTorch on one thread of the CPU.

    resilin bench compute --outside "python bench/outside/compute.py"

Says who it is, then answers each line `CASE STEPS` with the seconds on the clock and of the
processor that so many gradient steps took: rows in memory, forward, backward, fused SGD with
momentum. Nothing of resilin's code is used.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional

THREADS = 1
BYTES = 256


class Transformer(nn.Module):
    """A byte-level language model of one block, in the manner of GPT-2, without biases."""

    def __init__(self, width=128, heads=4, places=128):
        super().__init__()
        self.heads = heads
        self.token = nn.Embedding(BYTES, width)
        self.place = nn.Parameter(torch.randn(places, width) * 0.02)
        self.norm0, self.norm1, self.norm = (nn.LayerNorm(width, bias=False) for _ in range(3))
        self.attention = nn.Linear(width, 3 * width, bias=False)
        self.projection = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, rows):
        x = self.token(rows) + self.place
        x = x + self.attend(self.norm0(x))
        x = x + self.down(functional.gelu(self.up(self.norm1(x)), approximate="tanh"))
        return functional.linear(self.norm(x), self.token.weight).flatten(0, 1)

    def attend(self, x):
        count, places, width = x.shape
        parts = self.attention(x).view(count, places, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(attended.transpose(1, 2).reshape(count, places, width))


def mlp():
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
    )


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
    )  # fmt: skip


def case(name):
    """A model, a batch, and what its outputs are to be."""
    kind, batch = name.split("-")
    batch = int(batch)
    if kind == "mlp":
        return mlp(), torch.rand(batch, 784), torch.randint(10, (batch,))
    if kind == "cnn":
        return cnn(), torch.rand(batch, 1, 28, 28), torch.randint(10, (batch,))
    return Transformer(), torch.randint(BYTES, (batch, 128)), torch.randint(BYTES, (batch * 128,))


class Steps:
    """A model in training."""

    def __init__(self, name):
        self.model, self.rows, self.targets = case(name)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.001, momentum=0.9, fused=True
        )

    def run(self, count):
        for _ in range(count):
            self.optimizer.zero_grad(set_to_none=True)
            functional.cross_entropy(self.model(self.rows), self.targets).backward()
            self.optimizer.step()


def main():
    torch.manual_seed(1)
    torch.set_num_threads(THREADS)
    known = {}
    print(f"PyTorch {torch.__version__}, {THREADS} thread", flush=True)
    for line in sys.stdin:
        name, count = line.split()
        if name not in known:
            known[name] = Steps(name)
        begun, used = time.perf_counter(), time.process_time()
        known[name].run(int(count))
        wall, cpu = time.perf_counter() - begun, time.process_time() - used
        print(wall, cpu, flush=True)


if __name__ == "__main__":
    main()
