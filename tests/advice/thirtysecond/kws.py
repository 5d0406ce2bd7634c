# Keyword spotting, exported from notebook kws_baseline.ipynb
# coding: utf-8

# %% imports and settings
import argparse
import os
import sqlite3
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="data/kws")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--per-epoch", type=int, default=1600)
opt = parser.parse_args()

SR = 4000
CLIP = 1960
WORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
N_SPEAKERS = 140
TAKES = 50
DB = os.path.join(opt.data, "corpus.sqlite")

torch.manual_seed(11)
np.random.seed(11)


# %% recording session -> one database file
def synth(rng, word, pitch):
    t = np.arange(CLIP) / SR
    f0 = pitch * (1 + 0.12 * word)
    sweep = f0 * t + (word - 3.5) * 90 * t * t
    env = np.exp(-((t - 0.22 - 0.02 * rng.standard_normal()) ** 2) / 0.012)
    wave = env * (np.sin(2 * np.pi * sweep) + 0.5 * np.sin(4 * np.pi * sweep + word))
    wave += 0.25 * rng.standard_normal(CLIP)
    return (wave * 6000).clip(-32768, 32767).astype("<i2")


if not os.path.exists(DB):
    os.makedirs(opt.data, exist_ok=True)
    rng = np.random.default_rng(5)
    tmp = DB + ".part"
    if os.path.exists(tmp):
        os.remove(tmp)
    con = sqlite3.connect(tmp)
    con.execute("CREATE TABLE clips (speaker TEXT, take INTEGER, word INTEGER, pcm BLOB)")
    rows = []
    for s in range(N_SPEAKERS):
        pitch = rng.uniform(180, 420)
        for k in range(TAKES):
            w = int(rng.integers(len(WORDS)))
            rows.append((f"spk{s:04d}", k, w, synth(rng, w, pitch).tobytes()))
    order = rng.permutation(len(rows))
    con.executemany("INSERT INTO clips VALUES (?, ?, ?, ?)", (rows[i] for i in order))
    con.commit()
    con.close()
    os.rename(tmp, DB)


# %% dataset
class ClipDataset(Dataset):
    def __init__(self, path):
        self.path = path
        self.con = None
        con = sqlite3.connect(path)
        self.keys = con.execute("SELECT speaker, take FROM clips").fetchall()
        con.close()

    def __len__(self):
        return len(self.keys)

    def connection(self):
        # sqlite handles must not cross a fork
        if self.con is None:
            self.con = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        return self.con

    def __getitem__(self, i):
        speaker, take = self.keys[i]
        word, pcm = self.connection().execute(
            "SELECT word, pcm FROM clips WHERE speaker = ? AND take = ?", (speaker, take)
        ).fetchone()
        wave = np.frombuffer(pcm, dtype="<i2").astype(np.float32) / 32768.0
        wave = wave / (np.abs(wave).max() + 1e-6)
        return torch.from_numpy(wave), word


ds = ClipDataset(DB)
gen = torch.Generator().manual_seed(3)
sampler = RandomSampler(ds, num_samples=opt.per_epoch, generator=gen)
dl = DataLoader(ds, batch_size=32, sampler=sampler, num_workers=2, drop_last=True)


# %% model
class Frontend(nn.Module):
    def __init__(self, n_fft=256, hop=40):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("win", torch.hann_window(n_fft))

    def forward(self, x):
        s = torch.stft(x, self.n_fft, self.hop, window=self.win, return_complex=True)
        return torch.log1p(10 * s.abs())[:, None, :96]


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.b = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        y = F.relu(self.na(self.a(x)))
        return F.relu(x + self.nb(self.b(y)))


net = nn.Sequential(
    Frontend(),
    nn.Conv2d(1, 20, 5, stride=2, padding=2), nn.ReLU(),
    ResBlock(20),
    nn.Conv2d(20, 40, 3, stride=2, padding=1), nn.ReLU(),
    ResBlock(40),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, len(WORDS)),
)
optim = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, opt.epochs)

# %% train
for epoch in range(opt.epochs):
    t0 = time.time()
    net.train()
    tot, hit, n = 0.0, 0, 0
    for wave, word in dl:
        shift = 20 * (epoch % 3)
        logits = net(torch.roll(wave, shift, dims=1))
        loss = F.cross_entropy(logits, word)
        optim.zero_grad()
        loss.backward()
        optim.step()
        tot += loss.item() * len(word)
        hit += (logits.argmax(1) == word).sum().item()
        n += len(word)
    sched.step()
    print(f"epoch {epoch}: loss {tot / n:.4f} acc {hit / n:.3f} ({time.time() - t0:.1f}s)", flush=True)

# %% quick look at the confusions of the last batch
conf = torch.zeros(len(WORDS), len(WORDS), dtype=torch.long)
for a, b in zip(word.tolist(), logits.argmax(1).tolist()):
    conf[a, b] += 1
print(conf)
