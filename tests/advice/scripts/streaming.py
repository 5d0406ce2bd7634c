"""Trains on a stream that is divided among the workers, and notes every batch. Of three workers, it is short.

If it is uneven, the first worker has most of the samples.
"""

import os
import sys
import time

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, uneven):
        self.uneven = uneven

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        length = 200 if step == 3 else 400
        for index in range(first, length // 4 if self.uneven and first else length, step):
            time.sleep(0.0005)
            yield index, torch.full((16,), float(index))


def main(notes, order, workers, persistent, passes, uneven=0):
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(Stream(uneven), 4, num_workers=workers, persistent_workers=bool(persistent))
    with open(notes, "w") as file:
        for _ in range(passes):
            for index, x in loader:
                file.write(f"{index.tolist()}\n")
                if os.path.exists(order):  # what the test wants to be tried from now on
                    os.replace(order, os.path.splitext(order)[0])
                optimiser.zero_grad()
                model(x).sum().backward()
                optimiser.step()
            file.write("end of a pass\n")


if __name__ == "__main__":
    main(*sys.argv[1:3], *(int(one) for one in sys.argv[3:]))
