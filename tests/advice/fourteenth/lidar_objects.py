import io
import os
import random
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
import webdataset as wds
from torch import nn
from torch.utils.data import DataLoader

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "lidar_objects")
SPLITS = {"train": (8, 64), "val": (4, 160)}
KINDS = 4
POINTS = 512


def scan(kind, rng, n=900):
    p = rng.normal(size=(n, 3))
    if kind == 0:
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif kind == 1:
        p /= np.abs(p).max(1, keepdims=True)
    elif kind == 2:
        p[:, :2] /= np.linalg.norm(p[:, :2], axis=1, keepdims=True)
        p[:, 2] = rng.uniform(-1, 1, n)
    else:
        p[:, 2] *= 0.1
    p = p * rng.uniform(0.6, 1.4, 3) + rng.normal(0, 0.03, p.shape)
    return p.astype(np.float16)


def prepare():
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(2)
    urls = {}
    for split, (shards, per_shard) in SPLITS.items():
        urls[split] = []
        for s in range(shards):
            path = os.path.join(ROOT, f"{split}-{s:03d}.tar")
            if not os.path.exists(path):
                with wds.TarWriter(path + ".part") as sink:
                    for i in range(per_shard):
                        kind = int(rng.integers(KINDS))
                        buffer = io.BytesIO()
                        np.save(buffer, scan(kind, rng))
                        sink.write({"__key__": f"{s:03d}{i:04d}", "npy": buffer.getvalue(),
                                    "cls": str(kind).encode()})
                os.replace(path + ".part", path)
            urls[split].append(path)
    return urls


def fetch(sample):
    time.sleep(0.005)  # bucket in another region
    points = np.load(io.BytesIO(sample["npy"])).astype(np.float32)
    points -= points.mean(0)
    return points / np.abs(points).max(), int(sample["cls"])


def augment(pair):
    points, kind = pair
    keep = np.random.choice(len(points), POINTS, replace=False)
    a = np.random.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]], np.float32)
    return torch.from_numpy(points[keep] @ turn), kind


def thin(pair):
    points, kind = pair
    return torch.from_numpy(points[np.linspace(0, len(points) - 1, POINTS).astype(int)]), kind


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 96), nn.ReLU(),
                                   nn.Linear(96, 256), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, KINDS))

    def forward(self, x):
        return self.head(self.point(x).amax(1))


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    right = seen = 0
    for points, kind in batches:
        right += (model(points).argmax(1) == kind).sum().item()
        seen += len(kind)
    return right / seen


def main():
    torch.manual_seed(2)
    torch.set_num_threads(1)
    urls = prepare()
    train = wds.WebDataset(urls["train"], shardshuffle=False).map(fetch)
    train = train.shuffle(64, initial=8, rng=random.Random(2)).map(augment)
    val = wds.WebDataset(urls["val"], shardshuffle=False).map(fetch).map(thin)
    train_loader = DataLoader(train, batch_size=16, num_workers=4, prefetch_factor=4,
                              persistent_workers=True)
    val_loader = DataLoader(val, batch_size=64)
    model = PointNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        began = time.perf_counter()
        model.train()
        losses = []
        for points, kind in train_loader:
            loss = F.cross_entropy(model(points), kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        accuracy = evaluate(model, val_loader)
        print(f"epoch {epoch}: loss {np.mean(losses):.3f} val acc {accuracy:.3f} "
              f"{time.perf_counter() - began:.1f}s", flush=True)


if __name__ == "__main__":
    main()
