#!/usr/bin/env python
"""Dialect identification on short speech clips with simulated rooms."""
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 8000
CLIP = RATE
N_FFT = 256
HOP = 80


def synth_speech(n, seed=5):
    rng = np.random.default_rng(seed)
    t = np.arange(CLIP, dtype=np.float32) / RATE
    labels = rng.integers(0, 5, n)
    clips = np.empty((n, CLIP), dtype=np.float32)
    for i, lab in enumerate(labels):
        f0 = 110 + 18 * lab + rng.normal(0, 6)
        glide = 1 + 0.1 * np.sin(2 * np.pi * (1.5 + lab * 0.4) * t)
        clips[i] = np.sin(2 * np.pi * f0 * glide * t) + 0.4 * np.sin(4 * np.pi * f0 * glide * t)
        clips[i] += rng.normal(0, 0.1, CLIP)
    return clips, labels


def image_source_rooms(n_rooms, seed=17, order=7, length=2048):
    """Impulse responses of shoebox rooms by the image-source method."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(-order, order + 1)] * 3, indexing="ij"), -1).reshape(-1, 3)
    bounces = np.abs(grid).sum(1)
    rooms = np.zeros((n_rooms, length), dtype=np.float32)
    for r in range(n_rooms):
        dims = rng.uniform(2.5, 9.0, 3)
        src, mic = rng.uniform(0.2, 0.8, (2, 3)) * dims
        pos = np.where(grid % 2 == 0, grid * dims + src, (grid + 1) * dims - src)
        dist = np.linalg.norm(pos - mic, axis=1)
        tap = (dist / 343.0 * RATE).astype(np.int64)
        gain = rng.uniform(0.6, 0.85) ** bounces / np.maximum(dist, 0.3)
        keep = tap < length
        np.add.at(rooms[r], tap[keep], gain[keep])
    return rooms / np.abs(rooms).max(1, keepdims=True)


class Clips(Dataset):
    def __init__(self, n, n_rooms=2500):
        self.clips, self.labels = synth_speech(n)
        self.n_rooms = n_rooms
        self._rooms = None
        self.window = torch.hann_window(N_FFT)

    @property
    def rooms(self):
        if self._rooms is None:
            self._rooms = image_source_rooms(self.n_rooms)
        return self._rooms

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        room = self.rooms[torch.randint(self.n_rooms, ()).item()]
        size = CLIP + len(room)
        wet = np.fft.irfft(np.fft.rfft(self.clips[i], size) * np.fft.rfft(room, size), size)[:CLIP]
        wet = torch.from_numpy(wet.astype(np.float32))
        spec = torch.stft(wet, N_FFT, HOP, window=self.window, return_complex=True).abs()
        return torch.log1p(spec), int(self.labels[i])


class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs
        self.net = nn.Sequential(
            nn.Conv1d(N_FFT // 2 + 1, 128, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(128, 128, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
            nn.Flatten(), nn.Linear(128, 5))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=5e-4)
        self.loader = DataLoader(Clips(600), batch_size=24, shuffle=True, num_workers=2,
                                 prefetch_factor=4)

    def step(self, x, y):
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.epochs):
            t = time.time()
            losses = [self.step(x, y) for x, y in self.loader]
            print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f} in {time.time() - t:.1f}s")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(42)
    Trainer(int(os.environ.get("EPOCHS", 6))).fit()
