"""P-wave picking on continuous three-component records, with event-weighted windows."""

import os
import tempfile
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

cfg = SimpleNamespace(
    length=1_500_000,
    stride=10,
    window=512,
    events=900,
    per_epoch=2048,
    batch=64,
    lr=1e-3,
    epochs=int(os.environ.get("EPOCHS", "5")),
    seed=4,
)


def synthesize(folder):
    rng = np.random.default_rng(cfg.seed)
    record = rng.standard_normal((3, cfg.length), dtype=np.float32)
    onsets = np.sort(rng.integers(2000, cfg.length - 2000, cfg.events))
    t = np.arange(400)
    for onset in onsets:
        burst = 6 * np.exp(-t / 90) * np.sin(t / rng.uniform(3, 9))
        record[:, onset : onset + 400] += burst.astype(np.float32) * rng.uniform(0.5, 1, (3, 1))
    np.save(os.path.join(folder, "record.npy"), record)
    np.save(os.path.join(folder, "onsets.npy"), onsets)


class Windows(Dataset):
    def __init__(self, folder):
        self.record = np.load(os.path.join(folder, "record.npy"), mmap_mode="r")
        self.onsets = np.load(os.path.join(folder, "onsets.npy"))
        self.starts = np.arange(0, cfg.length - cfg.window, cfg.stride)
        first = np.searchsorted(self.onsets, self.starts)
        following = self.onsets[np.minimum(first, len(self.onsets) - 1)]
        self.pick = following - self.starts
        self.has_event = (self.pick >= 0) & (self.pick < cfg.window)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        start = self.starts[i]
        x = np.array(self.record[:, start : start + cfg.window])
        x -= x.mean(axis=1, keepdims=True)
        x /= np.abs(x).max() + 1e-6
        target = np.zeros(cfg.window, dtype=np.float32)
        if self.has_event[i]:
            distance = np.arange(cfg.window) - self.pick[i]
            target = np.exp(-0.5 * (distance / 8.0) ** 2).astype(np.float32)
        return {"x": x, "y": target, "event": bool(self.has_event[i])}


class EventSampler(Sampler):
    """Draws windows with replacement; windows with an onset are preferred."""

    def __init__(self, has_event, count, ratio=12.0, seed=0):
        weight = np.where(has_event, ratio, 1.0)
        self.probability = weight / weight.sum()
        self.count = count
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.count

    def __iter__(self):
        population = len(self.probability)
        for _ in range(self.count):
            yield int(self.rng.choice(population, p=self.probability))


class PickNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.down1 = nn.Conv1d(3, c, 9, stride=2, padding=4)
        self.down2 = nn.Conv1d(c, 2 * c, 9, stride=2, padding=4)
        self.mid = nn.Conv1d(2 * c, 2 * c, 9, padding=4)
        self.up = nn.ConvTranspose1d(2 * c, c, 8, stride=4, padding=2)
        self.out = nn.Conv1d(c, 1, 5, padding=2)

    def forward(self, x):
        x = F.relu(self.down2(F.relu(self.down1(x))))
        x = F.relu(self.mid(x)) + x
        return self.out(F.relu(self.up(x))).squeeze(1)


def train(folder):
    data = Windows(folder)
    sampler = EventSampler(data.has_event, cfg.per_epoch, seed=cfg.seed)
    loader = DataLoader(data, batch_size=cfg.batch, sampler=sampler, num_workers=2, persistent_workers=True)
    net = PickNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        total, events = 0.0, 0
        for batch in loader:
            loss = F.binary_cross_entropy_with_logits(net(batch["x"]), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            events += int(batch["event"].sum())
        print(f"epoch {epoch + 1} loss {total / len(loader):.4f} events {events}/{cfg.per_epoch}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        synthesize(folder)
        train(folder)
