#!/usr/bin/env python3
"""Card fraud scores from the feature database.   usage: five.py [key=value ...]"""

import multiprocessing as mp
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

CONFIG = {
    "epochs": 2,
    "batch_size": 32,
    "workers": 0,
    "prefetch": 2,
    "bulk_query": 0,  # 1: one query for the rows of a batch
    "rows": 1000,
    "lr": 0.01,
}
COLUMNS = 20


class FeatureStore:
    """Client of the database. The server grants this account two connections."""

    ROUND_TRIP, PER_ROW = 0.005, 0.001

    def __init__(self):
        self.connections = mp.BoundedSemaphore(2)

    def query(self, keys):
        with self.connections:
            time.sleep(self.ROUND_TRIP + self.PER_ROW * len(keys))
        rows = [np.random.default_rng(k).normal(size=COLUMNS).astype(np.float32) for k in keys]
        return rows


class Transactions(Dataset):
    def __init__(self, n, store):
        self.n, self.store = n, store

    def __len__(self):
        return self.n

    @staticmethod
    def sample(row):
        return torch.from_numpy(row), torch.tensor([float(row[:3].sum() > 2)])

    def __getitem__(self, key):
        return self.sample(self.store.query([key])[0])


class BulkTransactions(Transactions):
    def __getitems__(self, keys):
        return [self.sample(row) for row in self.store.query(keys)]


def read_config(argv):
    cfg = dict(CONFIG)
    for word in argv:
        key, _, value = word.partition("=")
        key = key.lstrip("-")
        if key not in cfg:
            sys.exit(f"unknown setting {key!r}; known: {', '.join(cfg)}")
        cfg[key] = type(cfg[key])(value)
    return cfg


def main():
    cfg = read_config(sys.argv[1:])
    torch.manual_seed(5)
    kind = BulkTransactions if cfg["bulk_query"] else Transactions
    everything = kind(cfg["rows"] + 100, FeatureStore())
    train, _holdout = random_split(everything, [cfg["rows"], 100])
    many = cfg["workers"] > 0
    loader = DataLoader(
        train,
        batch_size=cfg["batch_size"],
        shuffle=True,
        num_workers=cfg["workers"],
        prefetch_factor=cfg["prefetch"] if many else None,
        persistent_workers=many,
    )
    model = nn.Sequential(nn.Linear(COLUMNS, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    lossf = nn.BCEWithLogitsLoss()
    begin = time.perf_counter()
    for epoch in range(cfg["epochs"]):
        for i, (features, fraud) in enumerate(loader):
            loss = lossf(model(features), fraud)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.050)  # remote accelerator
            if i % 16 == 15:
                print(f"epoch={epoch} batch={i} loss={loss.item():.4f}", flush=True)
    print(f"trained for {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
