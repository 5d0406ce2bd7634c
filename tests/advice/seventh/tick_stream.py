"""Volatility forecaster on an exchange feed.

The feed is replayed strictly in order from hourly segments in the archive
bucket; features carry state (EWMA) from one segment to the next, so there is
exactly one reader.
"""

import io
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_num_threads(1)

EPOCHS = int(os.environ.get("EPOCHS", 2))
SEGMENTS = 7
BATCHES_PER_SEGMENT = 56
BATCH = 64
LOOKBACK = 48
FIELDS = 6
BUCKET_LATENCY = 1.15  # seconds until the archive tier has handed out a segment


def write_archive(root):
    rng = np.random.default_rng(7)
    rows = BATCHES_PER_SEGMENT * BATCH + LOOKBACK
    for hour in range(SEGMENTS):
        vol = 0.5 + 0.4 * np.sin(np.arange(rows) / 300 + hour)
        ticks = rng.standard_normal((rows, FIELDS)) * vol[:, None]
        np.savez(os.path.join(root, f"{hour:02d}.npz"), ticks=ticks.astype(np.float32))


class ArchiveBucket:
    """Client of the (cold) archive tier; stands for the real one."""

    def __init__(self, root):
        self.root = root

    def get(self, key):
        time.sleep(BUCKET_LATENCY)
        with open(os.path.join(self.root, key), "rb") as f:
            return f.read()


class TickReplay(IterableDataset):
    """Yields ready batches: (BATCH, LOOKBACK, FIELDS) windows and the next realised volatility."""

    def __init__(self, bucket, keys, decay=0.97):
        self.bucket, self.keys, self.decay = bucket, keys, decay

    def __iter__(self):
        mean = np.zeros(FIELDS, dtype=np.float32)
        for key in self.keys:
            with np.load(io.BytesIO(self.bucket.get(key))) as segment:
                ticks = segment["ticks"]
            windows = np.lib.stride_tricks.sliding_window_view(ticks, LOOKBACK, axis=0)
            for first in range(0, BATCHES_PER_SEGMENT * BATCH, BATCH):
                chunk = windows[first : first + BATCH].transpose(0, 2, 1)
                mean = self.decay * mean + (1 - self.decay) * chunk[:, -1].mean(axis=0)
                future = ticks[first + LOOKBACK : first + LOOKBACK + BATCH]
                target = np.log(np.abs(future).mean(axis=1) + 1e-3)
                yield torch.from_numpy(chunk - mean), torch.from_numpy(target)


class Forecaster(nn.Module):
    def __init__(self, width=56):
        super().__init__()
        self.norm = nn.LayerNorm(FIELDS)
        self.gru = nn.GRU(FIELDS, width, num_layers=1, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, 2))

    def forward(self, x):
        _, state = self.gru(self.norm(x))
        return self.head(state[-1]).unbind(-1)


def gaussian_nll(mean, log_scale, target):
    log_scale = log_scale.clamp(-4, 4)
    return (0.5 * ((target - mean) / log_scale.exp()) ** 2 + log_scale).mean()


class EmaWeights:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for key, value in model.state_dict().items():
            self.shadow[key].lerp_(value, 1 - self.decay)


def run(root):
    write_archive(root)
    keys = sorted(os.listdir(root))
    loader = DataLoader(TickReplay(ArchiveBucket(root), keys), batch_size=None, num_workers=1, persistent_workers=True)
    model = Forecaster()
    ema = EmaWeights(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        losses, started = [], time.perf_counter()
        for windows, target in loader:
            mean, log_scale = model(windows)
            loss = gaussian_nll(mean, log_scale, target)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            ema.update(model)
            losses.append(loss.item())
        rate = len(losses) / (time.perf_counter() - started)
        print(
            f"replay {epoch}  nll {np.mean(losses):.4f}  last hour {np.mean(losses[-BATCHES_PER_SEGMENT:]):.4f}"
            f"  {rate:.1f} batches/s",
            flush=True,
        )


if __name__ == "__main__":
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory(prefix="ticks_") as root:
        run(root)
