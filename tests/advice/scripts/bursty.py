"""Every eighth batch takes long, and too few batches are made ahead to bridge it."""

import sys
import time

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Chunks(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if index % 64 == 0:  # a new chunk is fetched
            time.sleep(0.2)
        return torch.full((256,), float(index)), index % 10


def main(workers=2, iterations=400, ahead=2):
    train = DataLoader(Chunks(), batch_size=8, num_workers=workers, prefetch_factor=ahead)
    loop.one_pass(train, loop.Training(step_ms=20), iterations)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
