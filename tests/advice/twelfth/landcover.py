"""Land-cover classification streamed from an object store."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

BANDS, SIDE, CLASSES = 6, 32, 8
SHARDS, PER_SHARD = 12, 240


class ObjectStore:
    """Stand-in for the bucket: a request has a first-byte latency."""

    def __init__(self, first_byte=0.7, seed=0):
        self.first_byte = first_byte
        rng = np.random.default_rng(seed)
        self.base = rng.integers(0, 255, (CLASSES, BANDS, SIDE, SIDE), dtype=np.uint8)

    def open(self, shard):
        time.sleep(self.first_byte)
        rng = np.random.default_rng(1000 + shard)
        for _ in range(PER_SHARD):
            label = int(rng.integers(CLASSES))
            noise = rng.integers(0, 90, (BANDS, SIDE, SIDE), dtype=np.uint8)
            yield self.base[label] // 2 + noise, label


class TileStream(IterableDataset):
    def __init__(self, store, shards):
        self.store = store
        self.shards = shards
        self.epoch = 0

    def __iter__(self):
        info = get_worker_info()
        wid, n = (info.id, info.num_workers) if info else (0, 1)
        rng = np.random.default_rng(self.epoch)
        order = rng.permutation(self.shards)
        self.epoch += 1
        for shard in order[wid::n]:
            for tile, label in self.store.open(int(shard)):
                x = torch.from_numpy(tile).float().div_(255)
                if rng.random() < 0.5:
                    x = x.flip(-1)
                yield x, label


class TileNet(nn.Module):
    def __init__(self, width=28):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(BANDS, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, width * 2, 3, padding=1), nn.BatchNorm2d(width * 2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(width * 2, CLASSES)

    def forward(self, x):
        return self.classifier(self.features(x))


def run(epochs):
    stream = TileStream(ObjectStore(), SHARDS)
    loader = DataLoader(stream, batch_size=16, num_workers=2, persistent_workers=True)
    model = TileNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    criterion = nn.CrossEntropyLoss()
    model.train()
    for epoch in range(epochs):
        began, total, count = time.perf_counter(), 0.0, 0
        for step, (tiles, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(tiles), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
            count += 1
            if step % 100 == 0:
                print(f"  step {step:4d} loss {loss.item():.3f}")
        print(f"epoch {epoch}: mean loss {total / count:.4f}, {time.perf_counter() - began:.1f}s")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(7)
    run(int(os.environ.get("EPOCHS", 6)))
