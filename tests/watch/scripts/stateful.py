"""Iterates torchdata's StatefulDataLoader, stops, resumes from its state, and prints everything that came."""

import sys

import torch
from torch.utils.data import Dataset, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader
from torchvision.transforms import Compose


def double(index):
    return 2 * index


class Numbers(Dataset):
    def __init__(self):
        self.transform = Compose([double, torch.tensor])

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return self.transform(index)


class Remembering(IterableDataset):
    """Its own iterator, with a state: what torchdata saves and restores."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at == 12:
            raise StopIteration
        self.at += 1
        return torch.tensor(self.at)

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Forgetting(IterableDataset):
    """A generator: torchdata runs through it again up to where it was."""

    def __iter__(self):
        yield from map(torch.tensor, range(12))


def run(dataset, method, persistent):
    how = {} if method == "none" else {"num_workers": 2 if method == "fork" else 1, "multiprocessing_context": method}
    torch.manual_seed(0)
    shuffle = {"shuffle": True} if isinstance(dataset, Numbers) else {}

    def loader():
        return StatefulDataLoader(dataset, batch_size=4, persistent_workers=persistent and bool(how), **how, **shuffle)

    first = loader()
    for number, batch in enumerate(first):
        print(batch.tolist())
        if number == 1:
            break
    state = first.state_dict()
    print(state)
    del first
    second = loader()
    second.load_state_dict(state)
    for _ in range(2):
        print([batch.tolist() for batch in second], second.worker_init_fn)
    print(second.state_dict())


def batches(method, persistent=False, only=""):
    for dataset in (Numbers(), Remembering(), Forgetting()):
        if only in ("", type(dataset).__name__):
            run(dataset, method, persistent)


if __name__ == "__main__":
    batches(sys.argv[1], "--persistent" in sys.argv, *sys.argv[3:])
