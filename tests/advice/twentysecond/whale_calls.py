"""Detect and classify baleen whale calls in long hydrophone deployments.

Every deployment is one WAV file; an annotation table lists onset and call type.
"""
import csv
import os
import shutil
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from scipy.io import wavfile
from torch.utils.data import DataLoader, Dataset

SR = 16_000
CLIP_SEC = 2.0
N_FFT, HOP = 512, 160
CALLS = ["noise", "blue_D", "fin_20Hz", "humpback", "minke"]
EPOCHS = int(os.environ.get("EPOCHS", 5))
DATA = Path(__file__).parent / "data" / "hydrophones"


def synth_call(kind, rng):
    t = np.arange(int(1.2 * SR)) / SR
    f0 = [0, 300, 600, 1200, 2400][kind] * rng.uniform(0.9, 1.1)
    sweep = f0 * t + rng.uniform(-150, 250) * t ** 2
    return (np.hanning(len(t)) * np.sin(2 * np.pi * sweep) * 2500 * (kind > 0)).astype(np.int16)


def prepare():
    if DATA.exists():
        return
    tmp = DATA.with_name(f"{DATA.name}.{os.getpid()}")
    tmp.mkdir(parents=True)
    rng = np.random.default_rng(11)
    rows = []
    for dep in range(4):
        audio = (rng.standard_normal(1500 * SR, dtype=np.float32) * 900).astype(np.int16)
        for onset in rng.uniform(2, 1495, size=225):
            kind = int(rng.integers(len(CALLS)))
            call = synth_call(kind, rng)
            a = int(onset * SR)
            audio[a:a + len(call)] += call
            rows.append([f"dep{dep:02d}.wav", f"{onset:.3f}", CALLS[kind]])
        wavfile.write(tmp / f"dep{dep:02d}.wav", SR, audio)
    with open(tmp / "annotations.csv", "w", newline="") as fh:
        csv.writer(fh).writerows(rows)
    try:
        tmp.rename(DATA)
    except OSError:
        shutil.rmtree(tmp)


class HydrophoneClips(Dataset):
    def __init__(self, root, train=True):
        self.root, self.train = root, train
        with open(root / "annotations.csv", newline="") as fh:
            rows = list(csv.reader(fh))
        self.rows = [r for i, r in enumerate(rows) if (i % 6 != 0) == train]
        self.window = torch.hann_window(N_FFT)
        self.n = int(CLIP_SEC * SR)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        name, onset, label = self.rows[i]
        rate, audio = wavfile.read(self.root / name)
        jitter = float(torch.rand(1)) * 0.6 if self.train else 0.3
        start = max(0, int((float(onset) - jitter) * rate))
        clip = audio[start:start + self.n].astype(np.float32) / 32768.0
        clip = np.pad(clip, (0, self.n - len(clip)))
        spec = torch.stft(torch.from_numpy(clip), N_FFT, HOP, window=self.window, return_complex=True)
        logspec = torch.log1p(1000 * spec.abs()[:160])
        return logspec.sub_(logspec.mean()).unsqueeze(0), CALLS.index(label)


class CallNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        layers, c = [], 1
        for w in (width, width * 2, width * 4):
            layers += [nn.Conv2d(c, w, 3, stride=2, padding=1), nn.BatchNorm2d(w), nn.ReLU()]
            c = w
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(c, len(CALLS))

    def forward(self, x):
        return self.head(self.body(x))


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    hit = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    net.train()
    return hit / len(loader.dataset)


def main():
    torch.manual_seed(3)
    prepare()
    kw = dict(batch_size=25, num_workers=2, persistent_workers=True)
    train = DataLoader(HydrophoneClips(DATA), shuffle=True, **kw)
    held = DataLoader(HydrophoneClips(DATA, train=False), **kw)
    net = CallNet()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        t0, total = time.time(), 0.0
        for x, y in train:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch}: loss {total / len(train.dataset):.3f} "
              f"held-out acc {accuracy(net, held):.3f} ({time.time() - t0:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
