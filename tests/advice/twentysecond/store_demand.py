# Daily demand per (store, item): 14 days ahead from 56 days of history.
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HISTORY, HORIZON = 56, 14
N_SERIES, N_DAYS = 1000, 730
EPOCHS = int(os.environ.get("EPOCHS", 4))
PANEL = Path(__file__).parent / "data" / "store_demand" / "panel.parquet"

WORKERS = dict(num_workers=2, multiprocessing_context="spawn")   # pyarrow keeps threads: no fork


def build_panel(path: Path) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2)
    day = np.arange(N_DAYS)
    level = rng.gamma(3.0, 8.0, (N_SERIES, 1))
    week = 1 + 0.4 * np.sin(2 * np.pi * (day + rng.integers(0, 7, (N_SERIES, 1))) / 7)
    year = 1 + 0.2 * np.cos(2 * np.pi * day / 365)
    promo = rng.random((N_SERIES, N_DAYS)) < 0.06
    units = rng.poisson(level * week * year * (1 + 0.8 * promo))
    df = pd.DataFrame({
        "series": np.repeat(np.arange(N_SERIES, dtype=np.int32), N_DAYS),
        "date": np.tile(pd.date_range("2022-01-01", periods=N_DAYS), N_SERIES),
        "units": units.ravel().astype(np.float32),
        "promo": promo.ravel(),
    })
    part = path.with_suffix(f".{os.getpid()}.part")
    df.to_parquet(part)
    part.replace(path)


def load_panel(path: Path):
    df = pd.read_parquet(path).sort_values(["series", "date"])
    units = df["units"].to_numpy().reshape(N_SERIES, N_DAYS)
    promo = df["promo"].to_numpy().reshape(N_SERIES, N_DAYS).astype(np.float32)
    dates = pd.DatetimeIndex(df["date"].iloc[:N_DAYS])
    calendar = np.stack([
        np.sin(2 * np.pi * dates.day_of_week / 7), np.cos(2 * np.pi * dates.day_of_week / 7),
        np.sin(2 * np.pi * dates.day_of_year / 365), np.cos(2 * np.pi * dates.day_of_year / 365),
    ], axis=1).astype(np.float32)
    return units, promo, calendar


class Windows(Dataset):
    def __init__(self, units, promo, calendar, first, last, stride):
        self.units, self.promo, self.calendar = units, promo, calendar
        starts = np.arange(first, last - HISTORY - HORIZON, stride)
        self.index = [(s, int(t)) for s in range(len(units)) for t in starts]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        s, t = self.index[i]
        span = slice(t, t + HISTORY + HORIZON)
        y = np.log1p(self.units[s, span])
        past = y[:HISTORY]
        mean, std = past.mean(), past.std() + 0.1
        y = (y - mean) / std
        trend = np.polyfit(np.arange(28), y[HISTORY - 28:HISTORY], 1)
        weekday = y[:HISTORY].reshape(-1, 7)
        profile = np.concatenate([np.median(weekday, 0), weekday.max(0), trend])
        hist = np.column_stack([y[:HISTORY], self.promo[s, t:t + HISTORY],
                                self.calendar[t:t + HISTORY]])
        ahead = np.column_stack([self.promo[s, span][HISTORY:], self.calendar[span][HISTORY:]])
        return (hist.astype(np.float32), ahead.astype(np.float32), profile.astype(np.float32),
                y[HISTORY:].astype(np.float32))


class TempConv(nn.Module):
    def __init__(self, ch=32):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv1d(6, ch, 7, padding=3), nn.ReLU(),
                                 nn.Conv1d(ch, 2 * ch, 7, stride=7), nn.ReLU(), nn.Flatten())
        width = 2 * ch * HISTORY // 7 + 16 + HORIZON * 5
        self.out = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, HORIZON))

    def forward(self, hist, ahead, profile):
        past = self.enc(hist.transpose(1, 2))
        return self.out(torch.cat([past, profile, ahead.flatten(1)], dim=1))


def run_epoch(model, loader, opt=None):
    losses = []
    with torch.set_grad_enabled(opt is not None):
        for hist, ahead, profile, target in loader:
            loss = nn.functional.smooth_l1_loss(model(hist, ahead, profile), target)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            losses.append(loss.item())
    return float(np.mean(losses))


def main():
    torch.manual_seed(7)
    build_panel(PANEL)
    panel = load_panel(PANEL)
    train = DataLoader(Windows(*panel, 0, 600, stride=28), batch_size=128, shuffle=True, **WORKERS)
    valid = DataLoader(Windows(*panel, 540, N_DAYS, stride=28), batch_size=256)
    model = TempConv()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        tic = time.perf_counter()
        tr, va = run_epoch(model, train, opt), run_epoch(model, valid)
        print(f"epoch {epoch + 1:2d}  train {tr:.4f}  valid {va:.4f}  {time.perf_counter() - tic:.1f}s", flush=True)


if __name__ == "__main__":
    main()
