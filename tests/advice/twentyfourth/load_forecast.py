"""Day-ahead load forecast for a distribution feeder from smart meter and weather records."""
import argparse
import os
import time

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "load_forecast")
TABLE = os.path.join(ROOT, "feeder_07.parquet")
FEATURES = ["load_kw", "temp_c", "irradiance", "wind_ms", "hour_sin", "hour_cos", "is_weekend"]
HISTORY = 96
HORIZON = 24


def make_data():
    if os.path.exists(TABLE):
        return
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(5)
    stamps = pd.date_range("2021-01-01", periods=24 * 365 * 2, freq="h")
    hour = stamps.hour.to_numpy()
    season = np.sin(2 * np.pi * (stamps.day_of_year.to_numpy() - 110) / 365)
    temp = 10 + 9 * season + 4 * np.sin(2 * np.pi * (hour - 9) / 24) + rng.normal(0, 1.5, len(stamps))
    sun = np.clip(np.sin(2 * np.pi * (hour - 6) / 24), 0, None) * (500 + 300 * season)
    weekend = (stamps.day_of_week >= 5).astype(np.int8)
    load = 900 + 220 * np.sin(2 * np.pi * (hour - 12) / 24) - 120 * weekend + 14 * np.abs(temp - 16)
    frame = pd.DataFrame({
        "timestamp": stamps,
        "feeder": "F07",
        "load_kw": load + rng.normal(0, 25, len(stamps)),
        "temp_c": temp,
        "irradiance": sun * rng.uniform(0.4, 1.0, len(stamps)),
        "wind_ms": rng.gamma(2.0, 2.2, len(stamps)),
        "is_weekend": weekend,
    })
    frame.to_parquet(TABLE + ".tmp")
    os.replace(TABLE + ".tmp", TABLE)


def read_table(path):
    frame = pd.read_parquet(path).sort_values("timestamp").reset_index(drop=True)
    hour = frame["timestamp"].dt.hour
    frame["hour_sin"] = np.sin(2 * np.pi * hour / 24)
    frame["hour_cos"] = np.cos(2 * np.pi * hour / 24)
    for column in ["load_kw", "temp_c", "irradiance", "wind_ms"]:
        frame[column] = (frame[column] - frame[column].mean()) / frame[column].std()
    return frame


class LoadWindows(Dataset):
    def __init__(self, frame, history, horizon, step=1):
        self.frame = frame
        self.history = history
        self.horizon = horizon
        self.starts = list(range(0, len(frame) - history - horizon, step))

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        start = self.starts[index]
        split = start + self.history
        past = self.frame.iloc[start:split][FEATURES].to_numpy(dtype=np.float32)
        future = self.frame.iloc[split:split + self.horizon]["load_kw"].to_numpy(dtype=np.float32)
        return torch.from_numpy(past.copy()), torch.from_numpy(future.copy())


class Forecaster(nn.Module):
    def __init__(self, features, horizon, width=48):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(features, width, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 3, stride=2, padding=1), nn.GELU(),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(width * HISTORY // 8, 128), nn.GELU(),
                                  nn.Linear(128, horizon))

    def forward(self, past):
        return self.head(self.conv(past.transpose(1, 2)))


def evaluate(model, loader, loss_fn):
    model.eval()
    losses = []
    with torch.no_grad():
        for past, future in loader:
            losses.append(loss_fn(model(past), future).item())
    return float(np.mean(losses))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.manual_seed(0)
    frame = read_table(TABLE)
    cut = int(len(frame) * 0.9)
    train = LoadWindows(frame.iloc[:cut].reset_index(drop=True), HISTORY, HORIZON, step=2)
    valid = LoadWindows(frame.iloc[cut:].reset_index(drop=True), HISTORY, HORIZON, step=6)
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=256)

    model = Forecaster(len(FEATURES), HORIZON)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loss_fn = nn.HuberLoss()
    for epoch in range(args.epochs):
        start, running = time.time(), 0.0
        model.train()
        for past, future in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(past), future)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
        val = evaluate(model, valid_loader, loss_fn)
        print(f"epoch {epoch + 1} train {running / len(train_loader):.5f} valid {val:.5f} {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
