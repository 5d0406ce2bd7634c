"""Bird call recognition: clips are cleaned, cut at random and classified. Plain script."""

import os
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, random_split

torch.set_num_threads(1)
RATE, SECONDS = 8000, 4
passes = int(os.environ.get("EPOCHS", 14))
folder = os.path.join(os.environ.get("DATA_DIR", "/tmp/pipebench-fourth"), "birds")


def record(n=140):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(7)
    for k in range(n):
        f = os.path.join(folder, f"{k}.npy")
        if not os.path.exists(f):
            t = np.arange(RATE * SECONDS) / RATE
            call = np.sin(2 * np.pi * (800 + 40 * (k % 8)) * t) + rng.normal(0, 0.6, t.size)
            np.save(f, (call * 6000).astype(np.int16))
    return n


class Calls(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def clean(self, k):
        """Spectral gating against the recording's own noise floor."""
        x = np.load(os.path.join(folder, f"{k}.npy")).astype(np.float32) / 32768
        frames = np.lib.stride_tricks.sliding_window_view(x, 512)[::48] * np.hanning(512)
        power = np.abs(np.fft.rfft(frames, axis=1))
        floor = np.median(power, axis=0)
        return np.log1p(np.maximum(power - floor, 0)).astype(np.float32)

    def __getitem__(self, k):
        spec = self.clean(k)
        at = int(torch.randint(0, len(spec) - 128, ()))
        cut = torch.from_numpy(spec[at : at + 128].copy())
        f0 = int(torch.randint(0, 240, ()))
        cut[:, f0 : f0 + 12] = 0
        return cut, k % 8


class Edge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.010)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        time.sleep(0.014)
        return g


class Cnn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.c = torch.nn.Conv1d(257, 8, 3, stride=4)
        self.o = torch.nn.Linear(8, 8)

    def forward(self, s):
        return Edge.apply(self.o(self.c(s.transpose(1, 2)).relu().mean(-1)))


if __name__ == "__main__":
    calls = Calls(record())
    train_set, val_set = random_split(calls, [120, 20], torch.Generator().manual_seed(0))
    train = DataLoader(train_set, 8, shuffle=True, num_workers=2, persistent_workers=True)
    val = DataLoader(val_set, 10)
    net = Cnn()
    opt = torch.optim.RMSprop(net.parameters(), 1e-3)
    for p in range(passes):
        for s, y in train:
            loss = torch.nn.functional.cross_entropy(net(s), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        with torch.no_grad():
            hit = sum(int((net(s).argmax(1) == y).sum()) for s, y in val)
        print("pass", p, "train", round(loss.item(), 3), "val", hit, flush=True)
