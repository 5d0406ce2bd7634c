"""Forecast the power of a wind turbine from windows of SCADA signals kept in remote archives."""
import io
import os
import random
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = Path(os.environ.get("DATA_DIR", tempfile.gettempdir())) / "turbine_stream"
TURBINES = 16
WINDOWS_PER_TURBINE = 640
CHANNELS, STEPS = 6, 64
BATCH = 32
BUCKET_BYTES_PER_S = 1_100_000


def make_archives():
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(11)
    paths = []
    for turbine in range(TURBINES):
        path = ROOT / f"turbine_{turbine:02d}.npz"
        if not path.exists():
            phase = rng.uniform(0, 6.28, (WINDOWS_PER_TURBINE, CHANNELS, 1))
            speed = rng.uniform(0.05, 0.4, (WINDOWS_PER_TURBINE, CHANNELS, 1))
            t = np.arange(STEPS)[None, None]
            x = np.sin(phase + speed * t) + 0.2 * rng.standard_normal((WINDOWS_PER_TURBINE, CHANNELS, STEPS))
            y = np.sin(phase + speed * (STEPS + 4))[:, :3, 0].mean(1)
            np.savez(path, x=x.astype(np.float16), y=y.astype(np.float32))
        paths.append(path)
    return paths


def download(path):
    """Get one object from the bucket."""
    blob = path.read_bytes()
    time.sleep(len(blob) / BUCKET_BYTES_PER_S)
    return io.BytesIO(blob)


class TurbineWindows(IterableDataset):
    def __init__(self, archives, seed=0):
        self.archives = list(archives)
        self.seed = seed
        self.epoch = 0

    def __len__(self):
        return len(self.archives) * WINDOWS_PER_TURBINE

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        order = list(self.archives)
        random.Random(self.seed + self.epoch).shuffle(order)
        rng = np.random.default_rng([self.seed, self.epoch, worker])
        self.epoch += 1
        for path in order[worker::workers]:
            with np.load(download(path)) as archive:
                x, y = archive["x"], archive["y"]
            for i in rng.permutation(len(x)):
                window = x[i].astype(np.float32)
                window *= rng.uniform(0.95, 1.05)
                yield torch.from_numpy(window), torch.tensor(y[i])


class PowerNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(CHANNELS, width, 7, padding=3), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        )
        self.head = nn.Linear(2 * width, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    archives = make_archives()
    loader = DataLoader(
        TurbineWindows(archives),
        batch_size=BATCH,
        num_workers=2,
        persistent_workers=True,
        prefetch_factor=2,
        drop_last=True,
    )
    model = PowerNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.SmoothL1Loss()
    for epoch in range(EPOCHS):
        model.train()
        total, seen = 0.0, 0
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(y)
            seen += len(y)
        print(f"epoch {epoch}: loss {total / seen:.4f} over {seen} windows", flush=True)


if __name__ == "__main__":
    main()
