"""Two workers that mostly wait for a slow network: more workers than cores help."""

import sys
import time

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.025)
        return torch.full((256,), float(index)), index % 10


def main(workers=2, iterations=100):
    train = DataLoader(Photos(), batch_size=2, shuffle=True, num_workers=workers)
    loop.one_pass(train, loop.Training(), iterations)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
