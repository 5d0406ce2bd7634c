"""Forecast significant wave height for a set of moored buoys."""
import csv
import os
import tempfile
from datetime import datetime, timedelta

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "buoy_forecast")
STATIONS = [f"44{n:03d}" for n in range(5, 17)]
ROWS = 30000
HISTORY, HORIZON, STRIDE = 96, 12, 90
FIELDS = ["wvht", "dpd", "wspd", "pres", "wtmp"]


def make_station_files():
    os.makedirs(ROOT, exist_ok=True)
    start = datetime(2019, 1, 1)
    stamps = [(start + timedelta(minutes=30 * i)).strftime("%Y-%m-%d %H:%M") for i in range(ROWS)]
    for number, station in enumerate(STATIONS):
        path = os.path.join(ROOT, station + ".csv")
        if os.path.exists(path):
            continue
        rng = np.random.default_rng(number)
        t = np.arange(ROWS)
        wind = 7 + 3 * np.sin(t / 170 + number) + rng.normal(0, 1, ROWS)
        waves = np.convolve(wind, np.ones(24) / 24, mode="same") * 0.25
        table = np.stack([waves, 6 + waves, wind, 1013 - 0.8 * wind, 14 + 4 * np.sin(t / 4000)], 1)
        missing = rng.random(ROWS) < 0.02
        with open(path + ".part", "w") as handle:
            handle.write("time," + ",".join(FIELDS) + "\n")
            for stamp, row, gap in zip(stamps, table.tolist(), missing):
                values = ["MM"] * 5 if gap else ["%.2f" % v for v in row]
                handle.write(stamp + "," + ",".join(values) + "\n")
        os.replace(path + ".part", path)


class Station:
    """Observations of one buoy with gaps filled and the time of day attached."""

    def __init__(self, path):
        rows, last = [], [0.0] * len(FIELDS)
        with open(path, newline="") as handle:
            for record in csv.DictReader(handle):
                when = datetime.strptime(record["time"], "%Y-%m-%d %H:%M")
                if record["wvht"] != "MM":
                    last = [float(record[name]) for name in FIELDS]
                angle = 2 * np.pi * (when.hour * 60 + when.minute) / 1440
                rows.append(last + [float(np.sin(angle)), float(np.cos(angle))])
        self.raw = np.asarray(rows, dtype=np.float32)
        self.values = (self.raw - self.raw.mean(0)) / (self.raw.std(0) + 1e-6)


class BuoyWindows(Dataset):
    def __init__(self, root, stations):
        self.root = root
        self.windows = [
            (station, first)
            for station in stations
            for first in range(0, ROWS - HISTORY - HORIZON, STRIDE)
        ]
        self._open = {}

    def station(self, name):
        if name not in self._open:
            self._open[name] = Station(os.path.join(self.root, name + ".csv"))
        return self._open[name]

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, index):
        name, first = self.windows[index]
        values = self.station(name).values
        split = first + HISTORY
        past = torch.from_numpy(values[first:split])
        future = torch.from_numpy(values[split:split + HORIZON, 0])
        return past, future


class Forecaster(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.encoder = nn.GRU(len(FIELDS) + 2, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, HORIZON))

    def forward(self, past):
        _, state = self.encoder(past)
        return self.head(state[-1])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    make_station_files()
    windows = BuoyWindows(ROOT, STATIONS)
    loader = DataLoader(windows, batch_size=64, shuffle=True, num_workers=2, drop_last=True)
    model = Forecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    criterion = nn.SmoothL1Loss()
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for past, future in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(past), future)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}", flush=True)


if __name__ == "__main__":
    main()
