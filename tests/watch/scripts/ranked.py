"""Trains on as many ranks as torchrun starts, or alone. Prints one line each, and can plant what tests look for."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPIN = "import time; end = time.monotonic() + 60\nwhile time.monotonic() < end: pass"


class Numbers(Dataset):
    def __init__(self, read_s: float, compute_s: float) -> None:
        self.read_s, self.compute_s = read_s, compute_s

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.read_s)
        end = time.thread_time() + self.compute_s
        while time.thread_time() < end:
            pass
        return torch.full((4,), float(index))


def train(model: nn.Module, loader: DataLoader, dies_at: int) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.001)
    for number, batch in enumerate(loader):
        optimiser.zero_grad()
        model(batch).square().mean().backward()
        optimiser.step()
        if number == dies_at:
            os.kill(os.getpid(), 9)


@contextlib.contextmanager
def crowded(by: int) -> Iterator[None]:
    """This process and its workers have one core, which they share with `by` others; the first core is left alone."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(by)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()


def main(slow_rank: int, slow_s: float, dies: int = -1, workers: int = 1, kind: str = "storage") -> None:
    """What makes the rank slow: "storage" (it sleeps), "shard" (it computes) or "cores" (all compute; it has a core
    that is used by others)."""
    rank = int(os.environ.get("RANK", "0"))
    slow = rank == slow_rank
    model: nn.Module = nn.Linear(4, 1)
    if "WORLD_SIZE" in os.environ:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    read_s = slow_s if slow and kind == "storage" else 0.0
    compute_s = slow_s if kind == "cores" or (slow and kind == "shard") else 0.0
    loader = DataLoader(Numbers(read_s, compute_s), batch_size=2, num_workers=workers)
    with crowded(4) if slow and kind == "cores" else contextlib.nullcontext():
        train(model, loader, 10 if rank == dies else -1)
    sys.stdout.write(f"rank {rank} has trained\n")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), *map(int, sys.argv[3:5]), *sys.argv[5:])
