"""NumPy's BLAS uses every core in every worker: the workers compete with each other."""

import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Projected(Dataset):
    def __init__(self):
        self.matrix = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        found = np.full((128, 128), index % 7, dtype=np.float32)
        for _ in range(5):
            found = np.tanh(found @ self.matrix)
        return found[:16].copy(), index % 10


def main(workers=2, iterations=400, warm=40):
    torch.set_num_threads(1)
    model = torch.nn.Linear(16 * 128, 10)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    train = DataLoader(Projected(), batch_size=2, shuffle=True, num_workers=workers)
    for number, (x, y) in enumerate(train):
        if number == warm:
            begin = time.perf_counter()
        if number == warm + iterations:
            break
        loss = torch.nn.functional.cross_entropy(model(x.flatten(1)), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print("ended", (time.perf_counter() - begin) / iterations, flush=True)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
