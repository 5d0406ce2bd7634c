#!/usr/bin/env python
"""P-wave arrival classifier on archived three-component seismograms."""
import functools
import os
import pathlib
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = pathlib.Path(os.environ.get("DATA_DIR", tempfile.gettempdir())) / "quake_picker"
SHARDS, PER_SHARD, SAMPLES = 20, 40, 2400


def make_archive():
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    t = np.arange(SAMPLES)
    for s in range(SHARDS):
        path = ROOT / f"event_block_{s:03d}.npz"
        if path.exists():
            continue
        onset = rng.integers(300, SAMPLES - 600, PER_SHARD)
        kind = rng.integers(0, 2, PER_SHARD)
        wave = rng.normal(0, 40, (PER_SHARD, 3, SAMPLES))
        for i in range(PER_SHARD):
            if kind[i]:
                env = np.exp(-np.clip(t - onset[i], 0, None) / 300.0) * (t >= onset[i])
                wave[i] += 220 * env * np.sin(t / rng.uniform(3, 9))
        tmp = ROOT / f"tmp_{s:03d}.npz"
        np.savez_compressed(tmp, wave=wave.astype(np.int32), kind=kind, onset=onset)
        tmp.rename(path)


@functools.lru_cache(maxsize=1)
def load_block(path):
    with np.load(path) as z:
        return z["wave"], z["kind"]


class Seismograms(Dataset):
    def __init__(self, root):
        self.blocks = sorted(str(p) for p in root.glob("event_block_*.npz"))

    def __len__(self):
        return len(self.blocks) * PER_SHARD

    def __getitem__(self, index):
        block, row = divmod(index, PER_SHARD)
        wave, kind = load_block(self.blocks[block])
        x = wave[row].astype(np.float32)
        x -= x.mean(axis=1, keepdims=True)
        x /= x.std(axis=1, keepdims=True) + 1e-6
        shift = np.random.randint(-200, 200)
        return np.roll(x, shift, axis=1), np.int64(kind[row])


class Picker(nn.Module):
    def __init__(self):
        super().__init__()
        ch = [3, 16, 24, 32, 48]
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv1d(a, b, 7, stride=2, padding=3), nn.BatchNorm1d(b), nn.ReLU())
            for a, b in zip(ch, ch[1:])
        )
        self.rnn = nn.GRU(48, 32, batch_first=True)
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        x = nn.functional.avg_pool1d(x, 3)
        _, h = self.rnn(x.transpose(1, 2))
        return self.out(h[-1])


def train():
    make_archive()
    torch.manual_seed(11)
    data = Seismograms(ROOT)
    sampler = RandomSampler(data)
    loader = DataLoader(data, batch_size=20, sampler=sampler, num_workers=1, persistent_workers=True)
    model = Picker()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for ep in range(EPOCHS):
        tick = time.monotonic()
        losses, ok = [], 0
        for wave, kind in loader:
            pred = model(wave)
            loss = criterion(pred, kind)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
            ok += (pred.argmax(1) == kind).sum().item()
        print("pass %d  loss %.4f  acc %.3f  %.1f s" % (ep, np.mean(losses), ok / len(data), time.monotonic() - tick), flush=True)


if __name__ == "__main__":
    train()
