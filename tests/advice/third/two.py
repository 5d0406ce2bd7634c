"""Keyword spotting: short clips, mixed with background noise, small 1-d convolution."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

WORDS = ["yes", "no", "stop", "go", "left", "right"]
RATE = 4000


@dataclass
class Settings:
    epochs: int
    batch: int
    loader_procs: int
    keep_procs: bool
    ahead: int
    lr: float


class Clips(Dataset):
    def __init__(self, size: int):
        self.size = size
        self.noise: np.ndarray | None = None

    def load_noise(self) -> None:
        """Fetch the noise recordings (street, cafe, rain) from the file server."""
        time.sleep(1.3)
        self.noise = np.random.default_rng(99).normal(0, 0.1, (8, RATE)).astype(np.float32)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int):
        if self.noise is None:
            self.load_noise()
        time.sleep(0.003)  # read one clip
        word = i % len(WORDS)
        t = np.arange(RATE, dtype=np.float32) / RATE
        wave = np.sin(2 * np.pi * (200 + 90 * word) * t) * 0.5
        wave += self.noise[i % len(self.noise)]
        return torch.from_numpy(wave).unsqueeze(0), word


def open_noise(_worker_id: int) -> None:
    get_worker_info().dataset.load_noise()


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, 8, 40, stride=20), nn.ReLU(), nn.AdaptiveMaxPool1d(4))
        self.head = nn.Linear(32, len(WORDS))

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


class Trainer:
    def __init__(self, cfg: Settings):
        self.cfg = cfg
        self.model = Spotter()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        extra = {}
        if cfg.loader_procs:
            extra = {"prefetch_factor": cfg.ahead, "persistent_workers": cfg.keep_procs}
        self.loader = DataLoader(
            Clips(36 * cfg.batch),
            batch_size=cfg.batch,
            shuffle=True,
            num_workers=cfg.loader_procs,
            worker_init_fn=open_noise,
            **extra,
        )

    def fit(self) -> float:
        t0 = time.perf_counter()
        for epoch in range(self.cfg.epochs):
            total = 0.0
            for wave, word in self.loader:
                loss = nn.functional.cross_entropy(self.model(wave), word)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                time.sleep(0.038)  # device
                total += float(loss.detach())
            print(f"epoch {epoch}: mean loss {total / len(self.loader):.3f}", flush=True)
        return time.perf_counter() - t0


def parse() -> Settings:
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--loader-procs", type=int, default=3)
    ap.add_argument("--keep-procs", action="store_true", help="keep the loader's processes between epochs")
    ap.add_argument("--ahead", type=int, default=2, help="batches each process loads ahead")
    ap.add_argument("--lr", type=float, default=1e-3)
    return Settings(**vars(ap.parse_args()))


if __name__ == "__main__":
    torch.manual_seed(0)
    seconds = Trainer(parse()).fit()
    print(f"trained for {seconds:.2f} s")
