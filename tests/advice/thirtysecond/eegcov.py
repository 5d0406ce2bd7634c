#!/usr/bin/env python
"""Tangent-space EEG decoding: log-covariance features of filter-bank epochs, MLP read-out.

    python eegcov.py --data DIR [--bands 2] [--shrinkage 0.1]
"""
import argparse
import logging
import os
import time

import numpy as np
import torch
import torch.nn as nn
from scipy import signal
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO, datefmt="%H:%M:%S")
log = logging.getLogger("eegcov")

FS = 128
CHANNELS = 128
SAMPLES = 256
CLASSES = 4
BANDS = [(4, 8), (8, 13), (13, 30), (30, 45)]


def simulate(path, n, seed=0):
    """Mixtures of band-limited sources; the class sets which sources are strong."""
    rng = np.random.default_rng(seed)
    os.makedirs(path, exist_ok=True)
    mixing = rng.standard_normal((CHANNELS, 24)) / 5
    y = rng.integers(0, CLASSES, n)
    x = np.lib.format.open_memmap(os.path.join(path, "epochs.npy.part"), "w+", np.int16, (n, CHANNELS, SAMPLES))
    t = np.arange(SAMPLES) / FS
    freqs = rng.uniform(5, 40, 24)
    for i in range(n):
        gain = np.ones(24)
        gain[y[i]::CLASSES] = 1.6
        src = gain[:, None] * np.sin(2 * np.pi * freqs[:, None] * t + rng.uniform(0, 6.28, (24, 1)))
        e = mixing @ src + 0.8 * rng.standard_normal((CHANNELS, SAMPLES))
        x[i] = (e * 1000).astype(np.int16)
    x.flush()
    np.save(os.path.join(path, "labels.npy"), y)
    os.rename(os.path.join(path, "epochs.npy.part"), os.path.join(path, "epochs.npy"))


class TangentFeatures(Dataset):
    def __init__(self, path, bands, shrinkage):
        self.x = np.load(os.path.join(path, "epochs.npy"), mmap_mode="r")
        self.y = np.load(os.path.join(path, "labels.npy"))
        self.bank = [signal.butter(4, b, "bandpass", fs=FS, output="sos") for b in BANDS[:bands]]
        self.shrinkage = shrinkage
        self.iu = np.triu_indices(CHANNELS)
        self.weight = np.where(self.iu[0] == self.iu[1], 1.0, np.sqrt(2.0))

    def __len__(self):
        return len(self.y)

    def log_cov(self, e):
        c = e @ e.T / e.shape[1]
        mu = np.trace(c) / CHANNELS
        c = (1 - self.shrinkage) * c + self.shrinkage * mu * np.eye(CHANNELS)
        w, v = np.linalg.eigh(c)
        return (v * np.log(w)) @ v.T

    def __getitem__(self, i):
        e = self.x[i].astype(np.float64) / 1000.0
        e -= e.mean(0, keepdims=True)
        feats = []
        for sos in self.bank:
            l = self.log_cov(signal.sosfiltfilt(sos, e, axis=1))
            feats.append(l[self.iu] * self.weight)
        f = np.stack(feats).astype(np.float32)
        return torch.from_numpy(f), int(self.y[i])


class BandMLP(nn.Module):
    def __init__(self, bands, hidden):
        super().__init__()
        d = CHANNELS * (CHANNELS + 1) // 2
        self.norm = nn.LayerNorm(d)
        self.proj = nn.Linear(d, hidden)
        self.head = nn.Sequential(nn.Flatten(), nn.GELU(), nn.Dropout(0.2), nn.Linear(hidden * bands, CLASSES))

    def forward(self, x):
        return self.head(self.proj(self.norm(x)))


def run(args):
    if not os.path.exists(os.path.join(args.data, "epochs.npy")):
        simulate(args.data, args.n_epochs)
    torch.manual_seed(args.seed)
    ds = TangentFeatures(args.data, args.bands, args.shrinkage)
    loader = DataLoader(ds, args.batch_size, shuffle=True, num_workers=args.num_workers,
                        persistent_workers=True, drop_last=True)
    model = BandMLP(args.bands, args.hidden)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    crit = nn.CrossEntropyLoss()
    log.info("%d trials, %d parameters", len(ds), sum(p.numel() for p in model.parameters()))
    for ep in range(args.passes):
        tic = time.time()
        tot = correct = seen = 0
        for x, y in loader:
            out = model(x)
            loss = crit(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(y)
            correct += (out.argmax(1) == y).sum().item()
            seen += len(y)
        log.info("pass %d  loss %.4f  acc %.3f  %.1fs", ep, tot / seen, correct / seen, time.time() - tic)


def cli():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", default="data/eegcov")
    p.add_argument("--n-epochs", type=int, default=1000)
    p.add_argument("--bands", type=int, default=2)
    p.add_argument("--shrinkage", type=float, default=0.1)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--num-workers", type=int, default=2)
    p.add_argument("--passes", type=int, default=3)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


if __name__ == "__main__":
    run(cli())
