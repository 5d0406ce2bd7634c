"""Classifies segmented lidar objects (car, cyclist, pole, ...) from shards of point clouds."""
import io
import os
import tempfile
import time

import numpy as np
import torch
import webdataset as wds
from torch import nn
from torch.utils.data import DataLoader

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "lidar_objects")
KINDS, SHARDS, PER_SHARD, POINTS = 5, 4, 240, 512
BATCH = 16


def make_object(rng, kind):
    cloud = rng.normal(size=(POINTS + 128, 3))
    if kind == 0:
        cloud = np.clip(cloud, -1, 1) * (2.2, 0.9, 0.7)
    elif kind == 1:
        cloud *= (0.8, 0.2, 0.8)
    elif kind == 2:
        cloud *= (0.1, 0.1, 2.0)
    elif kind == 3:
        cloud /= np.linalg.norm(cloud, axis=1, keepdims=True)
    else:
        cloud[:, 2] = 0.3 * np.sin(3 * cloud[:, 0])
    return (cloud + rng.normal(0, 0.03, cloud.shape)).astype(np.float32)


def make_shards():
    os.makedirs(ROOT, exist_ok=True)
    if os.path.exists(os.path.join(ROOT, "done")):
        return
    rng = np.random.default_rng(9)
    for shard in range(SHARDS):
        with wds.TarWriter(os.path.join(ROOT, f"objects-{shard:03d}.tar")) as sink:
            for i in range(PER_SHARD):
                kind = int(rng.integers(KINDS))
                payload = io.BytesIO()
                np.save(payload, make_object(rng, kind))
                sink.write({"__key__": f"{shard:03d}{i:05d}", "npy": payload.getvalue(), "cls": str(kind)})
    open(os.path.join(ROOT, "done"), "w").close()


def prepare(sample):
    cloud = np.load(io.BytesIO(sample["npy"]))
    cloud = cloud[np.random.choice(len(cloud), POINTS, replace=False)]
    angle = np.random.uniform(0, 2 * np.pi)
    c, s = np.cos(angle), np.sin(angle)
    cloud = cloud @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], np.float32)
    cloud = cloud - cloud.mean(axis=0)
    cloud = cloud / np.abs(cloud).max()
    return torch.from_numpy(cloud.T.astype(np.float32)), int(sample["cls"])


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = self.mlp(3, 64, 96)
        self.wide = self.mlp(192, 192, 384)
        self.head = nn.Sequential(nn.Linear(384, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, KINDS))

    @staticmethod
    def mlp(*widths):
        layers = []
        for a, b in zip(widths, widths[1:]):
            layers += [nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x):
        local = self.local(x)
        pooled = local.amax(dim=2, keepdim=True).expand_as(local)
        return self.head(self.wide(torch.cat([local, pooled], dim=1)).amax(dim=2))


def main():
    torch.manual_seed(0)
    make_shards()
    shards = [os.path.join(ROOT, f"objects-{i:03d}.tar") for i in range(SHARDS)]
    dataset = (
        wds.WebDataset(shards, shardshuffle=SHARDS, seed=0)
        .shuffle(128)
        .map(prepare)
    )
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=1, prefetch_factor=4, persistent_workers=True,
                        drop_last=True)
    model = PointNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        began, running, hits, seen = time.time(), 0.0, 0, 0
        for clouds, kinds in loader:
            logits = model(clouds)
            loss = loss_fn(logits, kinds)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(kinds)
            hits += (logits.argmax(1) == kinds).sum().item()
            seen += len(kinds)
        print(f"epoch {epoch}: loss {running / seen:.4f} acc {hits / seen:.3f} ({time.time() - began:.1f}s)",
              flush=True)


if __name__ == "__main__":
    main()
