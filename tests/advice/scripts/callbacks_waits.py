"""Two causes: the loop sends its metrics after each iteration, and its workers are too few for samples that wait."""

import sys
import time

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        time.sleep(0.03)
        return torch.full((256,), float(index)), index % 10


def main(workers=2, iterations=100, every=1):
    def send(number, loss):
        if number % every == 0:
            time.sleep(0.02)

    train = DataLoader(Photos(), batch_size=2, shuffle=True, num_workers=workers)
    loop.one_pass(train, loop.Training(), iterations, after=send)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
