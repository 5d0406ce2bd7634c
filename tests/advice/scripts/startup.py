"""Workers take long to start and passes are short: workers that live on help."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Few(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        time.sleep(0.008)
        return torch.full((256,), float(index)), index % 10


def connect(worker):
    time.sleep(0.8)  # an import, a connection, an index to load


def main(workers=2, epochs=12, persistent=0):
    torch.set_num_threads(1)
    model = torch.nn.Linear(256, 10)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    train = DataLoader(
        Few(), batch_size=2, num_workers=workers, worker_init_fn=connect, persistent_workers=bool(persistent)
    )
    begin = None
    for epoch in range(epochs):
        if epoch == 1:
            begin = time.perf_counter()
        for x, y in train:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    print("ended", (time.perf_counter() - begin) / (epochs - 1) / 24, flush=True)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
