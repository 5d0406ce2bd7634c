"""Object recognition on scanned point sets, with a callback-driven fit loop."""
import argparse
import json
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

KINDS = ["box", "ball", "tube", "cone", "ring", "plate", "saddle", "spiral"]
SCANS = 900
RAW_POINTS = 1600


def sample_surface(kind, rng, n):
    a, b = rng.uniform(0, 1, n), rng.uniform(0, 2 * np.pi, n)
    if kind == "box":
        p = rng.uniform(-1, 1, (n, 3))
        p[np.arange(n), rng.integers(0, 3, n)] = np.sign(rng.normal(size=n))
    elif kind == "ball":
        p = rng.normal(size=(n, 3))
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif kind == "tube":
        p = np.stack([0.5 * np.cos(b), 0.5 * np.sin(b), 2 * a - 1], 1)
    elif kind == "cone":
        p = np.stack([a * np.cos(b), a * np.sin(b), 1 - 2 * a], 1)
    elif kind == "ring":
        c = 2 * np.pi * a
        p = np.stack([(0.8 + 0.2 * np.cos(c)) * np.cos(b), (0.8 + 0.2 * np.cos(c)) * np.sin(b), 0.2 * np.sin(c)], 1)
    elif kind == "plate":
        p = np.stack([2 * a - 1, b / np.pi - 1, np.zeros(n)], 1)
    elif kind == "saddle":
        p = np.stack([2 * a - 1, b / np.pi - 1, (2 * a - 1) ** 2 - (b / np.pi - 1) ** 2], 1)
    else:
        p = np.stack([a * np.cos(3 * b), a * np.sin(3 * b), b / np.pi - 1], 1)
    return p * rng.uniform(0.7, 1.2, 3) + rng.normal(0, 0.02, (n, 3))


def scan_all(root):
    if os.path.exists(os.path.join(root, "scans.json")):
        return
    os.makedirs(os.path.join(root, "scans"), exist_ok=True)
    rng = np.random.default_rng(55)
    listing = []
    for i in range(SCANS):
        kind = int(rng.integers(len(KINDS)))
        name = f"scan_{i:05d}.npy"
        np.save(os.path.join(root, "scans", name), sample_surface(KINDS[kind], rng, RAW_POINTS))
        listing.append([name, kind])
    with open(os.path.join(root, "scans.json"), "w") as f:
        json.dump(listing, f)


class ScanSet(Dataset):
    def __init__(self, root, part, points, augment):
        with open(os.path.join(root, "scans.json")) as f:
            rows = json.load(f)
        self.rows = [r for i, r in enumerate(rows) if (i % 9 == 0) == (part == "val")]
        self.root, self.points, self.augment = root, points, augment
        self.opened = 0

    def __len__(self):
        return len(self.rows)

    def _read(self, name):
        self.opened += 1
        if self.opened % 16 == 0:
            time.sleep(0.01)
        return np.load(os.path.join(self.root, "scans", name))

    def __getitem__(self, i):
        name, kind = self.rows[i]
        cloud = self._read(name)
        rng = np.random.default_rng(int(torch.randint(2 ** 31, (1,))) if self.augment else i)
        cloud = cloud[rng.permutation(len(cloud))[: self.points]]
        if self.augment:
            t = rng.uniform(0, 2 * np.pi)
            rot = np.array([[np.cos(t), -np.sin(t), 0], [np.sin(t), np.cos(t), 0], [0, 0, 1]])
            cloud = cloud @ rot.T + rng.normal(0, 0.01, cloud.shape)
        cloud = cloud - cloud.mean(axis=0)
        cloud = cloud / np.sqrt((cloud ** 2).sum(axis=1)).max()
        return cloud, kind


def stack_scans(samples):
    clouds, kinds = [], []
    for cloud, kind in samples:
        clouds.append(torch.tensor(cloud, dtype=torch.float32))
        kinds.append(kind)
    return torch.stack(clouds), torch.tensor(kinds)


class PointNet(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512)):
        super().__init__()
        layers, prev = [], 3
        for w in widths:
            layers += [nn.Linear(prev, w), nn.ReLU()]
            prev = w
        self.local = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(prev, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, len(KINDS)))

    def forward(self, cloud):
        return self.head(self.local(cloud).amax(dim=1))


class Callback:
    def epoch_end(self, engine, epoch, logs):
        pass


class PrintLogs(Callback):
    def epoch_end(self, engine, epoch, logs):
        print(f"[{epoch}] " + " ".join(f"{k}={v:.4f}" for k, v in logs.items()), flush=True)


class SaveEvery(Callback):
    def __init__(self, path):
        self.path = path

    def epoch_end(self, engine, epoch, logs):
        torch.save({"model": engine.model.state_dict(), "opt": engine.opt.state_dict(), "epoch": epoch}, self.path)


class Validate(Callback):
    def __init__(self, loader):
        self.loader = loader

    @torch.no_grad()
    def epoch_end(self, engine, epoch, logs):
        engine.model.eval()
        right = [(engine.model(cloud).argmax(1) == kind) for cloud, kind in self.loader]
        logs["val_acc"] = torch.cat(right).float().mean().item()
        engine.model.train()


class Engine:
    def __init__(self, model, opt, callbacks):
        self.model, self.opt, self.callbacks = model, opt, callbacks
        self.criterion = nn.CrossEntropyLoss()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            total, count = 0.0, 0
            for cloud, kind in loader:
                loss = self.criterion(self.model(cloud), kind)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item() * len(kind)
                count += len(kind)
            logs = {"loss": total / count}
            for cb in self.callbacks:
                cb.epoch_end(self, epoch, logs)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="data/shapes")
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--points", type=int, default=1024)
    opts = ap.parse_args()
    scan_all(opts.data)
    torch.manual_seed(8)
    train = DataLoader(ScanSet(opts.data, "train", opts.points, True), batch_size=10, shuffle=True, num_workers=1,
                       collate_fn=stack_scans)
    val = DataLoader(ScanSet(opts.data, "val", opts.points, False), batch_size=10, collate_fn=stack_scans)
    net = PointNet()
    engine = Engine(net, torch.optim.Adam(net.parameters(), lr=1e-3),
                    [Validate(val), SaveEvery(os.path.join(opts.data, "shapes.ckpt")), PrintLogs()])
    engine.fit(train, opts.epochs)
