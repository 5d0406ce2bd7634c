"""Land-cover classification from 6-band satellite tiles kept in an object store."""
import argparse
import logging
import os
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
log = logging.getLogger("landcover")

BANDS = ["blue", "green", "red", "nir", "swir1", "swir2"]
CLASSES = ["water", "forest", "crop", "urban", "bare"]
TILE = 64


class TileStore:
    """Stand-in for the bucket: most tiles are hot, some were moved to the archive tier."""

    def __init__(self, root, n_tiles, seed):
        self.root = root
        self.n_tiles = n_tiles
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(CLASSES), n_tiles)
        signature = rng.uniform(0.1, 0.6, (len(CLASSES), len(BANDS), 1, 1))
        data = np.lib.format.open_memmap(os.path.join(root, "tiles.npy"), "w+", np.uint16,
                                         (n_tiles, len(BANDS), TILE, TILE))
        for i, y in enumerate(self.labels):
            refl = signature[y] + rng.normal(0, 0.12, (len(BANDS), TILE, TILE))
            data[i] = np.clip(refl * 10000, 0, 65535)
        data.flush()
        self.archived = set(rng.choice(n_tiles, size=n_tiles // 128, replace=False).tolist())

    def get(self, i):
        time.sleep(2.0 if i in self.archived else 0.002)
        return np.load(os.path.join(self.root, "tiles.npy"), mmap_mode="r")[i]


class LandCover(Dataset):
    def __init__(self, store):
        self.store = store

    def __len__(self):
        return self.store.n_tiles

    def __getitem__(self, i):
        x = self.store.get(i).astype(np.float32) / 10000.0
        ndvi = (x[3] - x[2]) / (x[3] + x[2] + 1e-6)
        ndwi = (x[1] - x[3]) / (x[1] + x[3] + 1e-6)
        x = np.concatenate([x, ndvi[None], ndwi[None]])
        x = np.rot90(x, np.random.randint(4), axes=(1, 2)).copy()
        return torch.from_numpy(x), int(self.store.labels[i])


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1)
        self.b = nn.Conv2d(c, c, 3, padding=1)
        self.norm = nn.GroupNorm(4, c)

    def forward(self, x):
        return F.relu(x + self.norm(self.b(F.relu(self.a(x)))))


def build_model(width):
    return nn.Sequential(
        nn.Conv2d(len(BANDS) + 2, width, 5, stride=2, padding=2), nn.ReLU(),
        Residual(width), Residual(width),
        nn.Conv2d(width, width * 2, 3, stride=2, padding=1), nn.ReLU(),
        Residual(width * 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width * 2, len(CLASSES)),
    )


def train_epoch(model, loader, optimizer):
    model.train()
    losses, hits = [], 0
    for x, y in loader:
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        hits += (logits.argmax(1) == y).sum().item()
    return float(np.mean(losses)), hits / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", "2")))
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--workers", type=int, default=4)
    ap.add_argument("--width", type=int, default=16)
    args = ap.parse_args()

    torch.manual_seed(11)
    torch.set_num_threads(1)  # shared box
    root = tempfile.mkdtemp(prefix="tiles_")
    try:
        store = TileStore(root, n_tiles=768, seed=11)
        loader = DataLoader(LandCover(store), batch_size=args.batch_size, shuffle=True,
                            num_workers=args.workers, persistent_workers=True)
        model = build_model(args.width)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for epoch in range(args.epochs):
            t0 = time.time()
            loss, acc = train_epoch(model, loader, optimizer)
            log.info("epoch %d loss %.4f acc %.3f %.1fs", epoch, loss, acc, time.time() - t0)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
