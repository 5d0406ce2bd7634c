"""The sampler looks every index up, one after the other, in the script's own process."""

import sys
import time

import loop
import torch
from torch.utils.data import DataLoader, Dataset, Sampler


class Vectors(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.full((256,), float(index)), index % 10


class Balanced(Sampler):
    def __init__(self, lookup_ms):
        self.lookup_ms = lookup_ms

    def __iter__(self):
        for index in range(1_000_000):
            time.sleep(self.lookup_ms / 1000)
            yield index


def main(lookup_ms=10, iterations=100, workers=2):
    train = DataLoader(Vectors(), batch_size=2, sampler=Balanced(lookup_ms), num_workers=workers)
    loop.one_pass(train, loop.Training(step_ms=20), iterations)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
