"""Names its own work: a span, a function named from outside, loaders seeded by a worker_init_fn."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

import pipebench.watch.stages.labels as labels


def tokenise(index):
    time.sleep(0.002)
    return index


class Codec:
    def decode(self, index):
        return tokenise(index)


class Texts(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        with labels.span("lookup"):
            return torch.tensor(Codec().decode(index))


def seeded(number):
    torch.manual_seed(number)


if __name__ == "__main__":
    method = sys.argv[1]
    how = {} if method == "none" else {"num_workers": 2, "multiprocessing_context": method, "worker_init_fn": seeded}
    loader = DataLoader(Texts(), batch_size=4, **how)
    print([batch.tolist() for batch in loader], loader.worker_init_fn is how.get("worker_init_fn"))
