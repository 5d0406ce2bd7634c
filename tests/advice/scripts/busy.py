"""As many workers as cores, and all of them compute: more workers do not help."""

import sys
import time

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
    torch.set_num_threads(1)
    model = torch.nn.Linear(256, 10)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    train = DataLoader(Computed(work), batch_size=8, shuffle=True, num_workers=workers)
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
