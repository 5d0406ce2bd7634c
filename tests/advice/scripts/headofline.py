"""Now and then one sample takes very long, and finished batches wait behind it."""

import sys
import time

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if index * 2654435761 % 2**32 < 2**32 / 32:  # one of 32 files
            time.sleep(0.4)
        return torch.full((256,), float(index)), index % 10


def main(workers=4, iterations=200, in_order=1):
    train = DataLoader(Files(), batch_size=2, num_workers=workers, in_order=bool(in_order))
    loop.one_pass(train, loop.Training(step_ms=20), iterations)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
