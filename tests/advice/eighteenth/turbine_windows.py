"""Forecast turbine power from windows of SCADA signals archived by machine and month."""
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "turbine_windows")
EPOCHS = int(os.environ.get("EPOCHS", 6))
ARCHIVES = 20
ROWS = 32000
SIGNALS = 12
PAST, AHEAD = 192, 12
PER_ARCHIVE = 80


def write_archives():
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(5)
    t = np.arange(ROWS, dtype=np.float32)
    for k in range(ARCHIVES):
        path = os.path.join(ROOT, f"turbine_{k:02d}.npz")
        if os.path.exists(path):
            continue
        wind = 8 + 3 * np.sin(t / rng.uniform(90, 260)) + 0.05 * np.cumsum(rng.normal(0, 1, ROWS))
        wind = np.clip(wind, 0, 25)
        columns = [np.clip(wind, 3, 12) ** 3]
        for _ in range(SIGNALS - 1):
            columns.append(wind * rng.uniform(0.5, 2) + rng.normal(0, 0.4, ROWS))
        signals = np.round(np.stack(columns, 1), 1).astype(np.float32)
        tmp = path + f".{os.getpid()}.npz"
        np.savez_compressed(tmp, signals=signals)
        os.replace(tmp, path)


class TurbineWindows(Dataset):
    def __init__(self, root):
        self.paths = [os.path.join(root, f"turbine_{k:02d}.npz") for k in range(ARCHIVES)]
        self.stride = (ROWS - PAST - AHEAD) // PER_ARCHIVE
        self.open_key = None
        self.signals = None
        first = self.archive(0)
        self.mean, self.std = first.mean(0), first.std(0) + 1e-3

    def archive(self, key):
        if self.open_key != key:
            with np.load(self.paths[key]) as data:
                self.signals = data["signals"]
            self.open_key = key
        return self.signals

    def __len__(self):
        return len(self.paths) * PER_ARCHIVE

    def __getitem__(self, index):
        key, position = divmod(index, PER_ARCHIVE)
        signals = self.archive(key)
        start = position * self.stride + np.random.randint(self.stride)
        block = (signals[start:start + PAST + AHEAD] - self.mean) / self.std
        block = torch.from_numpy(block)
        return block[:PAST], block[PAST:, 0].clone()


class Forecaster(nn.Module):
    def __init__(self, hidden=80):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(SIGNALS, hidden, 7, stride=2, padding=3), nn.GELU(),
            nn.Conv1d(hidden, hidden, 5, stride=2, padding=2), nn.GELU())
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, AHEAD)

    def forward(self, x):
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


def main():
    torch.manual_seed(0)
    write_archives()
    dataset = TurbineWindows(ROOT)
    loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2,
                        prefetch_factor=4, persistent_workers=True)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.7)
    for epoch in range(EPOCHS):
        errors = []
        for past, future in loader:
            loss = nn.functional.l1_loss(model(past), future)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            errors.append(loss.item())
        if epoch < 20:
            schedule.step()
        print(f"epoch {epoch}: mae {np.mean(errors):.4f}", flush=True)


if __name__ == "__main__":
    main()
