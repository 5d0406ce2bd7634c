# Land-cover classification from tiles kept in a tiered object store.
import io
import os
import time
import zlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
BATCH = 16
N_TILES = 960
CLASSES = ["water", "forest", "crop", "urban", "bare", "wetland"]


class ObjectStore:
    """Client of the tile bucket (stand-in with the latencies of the real one)."""

    def __init__(self, bucket, hot_ms=3.0, archive_ms=2000.0):
        self.bucket = bucket
        self.hot = hot_ms / 1e3
        self.archive = archive_ms / 1e3

    def tier(self, key):
        return "archive" if zlib.crc32(f"{self.bucket}/{key}".encode()) % 240 == 0 else "hot"

    def get(self, key):
        time.sleep(self.archive if self.tier(key) == "archive" else self.hot)
        seed = zlib.crc32(key.encode())
        rng = np.random.default_rng(seed)
        label = seed % len(CLASSES)
        bands = rng.integers(0, 1500, (4, 48, 48)).astype(np.uint16)
        bands[label % 4] += 400 * (1 + label // 4)
        buf = io.BytesIO()
        np.save(buf, bands)
        return buf.getvalue(), label


class TileDataset(Dataset):
    def __init__(self, store, keys):
        self.store = store
        self.keys = keys

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, idx):
        blob, label = self.store.get(self.keys[idx])
        tile = np.load(io.BytesIO(blob)).astype(np.float32) / 3000.0
        k = np.random.randint(4)
        tile = np.ascontiguousarray(np.rot90(tile, k, axes=(1, 2)))
        return torch.from_numpy(tile), label


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.b = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        y = F.relu(self.na(self.a(x)))
        return F.relu(x + self.nb(self.b(y)))


def build_model(width=20):
    return nn.Sequential(
        nn.Conv2d(4, width, 3, padding=1), nn.ReLU(),
        Block(width), nn.MaxPool2d(2),
        Block(width), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(width, len(CLASSES)),
    )


def run():
    torch.manual_seed(1)
    keys = [f"2024/T32UQD/{i // 40:02d}/{i:05d}.npy" for i in range(N_TILES)]
    loader = DataLoader(
        TileDataset(ObjectStore("s2-l2a-chips"), keys),
        batch_size=BATCH,
        shuffle=True,
        num_workers=4,
        persistent_workers=True,
    )
    model = build_model()
    optim = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        start = time.time()
        model.train()
        correct, loss_sum = 0, 0.0
        for tiles, labels in loader:
            optim.zero_grad()
            out = model(tiles)
            loss = F.cross_entropy(out, labels)
            loss.backward()
            optim.step()
            loss_sum += float(loss.detach()) * len(labels)
            correct += int((out.argmax(1) == labels).sum())
        print(f"[{epoch + 1}/{EPOCHS}] loss={loss_sum / N_TILES:.4f} acc={correct / N_TILES:.3f} time={time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    run()
