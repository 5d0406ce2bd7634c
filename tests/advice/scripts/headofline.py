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
        if index * 2654435761 % 2**32 < 2**32 / 320:  # one of 320 files, in no regular distance
            time.sleep(0.5)
        return torch.full((256,), float(index)), index % 10


def main(workers=4, iterations=600, in_order=1):
    train = DataLoader(Files(), batch_size=8, num_workers=workers, in_order=bool(in_order))
    loop.one_pass(train, loop.Training(step_ms=10), iterations)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
