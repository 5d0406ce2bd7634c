"""Six workers, each with a thread that polls, take the cores from the model."""

import sys
import threading
import time

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Streamed(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.full((256,), float(index)), index % 10


def connect(worker):
    threading.Thread(target=poll, daemon=True).start()


def poll():
    while True:  # a client that never sleeps for long, and computes half of the time
        until = time.perf_counter() + 0.002
        while time.perf_counter() < until:
            pass
        time.sleep(0.002)


class Computing(loop.Training):
    """A model that needs a core for a few milliseconds."""

    def step(self, x, y):
        with torch.no_grad():
            for _ in range(8):
                x = torch.tanh(x @ WEIGHTS)
        return super().step(x, y)


WEIGHTS = torch.randn(256, 256)


def main(workers=6, iterations=600):
    train = DataLoader(Streamed(), batch_size=128, num_workers=workers, worker_init_fn=connect)
    loop.one_pass(train, Computing(), iterations)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
