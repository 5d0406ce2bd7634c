"""Trains on ranks whose costs are planted: a step that sleeps, and samples that sleep on one rank."""

import argparse
import os
import signal
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, count: int, read_s: float) -> None:
        self.count, self.read_s = count, read_s

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.read_s)
        return torch.full((4,), float(index))


def train(args: argparse.Namespace, model: nn.Module, loader: DataLoader, ends_at: int) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9)
    iteration = 0
    for _ in range(args.epochs):
        for batch in loader:
            model(batch).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
            time.sleep(args.step_s)
            iteration += 1
            if iteration == ends_at and args.killed:
                os.kill(os.getpid(), signal.SIGKILL)
            if iteration == ends_at:
                return


parser = argparse.ArgumentParser()
parser.add_argument("--slow-rank", type=int, default=-1)
parser.add_argument("--read-s", type=float, default=0.0)
parser.add_argument("--step-s", type=float, default=0.0)
parser.add_argument("--samples", type=int, default=64)
parser.add_argument("--epochs", type=int, default=50)
parser.add_argument("--workers", type=int, default=1)
parser.add_argument("--ending-rank", type=int, default=-1, help="ends its training before the others")
parser.add_argument("--ends-at", type=int, default=0)
parser.add_argument("--killed", action="store_true", help="the ending rank is killed")
parser.add_argument("--alone", action="store_true", help="no process group: nothing ties the ranks")

if __name__ == "__main__":
    args = parser.parse_args()
    rank = int(os.environ["RANK"])
    model: nn.Module = nn.Linear(4, 1)
    if args.alone:  # they begin together, and are then on their own
        port = int(os.environ["MASTER_PORT"])
        store = torch.distributed.TCPStore("127.0.0.1", port, int(os.environ["WORLD_SIZE"]), is_master=rank == 0)
    else:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    read_s = args.read_s if rank == args.slow_rank else 0.0
    loader = DataLoader(Points(args.samples, read_s), batch_size=2, num_workers=args.workers)
    train(args, model, loader, args.ends_at if rank == args.ending_rank else 0)
    sys.stdout.write(f"rank {rank} has trained\n")
