"""Day-ahead electricity load forecasting: dilated temporal convolutions over hourly meters.

Meters are kept as float32 .npy shards, read through memory maps by an iterable dataset.
"""
import argparse
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

STORE = Path(__file__).parent / "data" / "loadcast"
HISTORY, HORIZON = 168, 24


def generate(store, shards=8, meters=20, hours=24 * 365):
    if len(list(store.glob("meters_*.npy"))) == shards:
        return
    store.mkdir(parents=True, exist_ok=True)
    hour = np.arange(hours)
    for s in range(shards):
        rng = np.random.default_rng([77, s])
        level = rng.lognormal(0, 0.4, (meters, 1))
        daily = np.sin(2 * np.pi * (hour / 24 + rng.random((meters, 1))))
        weekly = np.cos(2 * np.pi * hour / 168 + rng.random((meters, 1)))
        drift = np.cumsum(rng.normal(0, 0.01, (meters, hours)), 1)
        load = level * (2 + daily + 0.4 * weekly) + drift + rng.normal(0, 0.15, (meters, hours))
        np.save(store / f"meters_{s:02d}.npy", load.astype(np.float32))


class WindowStream(IterableDataset):
    """Batches of random (history, target) windows; an epoch has `batches` of them, split over the workers."""

    def __init__(self, files, batches, batch_size, seed):
        self.files, self.batches, self.batch_size, self.seed = files, batches, batch_size, seed
        self.epoch = 0
        self.maps = None

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        if self.maps is None:
            self.maps = [np.load(f, mmap_mode="r") for f in self.files]
        rng = np.random.default_rng([self.seed, self.epoch, worker])
        self.epoch += 1
        span = np.arange(HISTORY + HORIZON)
        for _ in range(worker, self.batches, workers):
            shard = self.maps[rng.integers(len(self.maps))]
            meter = rng.integers(shard.shape[0], size=self.batch_size)
            start = rng.integers(shard.shape[1] - len(span), size=self.batch_size)
            window = shard[meter[:, None], start[:, None] + span]
            mean = window[:, :HISTORY].mean(1, keepdims=True)
            std = window[:, :HISTORY].std(1, keepdims=True) + 1e-3
            window = torch.from_numpy((window - mean) / std)
            clock = torch.from_numpy(((start[:, None] + span[:HISTORY]) % 24).astype(np.float32))
            yield window[:, :HISTORY], clock, window[:, HISTORY:]


class ResidualConv(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.left = 2 * dilation
        self.filter = nn.Conv1d(channels, 2 * channels, 3, dilation=dilation)
        self.mix = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        a, b = self.filter(nn.functional.pad(x, (self.left, 0))).chunk(2, 1)
        return x + self.mix(torch.tanh(a) * torch.sigmoid(b))


class Forecaster(nn.Module):
    def __init__(self, channels=36, dilations=(1, 2, 4, 8, 16, 32)):
        super().__init__()
        self.embed = nn.Conv1d(3, channels, 1)
        self.body = nn.Sequential(*[ResidualConv(channels, d) for d in dilations])
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(channels, 128), nn.ReLU(), nn.Linear(128, HORIZON))

    def forward(self, load, clock):
        angle = clock * (2 * math.pi / 24)
        x = self.embed(torch.stack([load, angle.sin(), angle.cos()], 1))
        return self.head(self.body(x)[:, :, -1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batches", type=int, default=30, help="batches an epoch")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--out", type=Path, default=STORE / "last.pt")
    args = p.parse_args()

    torch.manual_seed(4)
    generate(STORE)
    files = sorted(STORE.glob("meters_*.npy"))
    stream = WindowStream(files[:-1], args.batches, args.batch_size, seed=4)
    loader = DataLoader(stream, batch_size=None, num_workers=args.workers, persistent_workers=args.workers > 0)
    held = list(WindowStream(files[-1:], 4, 128, seed=5))

    model = Forecaster()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * args.batches)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for load, clock, target in loader:
            loss = nn.functional.smooth_l1_loss(model(load, clock), target)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item()
        model.eval()
        with torch.inference_mode():
            mae = sum((model(x, c) - y).abs().mean().item() for x, c, y in held) / len(held)
        print(f"epoch {epoch}: loss {total / args.batches:.4f} held-out mae {mae:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "epoch": epoch}, args.out)


if __name__ == "__main__":
    main()
