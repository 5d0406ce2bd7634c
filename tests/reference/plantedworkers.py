"""A dataset in whose worker something happens at a stated sample, and the loader over it."""

import torch

from pipebench.reference import worker_health
from pipebench.reference.dataloader import Live
from pipebench.reference.pipeline import LoadedBatch
from pipebench.results.loading import Loading


class Planted(torch.utils.data.Dataset):
    """Samples that are there at once, but for the one at which something happens in the worker."""

    def __init__(self, notebook, at, action):
        self.notebook, self.at, self.action = notebook, at, action

    def __len__(self):
        return 64

    def __getitem__(self, index):
        self.notebook.begin(f"sample-{index}")
        if self.at is not None and index >= self.at:
            self.action()
        return torch.zeros(3, 8, 8), 0


class Stack:
    def __init__(self, notebook):
        self.notebook = notebook

    def __call__(self, items):
        batch = LoadedBatch(torch.stack([image for image, _ in items]), torch.tensor([label for _, label in items]))
        self.notebook.made()
        return batch


def opened(action, at=0, timeout_s=20.0):
    notebook = worker_health.Notebook(1)
    loading = Loading(workers=1, timeout_s=timeout_s, start_method="fork")
    return Live(Planted(notebook, at, action), loading, 4, Stack(notebook), notebook=notebook)
