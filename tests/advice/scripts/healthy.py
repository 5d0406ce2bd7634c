"""Batches are ready long before the loop asks for them: nothing to gain."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Vectors(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return torch.full((512,), float(index)), index % 10


def main(workers=1, iterations=400, warm=40):
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 6144), torch.nn.ReLU(), torch.nn.Linear(6144, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    train = DataLoader(Vectors(), batch_size=16, shuffle=True, num_workers=workers)
    for number, (x, y) in enumerate(train):
        if number == warm:
            begin = time.perf_counter()
        if number == warm + iterations:
            break
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print("ended", (time.perf_counter() - begin) / iterations, flush=True)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
