"""Two causes: workers take long to start for short passes, and they are too few for samples that wait."""

import sys
import time

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Few(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        time.sleep(0.025)
        return torch.full((256,), float(index)), index % 10


def connect(worker):
    time.sleep(0.5)


def main(workers=2, count=6, persistent=0):
    train = DataLoader(
        Few(), batch_size=2, num_workers=workers, worker_init_fn=connect, persistent_workers=bool(persistent)
    )
    loop.passes(train, loop.Training(), count)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
