"""The MLP of `resilin bench step` in PyTorch's DistributedDataParallel: two processes on this
machine, gloo over loopback, one thread each, 256 of the 512 rows of a step each.

    resilin bench step --outside "python bench/outside/ddp.py"

Says who it is, then answers each line `CASE STEPS` with the seconds on the clock and of the
processor (of both processes) that so many steps took. The second process is this program again; both
wait on a pipe between measurements, so that they take no processor.
"""

import os
import socket
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

PROCESSES = 2
BATCH = 512


class Process:
    """One of the two: a model, its share of the rows, and the way to the other."""

    def __init__(self, rank, port):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        torch.distributed.init_process_group("gloo", rank=rank, world_size=PROCESSES)
        layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
        self.model = DistributedDataParallel(nn.Sequential(*layers))
        self.rows = torch.rand(BATCH // PROCESSES, 784)
        self.targets = torch.randint(10, (BATCH // PROCESSES,))
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.001, momentum=0.9, fused=True
        )

    def run(self, count):
        """Makes steps; the seconds on the clock and of the processor that they took."""
        torch.distributed.barrier()
        begun, used = time.perf_counter(), time.process_time()
        for _ in range(count):
            self.optimizer.zero_grad(set_to_none=True)
            functional.cross_entropy(self.model(self.rows), self.targets).backward()
            self.optimizer.step()
        torch.distributed.barrier()
        return time.perf_counter() - begun, time.process_time() - used


def second(port):
    process = Process(1, port)
    for line in sys.stdin:
        print(process.run(int(line))[1], flush=True)
    torch.distributed.destroy_process_group()


def first():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, __file__, str(port)]
    other = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    process = Process(0, port)
    print(f"PyTorch {torch.__version__}, {PROCESSES} processes over gloo", flush=True)
    for line in sys.stdin:
        count = int(line.split()[1])
        print(count, file=other.stdin)
        wall, cpu = process.run(count)
        print(wall, cpu + float(other.stdout.readline()), flush=True)
    other.stdin.close()
    other.wait()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        second(int(sys.argv[1]))
    else:
        first()
