"""Tremor detector on three-component seismograms stored as daily archives."""
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Subset


@dataclass
class Config:
    days: int = 30
    windows_per_day: int = 40
    samples: int = 2000
    batch_size: int = 40
    workers: int = 2
    lr: float = 2e-3
    epochs: int = int(os.environ.get("EPOCHS", 10))
    seed: int = 5


def write_archives(folder, cfg):
    rng = np.random.default_rng(cfg.seed)
    t = np.arange(cfg.samples, dtype=np.float32) / 100.0
    for day in range(cfg.days):
        label = rng.integers(0, 2, cfg.windows_per_day)
        wave = np.cumsum(rng.normal(0, 12, (cfg.windows_per_day, 3, cfg.samples)), axis=-1)
        burst = np.sin(2 * np.pi * rng.uniform(2, 6, (cfg.windows_per_day, 3, 1)) * t)
        burst *= np.exp(-((t - rng.uniform(6, 14, (cfg.windows_per_day, 1, 1))) / 2.5) ** 2)
        wave += label[:, None, None] * burst * 400
        np.savez_compressed(os.path.join(folder, f"day_{day:03d}.npz"),
                            wave=np.round(wave).astype(np.int32), label=label)


@lru_cache(maxsize=4)
def load_day(path):
    with np.load(path) as archive:
        return archive["wave"], archive["label"]


class Windows(Dataset):
    def __init__(self, folder, cfg):
        self.paths = sorted(os.path.join(folder, f) for f in os.listdir(folder))
        self.per_day = cfg.windows_per_day

    def __len__(self):
        return len(self.paths) * self.per_day

    def __getitem__(self, index):
        day, row = divmod(index, self.per_day)
        wave, label = load_day(self.paths[day])
        x = wave[row].astype(np.float32)
        x -= x.mean(axis=1, keepdims=True)
        x /= x.std(axis=1, keepdims=True) + 1e-6
        return torch.from_numpy(x), float(label[row])


class TremorNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        layers, cin = [], 3
        for cout, stride in ((width, 4), (width * 2, 2), (width * 2, 2), (width * 3, 2)):
            layers += [nn.Conv1d(cin, cout, 9, stride=stride, padding=4),
                       nn.BatchNorm1d(cout), nn.GELU()]
            cin = cout
        self.encoder = nn.Sequential(*layers)
        self.head = nn.Linear(cin, 1)

    def forward(self, x):
        return self.head(self.encoder(x).amax(-1)).squeeze(-1)


def run_epoch(model, loader, loss_fn, optimizer=None):
    model.train(optimizer is not None)
    loss_sum = right = count = 0
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in loader:
            y = y.float()
            logit = model(x)
            loss = loss_fn(logit, y)
            if optimizer is not None:
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
            loss_sum += loss.item() * len(y)
            right += ((logit > 0) == (y > 0.5)).sum().item()
            count += len(y)
    return loss_sum / count, right / count


def main():
    torch.set_num_threads(1)
    cfg = Config()
    torch.manual_seed(cfg.seed)
    folder = tempfile.mkdtemp(prefix="tremor_")
    try:
        write_archives(folder, cfg)
        windows = Windows(folder, cfg)
        cut = (cfg.days - 4) * cfg.windows_per_day
        train_loader = DataLoader(Subset(windows, range(cut)), cfg.batch_size, shuffle=True,
                                  num_workers=cfg.workers, persistent_workers=True)
        val_loader = DataLoader(Subset(windows, range(cut, len(windows))), cfg.batch_size,
                                num_workers=1, persistent_workers=True)
        model = TremorNet()
        loss_fn = nn.BCEWithLogitsLoss()
        optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
        for epoch in range(cfg.epochs):
            start = time.perf_counter()
            tr_loss, tr_acc = run_epoch(model, train_loader, loss_fn, optimizer)
            va_loss, va_acc = run_epoch(model, val_loader, loss_fn)
            print(f"{epoch:03d} train {tr_loss:.4f}/{tr_acc:.3f} val {va_loss:.4f}/{va_acc:.3f} "
                  f"[{time.perf_counter() - start:.1f} s]", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
