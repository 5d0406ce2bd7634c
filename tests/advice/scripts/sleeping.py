"""Two workers that mostly wait for a slow network: more workers than cores help."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.025)
        return torch.full((256,), float(index)), index % 10


def main(workers=2, iterations=100, warm=16):
    torch.set_num_threads(1)
    model = torch.nn.Linear(256, 10)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    train = DataLoader(Photos(), batch_size=2, shuffle=True, num_workers=workers)
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
