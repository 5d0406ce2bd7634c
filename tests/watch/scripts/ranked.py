"""Trains on as many ranks as torchrun starts, or alone. Prints one line each, and can plant what tests look for."""

import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, read_s: float) -> None:
        self.read_s = read_s

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.read_s)
        return torch.full((4,), float(index))


def train(model: nn.Module, loader: DataLoader, dies_at: int) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.001)
    for number, batch in enumerate(loader):
        optimiser.zero_grad()
        model(batch).square().mean().backward()
        optimiser.step()
        if number == dies_at:
            os.kill(os.getpid(), 9)


def main(slow_rank: int, slow_s: float, dies: int = -1, workers: int = 1) -> None:
    rank = int(os.environ.get("RANK", "0"))
    model: nn.Module = nn.Linear(4, 1)
    if "WORLD_SIZE" in os.environ:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    loader = DataLoader(Numbers(slow_s if rank == slow_rank else 0.0), batch_size=2, num_workers=workers)
    train(model, loader, 10 if rank == dies else -1)
    sys.stdout.write(f"rank {rank} has trained\n")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), *map(int, sys.argv[3:]))
