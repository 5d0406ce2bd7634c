"""Trains on two ranks of gloo; they meet where no collective returns, or one does something alone between its loops."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PASSES = 3
VALIDATES_S = 0.4


class Numbers(Dataset):
    def __init__(self, read_s: float) -> None:
        self.read_s = read_s

    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.read_s)
        return torch.full((4,), float(index))


def handles(rank: int) -> None:
    """Each step starts its collectives and waits for them at its end. Rank 1 loads slowly."""
    model = nn.Linear(4, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in DataLoader(Numbers(0.05 if rank == 1 else 0.001), batch_size=2, num_workers=1):
        optimiser.zero_grad()
        model(batch).square().mean().backward()
        started = [torch.distributed.all_reduce(one.grad, async_op=True) for one in model.parameters()]
        optimiser.step()
        for one in started:
            one.wait()


def validation(rank: int) -> None:
    """After each pass, rank 0 validates, and the other waits for it."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9)
    loader, other = DataLoader(Numbers(0.0), batch_size=4), DataLoader(Numbers(0.0), batch_size=40)
    for _ in range(PASSES):
        for batch in loader:
            optimiser.zero_grad()
            model(batch).square().mean().backward()
            optimiser.step()
        if rank == 0:
            for batch in other:
                time.sleep(VALIDATES_S / 2)
                model.module(batch)
        torch.distributed.barrier()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    {"handles": handles, "validation": validation}[sys.argv[1]](torch.distributed.get_rank())
    torch.distributed.destroy_process_group()
