"""Land-cover classification on map tiles served by a remote object store."""

import argparse
import io
import os
import time

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class ObjectStore:
    """Client of the tile bucket. Every GET is one round trip."""

    def __init__(self, root, rtt=0.014):
        self.root, self.rtt = root, rtt

    def get(self, key):
        time.sleep(self.rtt)  # network round trip
        with open(os.path.join(self.root, key), "rb") as f:
            return f.read()


def make_bucket(root, n=200):
    os.makedirs(root, exist_ok=True)
    if os.path.exists(os.path.join(root, "done")):
        return
    rng = np.random.default_rng(0)
    for i in range(n):
        a = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(a).resize((64, 64)).save(os.path.join(root, f"{i}.jpg"), quality=85)
    open(os.path.join(root, "done"), "w").close()


class Tiles(Dataset):
    def __init__(self, store, n, length):
        self.store, self.n, self.length = store, n, length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        raw = self.store.get(f"{i % self.n}.jpg")
        img = np.asarray(Image.open(io.BytesIO(raw)).convert("RGB"))
        return torch.from_numpy(img.copy()).permute(2, 0, 1), i % 5


class Accel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.006)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        time.sleep(0.009)
        return g


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.head = nn.Linear(48, 5)

    def forward(self, x):
        x = self.pool(x.float() / 255).flatten(1)
        return Accel.apply(self.head(x))


class Trainer:
    def __init__(self, args):
        torch.set_num_threads(1)
        self.args = args
        make_bucket(args.data)
        ds = Tiles(ObjectStore(args.data), 200, args.batch_size * args.steps)
        self.loader = DataLoader(ds, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
        self.net = Net()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.crit = nn.CrossEntropyLoss()

    def fit(self):
        for epoch in range(self.args.epochs):
            total = 0.0
            for x, y in self.loader:
                self.opt.zero_grad()
                loss = self.crit(self.net(x), y)
                loss.backward()
                self.opt.step()
                total += loss.item()
            print(f"epoch {epoch} loss {total / len(self.loader):.4f}", flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--data", default=os.environ.get("DATA_DIR", "/tmp/pipebench-fourth") + "/tiles")
    p.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", 2)))
    p.add_argument("--steps", type=int, default=240)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--workers", type=int, default=2)
    Trainer(p.parse_args()).fit()
