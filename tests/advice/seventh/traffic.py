"""Traffic flow forecasting: attention over a day of sensor readings, next two hours out."""

import csv
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
EPOCHS = int(os.environ.get("EPOCHS", 4))

SENSORS, DAYS, PER_DAY = 24, 40, 96
HISTORY, HORIZON = 96, 8
SAMPLES = 1600


def write_readings(path):
    rng = np.random.default_rng(4)
    steps = np.arange(DAYS * PER_DAY)
    phase = rng.uniform(0, 1, SENSORS)
    flow = 200 + 120 * np.sin(2 * np.pi * (steps[:, None] / PER_DAY + phase)) + rng.normal(0, 15, (len(steps), SENSORS))
    with open(path, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["step"] + [f"s{i}" for i in range(SENSORS)])
        for step, row in zip(steps, flow):
            writer.writerow([step] + [f"{v:.1f}" for v in row])


def read_readings(path):
    with open(path, newline="") as f:
        reader = csv.reader(f)
        next(reader)
        return np.array([[float(v) for v in row[1:]] for row in reader], dtype=np.float32)


class Flow(Dataset):
    """Random windows of the training days; readings drop out as the real sensors do."""

    def __init__(self, flow, last, dropout=0.05):
        self.flow, self.last, self.dropout = flow, last, dropout
        self.mean, self.std = flow[:last].mean(0), flow[:last].std(0)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        rng = np.random.default_rng(int(torch.randint(2**31, (1,))))
        start = rng.integers(0, self.last - HISTORY - HORIZON)
        window = (self.flow[start : start + HISTORY + HORIZON] - self.mean) / self.std
        past, future = window[:HISTORY], window[HISTORY:]
        gaps = rng.random(past.shape) < self.dropout
        past = np.where(gaps, 0.0, past).astype(np.float32)
        angle = 2 * np.pi * ((start + np.arange(HISTORY)) % PER_DAY) / PER_DAY
        clock = np.stack([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)
        return np.concatenate([past, gaps.astype(np.float32), clock], axis=1), future


class Forecaster(nn.Module):
    def __init__(self, width=64, layers=2):
        super().__init__()
        self.inp = nn.Linear(2 * SENSORS + 2, width)
        self.place = nn.Parameter(torch.randn(HISTORY, width) * 0.02)
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, HORIZON * SENSORS)

    def forward(self, x):
        h = self.body(self.inp(x) + self.place)
        return self.out(h[:, -8:].mean(1)).view(-1, HORIZON, SENSORS)


def validation_windows(data, flow):
    starts = range(data.last, len(flow) - HISTORY - HORIZON, 24)
    scaled = (flow - data.mean) / data.std
    angle = 2 * np.pi * (np.arange(len(flow)) % PER_DAY) / PER_DAY
    full = np.concatenate([scaled, np.zeros_like(scaled), np.sin(angle)[:, None], np.cos(angle)[:, None]], 1)
    x = np.stack([full[s : s + HISTORY] for s in starts]).astype(np.float32)
    y = np.stack([scaled[s + HISTORY : s + HISTORY + HORIZON] for s in starts])
    return torch.from_numpy(x), torch.from_numpy(y)


def main():
    torch.manual_seed(8)
    with tempfile.TemporaryDirectory(prefix="traffic_") as folder:
        path = os.path.join(folder, "readings.csv")
        write_readings(path)
        flow = read_readings(path)
    data = Flow(flow, last=32 * PER_DAY)
    loader = DataLoader(data, batch_size=32, num_workers=1, persistent_workers=True)
    valid_x, valid_y = validation_windows(data, flow)

    model = Forecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, total_iters=len(loader))
    for epoch in range(EPOCHS):
        model.train()
        total = torch.zeros(())
        for x, y in loader:
            loss = nn.functional.huber_loss(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            total += loss.detach()
        model.eval()
        with torch.no_grad():
            mae = (model(valid_x) - valid_y).abs().mean().item()
        print(f"epoch {epoch}: huber {total.item() / len(loader):.4f}  mae {mae:.4f}", flush=True)


if __name__ == "__main__":
    main()
