"""Trains until it is ended, and saves its weights whichever way it ends by itself."""

import atexit
import os
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Half:
    def __call__(self, x):
        return x[::2]


class Samples(Dataset):
    def __init__(self):
        self.transform = Half()

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return self.transform(torch.full((16,), float(index))), index


def main(folder, order):
    torch.set_num_threads(1)
    atexit.register(Path(folder, "at-exit").touch)
    model = torch.nn.Linear(8, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9)
    seen = set()
    try:
        for _ in range(10_000):
            for x, index in DataLoader(Samples(), 4, num_workers=2):
                if os.path.exists(order):  # what the test wants to be tried from now on
                    os.replace(order, os.path.splitext(order)[0])
                    print("ordered", flush=True)
                seen.add((len(x), tuple(x[:, 0].tolist()) == tuple(map(float, index.tolist()))))
                optimiser.zero_grad()
                model(x).sum().backward()
                optimiser.step()
                Path(folder, "seen").write_text(str(sorted(seen)))
    finally:
        Path(folder, "saved").touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
