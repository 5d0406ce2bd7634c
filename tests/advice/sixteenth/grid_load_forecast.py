"""Day-ahead load forecasting for substations, trained from monthly extracts in object storage."""
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "grid_load_forecast")
MONTHS, WINDOWS = 7, 640
HISTORY, HORIZON, CHANNELS = 168, 24, 4
BATCH = 64


def make_extracts():
    os.makedirs(ROOT, exist_ok=True)
    if os.path.exists(os.path.join(ROOT, "done")):
        return
    rng = np.random.default_rng(3)
    for month in range(MONTHS):
        hours = np.arange(WINDOWS + HISTORY + HORIZON)
        load = 1 + 0.4 * np.sin(2 * np.pi * hours / 24 + month) + 0.2 * np.sin(2 * np.pi * hours / 168)
        temperature = 12 + 8 * np.sin(2 * np.pi * (hours - 6) / 24) + rng.normal(0, 1, len(hours))
        wind = np.abs(rng.normal(5, 2, len(hours)))
        price = 40 + 15 * load + rng.normal(0, 3, len(hours))
        load = load + 0.02 * (temperature - 12) + rng.normal(0, 0.05, len(hours))
        table = np.stack([load, temperature / 10, wind / 5, price / 50], axis=1)
        np.save(os.path.join(ROOT, f"month_{month:02d}.npy"), table.astype(np.float32))
    open(os.path.join(ROOT, "done"), "w").close()


class ObjectStore:
    """Stands in for the bucket client; a monthly extract is one GET."""

    def __init__(self, root, seconds_per_object=0.7):
        self.root = root
        self.seconds_per_object = seconds_per_object

    def keys(self):
        return sorted(k for k in os.listdir(self.root) if k.endswith(".npy"))

    def get(self, key):
        time.sleep(self.seconds_per_object)
        return np.load(os.path.join(self.root, key))


class LoadWindows(IterableDataset):
    def __init__(self, store, seed=0):
        self.store = store
        self.seed = seed
        self.epoch = 0

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        rng = np.random.default_rng([self.seed, self.epoch])
        self.epoch += 1
        keys = self.store.keys()
        rng.shuffle(keys)
        for key in keys[worker::workers]:
            table = self.store.get(key)
            for start in rng.permutation(WINDOWS):
                past = table[start:start + HISTORY]
                future = table[start + HISTORY:start + HISTORY + HORIZON, 0]
                yield torch.from_numpy(past), torch.from_numpy(future)


class Forecaster(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.inlet = nn.Conv1d(CHANNELS, width, 1)
        self.blocks = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 3, padding=2 ** i, dilation=2 ** i) for i in range(5)
        )
        self.outlet = nn.Sequential(nn.Linear(width * 7, 128), nn.ReLU(), nn.Linear(128, HORIZON))

    def forward(self, x):
        x = self.inlet(x.transpose(1, 2))
        for block in self.blocks:
            gate, value = block(x).chunk(2, dim=1)
            x = x + torch.sigmoid(gate) * torch.tanh(value)
        x = nn.functional.adaptive_avg_pool1d(x, 7)
        return self.outlet(x.flatten(1))


def pinball(prediction, target, quantile=0.55):
    error = target - prediction
    return torch.maximum(quantile * error, (quantile - 1) * error).mean()


def main():
    torch.manual_seed(0)
    make_extracts()
    dataset = LoadWindows(ObjectStore(ROOT))
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=1, persistent_workers=True, drop_last=True)
    model = Forecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
    for epoch in range(EPOCHS):
        began, running, steps = time.time(), 0.0, 0
        for past, future in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = pinball(model(past), future)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
            steps += 1
        schedule.step()
        print(f"epoch {epoch}: {steps} steps, pinball {running / steps:.4f} ({time.time() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
