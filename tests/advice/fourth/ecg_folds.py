"""Arrhythmia detector; short passes over small resampled folds."""

import os
import random
import time
from dataclasses import dataclass, field

import torch
from torch.utils.data import DataLoader, Dataset


@dataclass
class LoaderCfg:
    batch_size: int = 16
    num_workers: int = 2
    prefetch_factor: int = 4
    drop_last: bool = True


@dataclass
class Cfg:
    epochs: int = int(os.environ.get("EPOCHS", 12))
    steps: int = 30
    accum: int = 2
    loader: LoaderCfg = field(default_factory=LoaderCfg)


class RecordDB:
    """Connection to the record server: login, then the catalogue is read."""

    def __init__(self):
        time.sleep(0.9)
        self.index = {i: random.random() for i in range(50000)}

    def window(self, i):
        t = torch.linspace(0, 6.28, 500)
        return torch.sin(t * (1 + self.index[i] * 4))


class Beats(Dataset):
    db = None

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if Beats.db is None:  # a connection per process
            Beats.db = RecordDB()
        return Beats.db.window(i), torch.tensor(i % 3)


class Npu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.010)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        time.sleep(0.016)
        return g


class Beatnet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 8, 9, stride=8)
        self.fc = torch.nn.Linear(8, 3)

    def forward(self, x):
        return Npu.apply(self.fc(self.conv(x[:, None]).relu().mean(-1)))


def run(cfg: Cfg):
    torch.set_num_threads(1)
    ds = Beats(cfg.steps * cfg.loader.batch_size)
    dl = DataLoader(ds, shuffle=True, **vars(cfg.loader))
    net = Beatnet()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for fold in range(cfg.epochs):
        opt.zero_grad()
        for i, (x, y) in enumerate(dl):
            loss = torch.nn.functional.cross_entropy(net(x), y) / cfg.accum
            loss.backward()
            if (i + 1) % cfg.accum == 0:
                opt.step()
                opt.zero_grad()
        print("fold", fold, "loss", loss.item() * cfg.accum, flush=True)


if __name__ == "__main__":
    run(Cfg())
