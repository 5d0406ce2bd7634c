"""Patch classifier for pathology slides (functions build everything)."""

import os
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    epochs: int = int(os.environ.get("EPOCHS", 2))
    batch: int = 4
    batches: int = 200
    workers: int = 4
    lr: float = 1e-2


class SlideReader:
    """Opens a patch from the PACS. Some slides lie on the tape tier."""

    def __init__(self, n, every):
        self.tape = set(range(37, n, every))

    def read(self, i):
        time.sleep(0.004)
        if i in self.tape:
            time.sleep(3.0)
        return np.full((48, 48, 3), i % 251, dtype=np.uint8)


class Patches(Dataset):
    def __init__(self, cfg):
        self.n = cfg.batch * cfg.batches
        self.reader = SlideReader(self.n, 50 * cfg.batch)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.from_numpy(self.reader.read(i)), i % 2


class Hardware(torch.nn.Module):
    """stands for the accelerator"""

    def __init__(self, inner, s):
        super().__init__()
        self.inner, self.s = inner, s
        self.inner.register_full_backward_hook(lambda *a: time.sleep(s))

    def forward(self, x):
        time.sleep(self.s)
        return self.inner(x)


def build_loader(cfg):
    g = torch.Generator().manual_seed(3)
    return DataLoader(
        Patches(cfg), batch_size=cfg.batch, shuffle=True, generator=g, num_workers=cfg.workers, persistent_workers=True
    )


def build_model():
    return Hardware(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48 * 48 * 3, 2)), 0.02)


def train(cfg):
    torch.set_num_threads(1)
    loader, model = build_loader(cfg), build_model()
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    ce = torch.nn.CrossEntropyLoss()
    for e in range(cfg.epochs):
        running = torch.zeros(())
        for x, y in loader:
            opt.zero_grad()
            x = (x.float() / 255).requires_grad_()
            loss = ce(model(x), y)
            loss.backward()
            opt.step()
            running += loss.detach()
        print(e, (running / len(loader)).item(), flush=True)


if __name__ == "__main__":
    train(Config())
