"""Forecast of river levels: one day ahead from the last two days of all gauges upstream."""
import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "data" / "gauges"
GAUGES = 24
HOURS = 24000


def write_readings(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(31)
    rain = np.convolve(rng.gamma(0.05, 8.0, HOURS), np.exp(-np.arange(200) / 40), "full")[:HOURS]
    when = pd.date_range("2021-01-01", periods=HOURS, freq="h").strftime("%d.%m.%Y %H:%M").to_numpy()
    parts = []
    for g in range(GAUGES):
        level = 1 + 0.04 * np.roll(rain, g) * (1 + 0.1 * g) + 0.3 * np.sin(np.arange(HOURS) / 900) + rng.normal(0, 0.02, HOURS)
        keep = rng.random(HOURS) > 0.03
        parts.append(pd.DataFrame({"time": when[keep], "gauge": f"G{g:02d}", "level": level[keep].round(3)}))
    table = pd.concat(parts).sample(frac=1.0, random_state=2)
    table.to_csv(folder / "readings.csv", index=False)


class GaugeWindows(Dataset):
    """Windows over the long table of readings; each process opens the table on first access."""

    def __init__(self, path, hours, history=48, horizon=24, stride=8):
        self.path = path
        self.hours = hours
        self.history = history
        self.horizon = horizon
        self.stride = stride
        self.levels = None

    def _open(self):
        table = pd.read_csv(self.path)
        table["time"] = pd.to_datetime(table["time"], format="%d.%m.%Y %H:%M")
        wide = table.pivot(index="time", columns="gauge", values="level").sort_index()
        wide = wide.interpolate(limit_direction="both")
        wide = (wide - wide.mean()) / wide.std()
        self.levels = torch.from_numpy(wide.to_numpy(np.float32, copy=True))

    def __len__(self):
        return (self.hours - self.history - self.horizon) // self.stride

    def __getitem__(self, i):
        if self.levels is None:
            self._open()
        start = self.stride * i
        end = start + self.history
        return self.levels[start:end], self.levels[end + self.horizon - 1]


class Forecaster(nn.Module):
    def __init__(self, gauges, channels=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(gauges, channels, 5, padding=2), nn.GELU(),
            nn.Conv1d(channels, channels, 5, padding=4, dilation=2), nn.GELU())
        self.head = nn.Linear(channels * 2, gauges)

    def forward(self, x):
        h = self.conv(x.transpose(1, 2))
        return x[:, -1] + self.head(torch.cat([h[..., -1], h.mean(-1)], 1))


def get_loader(args):
    data = GaugeWindows(FOLDER / "readings.csv", HOURS)
    return DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True, num_workers=args.workers,
                      generator=torch.Generator().manual_seed(args.seed))


def train(args):
    torch.manual_seed(args.seed)
    loader = get_loader(args)
    model = Forecaster(GAUGES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        started = time.time()
        losses = []
        for history, target in loader:
            loss = nn.functional.smooth_l1_loss(model(history), target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch:02d} loss {torch.stack(losses).mean():.5f} in {time.time() - started:.2f} s", flush=True)


def cli():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=4)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = cli()
    if not (FOLDER / "readings.csv").exists():
        write_readings(FOLDER)
    train(arguments)
