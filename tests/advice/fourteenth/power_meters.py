import itertools
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 6))
HOUSEHOLDS = 48
HOURS = 24 * 60
HISTORY, HORIZON = 72, 12
BATCH = 128


def simulate_meters(seed=5):
    rng = np.random.default_rng(seed)
    hours = np.arange(HOURS)
    daily = 1 + 0.6 * np.sin(2 * np.pi * (hours - 7) / 24)
    weekly = 1 + 0.2 * np.sin(2 * np.pi * hours / 168)
    meters = []
    for _ in range(HOUSEHOLDS):
        load = daily * weekly * rng.uniform(0.3, 2.0) + rng.gamma(1.2, 0.15, HOURS)
        temperature = 12 + 8 * np.sin(2 * np.pi * (hours - 9) / 24) + rng.normal(0, 1.5, HOURS)
        calendar = (hours // 24 % 7 >= 5).astype(np.float32)
        series = np.stack([load, temperature / 10, calendar], 1).astype(np.float32)
        for start in rng.integers(0, HOURS, 3):
            series[start:start + rng.integers(2, 10), 0] = np.nan
        meters.append(series)
    return meters


class MeterWindows(IterableDataset):
    """Streams (history, future load) windows; windows with gaps in the readings are left out."""

    def __init__(self, meters, stride=8, buffer=512, seed=0):
        self.meters, self.stride, self.buffer = meters, stride, buffer
        self.seed = seed

    def windows(self, meters):
        for series in meters:
            for start in range(0, len(series) - HISTORY - HORIZON, self.stride):
                window = series[start:start + HISTORY + HORIZON]
                if np.isnan(window[:, 0]).any():
                    continue
                yield window[:HISTORY].copy(), window[HISTORY:, 0].copy()

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        rng = np.random.default_rng([self.seed, torch.initial_seed() % 2**31])
        mine = self.meters[worker::workers]
        order = rng.permutation(len(mine))
        held = []
        for pair in self.windows(mine[i] for i in order):
            if len(held) < self.buffer:
                held.append(pair)
                continue
            swap = rng.integers(len(held))
            held[swap], pair = pair, held[swap]
            yield pair
        for i in rng.permutation(len(held)):
            yield held[i]


def group(stream, size):
    stream = iter(stream)
    while chunk := list(itertools.islice(stream, size)):
        history, future = zip(*chunk)
        yield torch.stack(history), torch.stack(future)


class Forecaster(nn.Module):
    def __init__(self, channels=3, width=24):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv1d(channels, width, 5, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.GELU(),
        )
        self.head = nn.Linear(width * HISTORY // 4, HORIZON)

    def forward(self, history):
        features = self.encode(history.transpose(1, 2))
        return self.head(features.flatten(1))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dataset = MeterWindows(simulate_meters())
    loader = DataLoader(dataset, batch_size=None, num_workers=2, prefetch_factor=16,
                        persistent_workers=True)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.SmoothL1Loss()

    for epoch in range(EPOCHS):
        began = time.perf_counter()
        model.train()
        total, count = 0.0, 0
        for history, future in group(loader, BATCH):
            prediction = model(history)
            loss = criterion(prediction, future)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(future)
            count += len(future)
        print(f"epoch {epoch}: {count} windows, loss {total / count:.4f}, "
              f"{time.perf_counter() - began:.1f}s", flush=True)


if __name__ == "__main__":
    main()
