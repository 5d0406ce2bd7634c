"""Land-cover classification of satellite tiles streamed from a bucket."""
import io
import os
import random
import struct
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

COVERS = 5
SHARDS = 12
PER_SHARD = 72
BANDWIDTH = 2.0e6  # bytes per second of one connection
LATENCY = 0.04     # seconds until the first byte


def publish(folder):
    rng = np.random.default_rng(21)
    for s in range(SHARDS):
        with open(os.path.join(folder, f"tiles-{s:05d}.bin"), "wb") as out:
            for _ in range(PER_SHARD):
                cover = int(rng.integers(COVERS))
                tone = np.array([60 + 30 * cover, 150 - 20 * cover, 90 + 10 * cover])
                tile = np.clip(tone + rng.normal(0, 35, (64, 64, 3)), 0, 255).astype(np.uint8)
                buf = io.BytesIO()
                Image.fromarray(tile).save(buf, "PNG", compress_level=1)
                out.write(struct.pack("<BI", cover, buf.tell()) + buf.getvalue())


class Bucket:
    """Stand-in for the object store: one streaming GET per shard."""

    def __init__(self, folder):
        self.folder = folder

    def keys(self):
        return sorted(os.listdir(self.folder))

    def stream(self, key):
        time.sleep(LATENCY)
        with open(os.path.join(self.folder, key), "rb") as body:
            while head := body.read(5):
                cover, size = struct.unpack("<BI", head)
                time.sleep(size / BANDWIDTH)
                yield cover, body.read(size)


class Tiles(IterableDataset):
    def __init__(self, bucket, seed=0):
        self.bucket, self.seed, self.epoch = bucket, seed, 0

    def __len__(self):
        return SHARDS * PER_SHARD

    def records(self, keys):
        for key in keys:
            yield from self.bucket.stream(key)

    def __iter__(self):
        info = get_worker_info()
        rank, world = (info.id, info.num_workers) if info else (0, 1)
        keys = self.bucket.keys()
        random.Random(self.seed + self.epoch).shuffle(keys)
        self.epoch += 1
        for n, (cover, png) in enumerate(self.records(keys)):
            if n % world != rank:
                continue
            tile = np.array(Image.open(io.BytesIO(png)), np.float32) / 255.0
            if random.random() < 0.5:
                tile = tile[:, ::-1]
            yield torch.from_numpy(tile.copy()).permute(2, 0, 1), cover


class CoverNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(64, 64, 3, stride=2, padding=1)
        self.fc = nn.Linear(64, COVERS)

    def forward(self, x):
        for conv in (self.c1, self.c2, self.c3):
            x = F.relu(conv(x))
        return self.fc(x.mean(dim=(2, 3)))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(prefix="landcover_") as folder:
        publish(folder)
        loader = DataLoader(Tiles(Bucket(folder)), batch_size=32, num_workers=2, persistent_workers=True)
        model = CoverNet()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for epoch in range(int(os.environ.get("EPOCHS", 6))):
            tic, losses, hits, seen = time.time(), [], 0, 0
            for x, y in loader:
                logits = model(x)
                loss = F.cross_entropy(logits, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                hits += (logits.argmax(1) == y).sum().item()
                seen += len(y)
            print(f"epoch {epoch} loss {np.mean(losses):.4f} acc {hits / seen:.3f} "
                  f"tiles {seen} time {time.time() - tic:.1f}", flush=True)


if __name__ == "__main__":
    main()
