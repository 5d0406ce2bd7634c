"""The workers keep every sample that they have made: their memory grows until there is none left."""

import sys

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Cached(Dataset):
    def __init__(self, keep_kb):
        self.keep_kb, self.kept = keep_kb, {}

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        self.kept[index] = b"x" * (1000 * self.keep_kb)
        return torch.full((256,), float(index)), index % 10


def main(keep_kb=60, iterations=100, workers=2):
    train = DataLoader(Cached(keep_kb), batch_size=8, num_workers=workers)
    loop.one_pass(train, loop.Training(step_ms=60), iterations)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
