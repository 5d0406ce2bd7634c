"""Trains with shuffled samples and dropout, and notes each batch and the final weights."""

import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.0005)
        return index, torch.full((16,), float(index))


def main(notes, order, workers, persistent, passes):
    torch.manual_seed(3)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(Samples(), 4, shuffle=True, num_workers=workers, persistent_workers=bool(persistent))
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
        file.write(f"{[one.tolist() for one in model.parameters()]}\n")


if __name__ == "__main__":
    main(*sys.argv[1:3], *(int(one) for one in sys.argv[3:]))
