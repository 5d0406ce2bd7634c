"""Click-through model: hashed categorical fields + a few dense ones, positives oversampled."""

import os
import tempfile
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


@dataclass
class Config:
    rows: int = 2_000_000
    fields: int = 8
    dense: int = 6
    buckets: int = 20_000
    batch_size: int = 256
    steps: int = 150
    positive_share: float = 0.3
    num_workers: int = 2
    epochs: int = int(os.environ.get("EPOCHS", "6"))


def write_log(folder, cfg):
    rng = np.random.default_rng(11)
    ids = rng.integers(0, 2**31 - 1, (cfg.rows, cfg.fields), dtype=np.int32)
    dense = rng.standard_normal((cfg.rows, cfg.dense), dtype=np.float32)
    clicks = (dense[:, 0] + 0.7 * dense[:, 1] > 2.2).astype(np.int8)
    for name, array in (("ids", ids), ("dense", dense), ("clicks", clicks)):
        np.save(os.path.join(folder, name + ".npy"), array)


class ClickLog(Dataset):
    def __init__(self, folder, cfg):
        self.ids = np.load(os.path.join(folder, "ids.npy"), mmap_mode="r")
        self.dense = np.load(os.path.join(folder, "dense.npy"), mmap_mode="r")
        self.clicks = np.load(os.path.join(folder, "clicks.npy"), mmap_mode="r")
        self.buckets = cfg.buckets

    def __len__(self):
        return len(self.clicks)

    def __getitem__(self, i):
        ids = np.array(self.ids[i], dtype=np.int64) * 2654435761 % self.buckets
        dense = np.clip(np.array(self.dense[i]), -3.0, 3.0)
        return torch.from_numpy(ids), torch.from_numpy(dense), float(self.clicks[i])


class OversampledBatches(Sampler):
    """Batches of row numbers, clicks drawn more often than their share of the log."""

    def __init__(self, clicks, cfg):
        clicks = np.asarray(clicks)
        share = clicks.mean()
        p = np.where(clicks == 1, cfg.positive_share / share, (1 - cfg.positive_share) / (1 - share))
        self.p = p / p.sum()
        self.batch_size = cfg.batch_size
        self.steps = cfg.steps
        self.rng = np.random.default_rng(5)

    def __len__(self):
        return self.steps

    def __iter__(self):
        for _ in range(self.steps):
            yield self.rng.choice(len(self.p), size=self.batch_size, p=self.p).tolist()


class ClickModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.EmbeddingBag(cfg.buckets, 16, mode="sum")
        self.mlp = nn.Sequential(
            nn.Linear(16 + cfg.dense, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, ids, dense):
        return self.mlp(torch.cat([self.embed(ids), dense], 1)).squeeze(1)


def main():
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        write_log(folder, cfg)
        log = ClickLog(folder, cfg)
        batches = OversampledBatches(log.clicks, cfg)
        loader = DataLoader(
            log, batch_sampler=batches, num_workers=cfg.num_workers, persistent_workers=cfg.num_workers > 0
        )
        model = ClickModel(cfg)
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        criterion = nn.BCEWithLogitsLoss()
        for epoch in range(cfg.epochs):
            begun = time.time()
            losses = []
            for ids, dense, clicks in loader:
                loss = criterion(model(ids, dense), clicks.float())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            print(f"[{epoch + 1}/{cfg.epochs}] logloss {np.mean(losses):.4f} ({time.time() - begun:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
