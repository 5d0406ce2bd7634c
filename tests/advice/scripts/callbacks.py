"""After each iteration the loop sends its metrics away, and waits for the answer."""

import sys
import time

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Vectors(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.full((256,), float(index)), index % 10


def main(every=1, iterations=400, workers=2):
    def send(number, loss):
        if number % every == 0:
            time.sleep(0.03)

    train = DataLoader(Vectors(), batch_size=8, num_workers=workers)
    loop.one_pass(train, loop.Training(step_ms=20), iterations, after=send)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
