"""N-BEATS style forecaster for smart-meter load: one week of history, one day ahead."""
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

HERE = Path(__file__).resolve().parent


@dataclass
class Cfg:
    root: Path = HERE / "data" / "load_forecast"
    meters: int = 460
    hours: int = 26_280
    history: int = 168
    horizon: int = 24
    batch_size: int = 256
    steps_per_epoch: int = 30
    epochs: int = int(os.environ.get("EPOCHS", 20))
    width: int = 256
    stacks: int = 4
    lr: float = 5e-4
    seed: int = 3


def prepare(cfg):
    path = cfg.root / "meters.npy"
    if path.exists():
        return path
    cfg.root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(cfg.seed)
    t = np.arange(cfg.hours, dtype=np.float32)
    day = np.sin(2 * np.pi * t / 24)
    week = np.sin(2 * np.pi * t / 168)
    year = np.cos(2 * np.pi * t / 8760)
    out = np.empty((cfg.meters, cfg.hours), np.float32)
    for m in range(cfg.meters):
        a, b, c = rng.uniform(0.2, 1.0, 3)
        out[m] = 2.0 + a * np.roll(day, rng.integers(0, 6)) + b * week + c * year
        out[m] += 0.2 * rng.standard_normal(cfg.hours, dtype=np.float32)
    np.save(path, out)
    return path


class SlidingWindows(Dataset):
    """Every (meter, start hour) pair is one example."""

    def __init__(self, path, history, horizon):
        self.series = torch.from_numpy(np.load(path))
        self.history, self.horizon = history, horizon
        self.per_meter = self.series.shape[1] - history - horizon + 1

    def __len__(self):
        return self.series.shape[0] * self.per_meter

    def __getitem__(self, idx):
        m, s = divmod(idx, self.per_meter)
        w = self.series[m, s:s + self.history + self.horizon]
        return w[:self.history], w[self.history:]


class Block(nn.Module):
    def __init__(self, history, horizon, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(history, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
        )
        self.back = nn.Linear(width, history)
        self.fore = nn.Linear(width, horizon)

    def forward(self, x):
        h = self.body(x)
        return x - self.back(h), self.fore(h)


class NBeats(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.blocks = nn.ModuleList(Block(cfg.history, cfg.horizon, cfg.width) for _ in range(cfg.stacks))

    def forward(self, x):
        level = x[:, -1:]
        x, total = x - level, level
        for block in self.blocks:
            x, f = block(x)
            total = total + f
        return total


def smape(pred, target):
    return (200.0 * (pred - target).abs() / (pred.abs() + target.abs() + 1e-3)).mean()


def train(cfg):
    torch.manual_seed(cfg.seed)
    data = SlidingWindows(prepare(cfg), cfg.history, cfg.horizon)
    # there are far too many windows for full passes: an "epoch" is a fixed number of steps
    sampler = RandomSampler(data, num_samples=cfg.steps_per_epoch * cfg.batch_size)
    loader = DataLoader(data, batch_size=cfg.batch_size, sampler=sampler)
    model = NBeats(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.95)
    loss_fn = nn.HuberLoss()
    print(f"{len(data):,} windows, {sum(p.numel() for p in model.parameters()):,} parameters")

    for epoch in range(1, cfg.epochs + 1):
        started = time.time()
        running, err = 0.0, 0.0
        for past, future in loader:
            pred = model(past)
            loss = loss_fn(pred, future)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
            err += smape(pred.detach(), future).item()
        sched.step()
        print(f"epoch {epoch:3d}: huber {running / len(loader):.4f}  smape {err / len(loader):.2f}  "
              f"({time.time() - started:.1f}s)", flush=True)


if __name__ == "__main__":
    train(Cfg())
