"""Day-ahead load forecast for substations: two-layer GRU over five days of hourly history."""
import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "grid_load"
STATIONS = 32
HOURS = 24 * 7 * 40
HISTORY, HORIZON = 120, 24


def make_data():
    if (DATA / "load.npy").exists():
        return
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(12)
    hour = np.arange(HOURS)
    outside = 10 + 9 * np.sin(2 * np.pi * hour / (24 * 365)) + 4 * np.sin(2 * np.pi * (hour - 9) / 24)
    outside += np.convolve(rng.normal(0, 1.5, HOURS), np.ones(12) / 3, mode="same")
    load = np.empty((STATIONS, HOURS), np.float32)
    for s in range(STATIONS):
        daily = np.interp(hour % 24, np.arange(25), np.append(d := rng.gamma(4, 1, 24), d[0]))
        weekend = np.where((hour // 24) % 7 >= 5, rng.uniform(0.6, 1.0), 1.0)
        heating = rng.uniform(0.1, 0.4) * np.maximum(0, 14 - outside)
        load[s] = rng.uniform(5, 40) * (daily * weekend + heating + rng.normal(0, 0.3, HOURS))
    np.save(DATA / "load.npy", load)
    np.save(DATA / "outside.npy", outside.astype(np.float32))


class WindowDataset(Dataset):
    """History and target windows, drawn at a stride from every station's series."""

    def __init__(self, begin, end, stride):
        load = np.load(DATA / "load.npy", mmap_mode="r")[:, begin:end]
        outside = np.load(DATA / "outside.npy")[begin:end]
        self.mean = load.mean(axis=1, keepdims=True)
        self.std = load.std(axis=1, keepdims=True)
        self.load = ((load - self.mean) / self.std).astype(np.float32)
        hour = np.arange(begin, end)
        self.shared = np.stack([
            (outside - 10) / 8,
            np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24),
            ((hour // 24) % 7 >= 5).astype(np.float64),
        ], axis=1).astype(np.float32)
        starts = range(0, end - begin - HISTORY - HORIZON, stride)
        self.windows = [(s, a) for s in range(STATIONS) for a in starts]

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, index):
        station, a = self.windows[index]
        b = a + HISTORY
        past = np.concatenate([self.load[station, a:b, None], self.shared[a:b]], axis=1)
        future = self.shared[b:b + HORIZON]
        target = self.load[station, b:b + HORIZON]
        return torch.from_numpy(past), torch.from_numpy(future), torch.from_numpy(target), station


class Forecaster(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.station = nn.Embedding(STATIONS, 8)
        self.encoder = nn.GRU(5 + 8, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.decoder = nn.GRU(4, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, past, future, station):
        who = self.station(station)[:, None].expand(-1, past.shape[1], -1)
        _, state = self.encoder(torch.cat([past, who], dim=2))
        steps, _ = self.decoder(future, state[-1:].contiguous())
        return self.out(steps).squeeze(2) + past[:, -HORIZON:, 0]


def evaluate(model, loader):
    model.eval()
    error = count = 0.0
    with torch.no_grad():
        for past, future, target, station in loader:
            error += (model(past, future, station) - target).abs().sum().item()
            count += target.numel()
    return error / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.set_num_threads(1)
    torch.manual_seed(6)
    split = int(HOURS * 0.85)
    train_set = WindowDataset(0, split, stride=60)
    val_set = WindowDataset(split, HOURS, stride=120)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=64)
    model = Forecaster()
    optimiser = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, args.epochs)

    for epoch in range(args.epochs):
        began = time.time()
        model.train()
        total = 0.0
        for past, future, target, station in train_loader:
            loss = F.smooth_l1_loss(model(past, future, station), target)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            total += loss.item()
        schedule.step()
        error = evaluate(model, val_loader)
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} val mae {error:.4f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
