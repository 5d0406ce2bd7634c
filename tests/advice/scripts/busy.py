"""As many workers as cores, and all of them compute: more workers do not help."""

import sys

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Computed(Dataset):
    def __init__(self, work):
        self.work = work

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        found = 0
        for number in range(self.work):
            found += number * index % 7
        return torch.full((256,), float(found % 11)), index % 10


def main(workers=2, iterations=400, warm=40, work=40_000):
    train = DataLoader(Computed(work), batch_size=8, shuffle=True, num_workers=workers)
    loop.one_pass(train, loop.Training(), iterations, warm=warm)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
