"""Trains on ranks whose samples sleep, and notes the samples of each batch: `in_ranks.py FOLDER SAMPLES PASSES`.

With `--rank-0-validates`, rank 0 alone iterates another loader after each pass.
"""

import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

READ_S = 0.005


class Points(Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(READ_S)
        return torch.full((4,), float(index))


def main(folder: Path, samples: int, passes: int, validates: bool) -> None:
    torch.manual_seed(5)
    rank = int(os.environ["RANK"])
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9)
    sampler = DistributedSampler(Points(samples), shuffle=True, seed=3)
    loader = DataLoader(Points(samples), batch_size=4, sampler=sampler, num_workers=1)
    with (folder / str(rank)).open("w") as log:
        for number in range(passes):
            sampler.set_epoch(number)
            for batch in loader:
                log.write(f"{number} {batch[:, 0].int().tolist()} {torch.rand(1).item()}\n")
                model(batch).square().mean().backward()
                optimiser.step()
                optimiser.zero_grad()
            if validates and rank == 0:
                for _ in DataLoader(Points(8), batch_size=4):
                    pass
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    sys.stdout.write(f"rank {rank} has trained\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), "--rank-0-validates" in sys.argv)
