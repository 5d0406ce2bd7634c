"""Holds functions that are watched, on both sides of the moment at which they begin to be, and starts workers."""

import sys
from functools import partial
from multiprocessing.reduction import ForkingPickler

import torch
from torch.utils.data import DataLoader, Dataset


def tokenise(index):
    return torch.tensor(2 * index)


class Held(Dataset):
    def __init__(self, functions):
        self.functions = functions
        self.first = functions[0]
        self.parts = {"last": partial(functions[-1])}

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.first(index) + self.parts["last"](index)


if __name__ == "__main__":
    method, early = sys.argv[1], tokenise
    import PIL.ImageFile  # an import after which the function is timed

    held = Held([early, tokenise])
    how = {"num_workers": 1, "multiprocessing_context": method}
    for _ in range(2):
        for batch in DataLoader(held, batch_size=2, **how):
            print(batch.tolist())
    print("reducer_override" in vars(ForkingPickler), vars(held).keys())
