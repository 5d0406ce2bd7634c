"""Workers that wait for a network: so many that few of them can run at once, also on several ranks.

    python many_workers.py DATA WORKERS

Each sample takes 20 ms without a core. With torchrun, the ranks train one model with gloo.
"""

import os
import sys
import time

import torch
from loops import small, train
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Remote(Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.full((3, 32, 32), float(index)), index % 4


if __name__ == "__main__":
    torch.manual_seed(7)
    model, samples = small(3), Remote(2400 * int(os.environ.get("TIMES_AS_MANY", "1")))
    ranked = "RANK" in os.environ
    if ranked:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    sampler = DistributedSampler(samples) if ranked else None
    train(DataLoader(samples, batch_size=8, sampler=sampler, num_workers=int(sys.argv[2])), model, 1)
    if ranked:
        torch.distributed.destroy_process_group()
