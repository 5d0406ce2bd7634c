"""Day-ahead load forecasting from smart-meter files, streamed per feeder."""
import glob
import os
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 3))
CONTEXT = 96 * 2      # two days of quarter hours
HORIZON = 96
STRIDE = 8
READ_MS = 3.0         # per window, from the historian

# feeders in the city have years of history, the rural ones were fitted last spring
FEEDERS = {"city": 4, "rural": 12}


def write_feeder(path, n_windows, rng):
    n = CONTEXT + HORIZON + STRIDE * (n_windows - 1)
    t = np.arange(n)
    load = 40 + 15 * np.sin(2 * np.pi * t / 96 - 1) + 4 * np.sin(2 * np.pi * t / 672)
    load = load * rng.uniform(0.8, 1.2) + rng.normal(0, 2, n)
    np.save(path, load.astype(np.float32))


def build_archive(root):
    rng = np.random.default_rng(99)
    for area, count in FEEDERS.items():
        for k in range(count):
            n = 576 if area == "city" else 48
            write_feeder(os.path.join(root, f"{area}_{k:02d}.npy"), n, rng)


class FeederStream(IterableDataset):
    def __init__(self, root, seed=0):
        self.files = sorted(glob.glob(os.path.join(root, "*.npy")))
        self.seed = seed

    def my_files(self):
        info = get_worker_info()
        if info is None:
            return self.files
        per_worker = -(-len(self.files) // info.num_workers)
        first = info.id * per_worker
        return self.files[first:first + per_worker]

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        for path in self.my_files():
            series = np.load(path)
            mean, std = series.mean(), series.std()
            starts = np.arange(0, len(series) - CONTEXT - HORIZON + 1, STRIDE)
            rng.shuffle(starts)
            for s in starts:
                time.sleep(READ_MS / 1000)
                window = (series[s:s + CONTEXT + HORIZON] - mean) / std
                hour = np.sin(2 * np.pi * (s + np.arange(CONTEXT)) / 96)
                x = np.stack([window[:CONTEXT], hour]).astype(np.float32)
                yield torch.from_numpy(x), torch.from_numpy(window[CONTEXT:])


class TCN(nn.Module):
    def __init__(self, channels=32, levels=5):
        super().__init__()
        layers, c = [], 2
        for i in range(levels):
            d = 2 ** i
            layers += [nn.Conv1d(c, channels, 3, dilation=d, padding=d), nn.GELU()]
            c = channels
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(channels * 2, HORIZON)

    def forward(self, x):
        h = self.body(x)
        return self.head(torch.cat([h.mean(-1), h[..., -1]], dim=1))


def main():
    torch.manual_seed(99)
    torch.set_num_threads(1)
    root = tempfile.mkdtemp(prefix="feeders_")
    build_archive(root)
    stream = FeederStream(root)
    loader = DataLoader(stream, batch_size=32, num_workers=4, persistent_workers=True)

    model = TCN()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    huber = nn.SmoothL1Loss()

    for epoch in range(EPOCHS):
        t0 = time.time()
        err, n = 0.0, 0
        for x, y in loader:
            pred = model(x)
            loss = huber(pred, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            err += (pred.detach() - y).abs().sum().item()
            n += y.numel()
        print(f"epoch {epoch}  MAE {err / n:.4f}  windows {n // HORIZON}  {time.time() - t0:.1f} s", flush=True)

    shutil.rmtree(root)


if __name__ == "__main__":
    main()
