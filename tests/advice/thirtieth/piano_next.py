#!/usr/bin/env python
# coding: utf-8

# # Composer style from performed piano
# Exported from `piano_next.ipynb`.  Each piece is a pickled note table
# (onset frame, length in frames, key 0..87, velocity); the network sees a decaying piano roll.

# In[1]:
import argparse
import os
import pickle
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

KEYS = 88
FRAMES = 256
STYLES = ["chorale", "etude", "waltz", "nocturne"]
DECAY = 0.94


# In[2]:
def make_piece(rng, style, frames=1200):
    """Random walk over chords with a texture that depends on the style."""
    root, t, notes = int(rng.integers(25, 45)), 0, []
    step = {"chorale": 16, "etude": 3, "waltz": 8, "nocturne": 6}[STYLES[style]]
    while t < frames - 40:
        if rng.random() < 0.15:
            root = int(np.clip(root + rng.choice([-5, -3, 2, 5, 7]), 20, 50))
        chord = root + np.array([0, 4, 7, 12])
        if style == 0:
            for k in chord:
                notes.append((t, 15, k, rng.integers(55, 75)))
        elif style == 1:
            notes.append((t, 8, int(rng.choice(chord)) + 12 * int(rng.integers(0, 3)), rng.integers(60, 100)))
            notes.append((t, 8, int(rng.choice(chord)), rng.integers(60, 100)))
        elif style == 2:
            notes.append((t, 7, root - 12, 80))
            for k in chord[1:]:
                notes.append((t + 3, 9, k, rng.integers(40, 60)))
            notes.append((t, 14, root + 24 + int(rng.integers(0, 8)), 90))
        else:
            notes.append((t, 30, int(rng.choice(chord)) - 5, rng.integers(30, 55)))
            if rng.random() < 0.6:
                notes.append((t, 24, root + 28 + int(rng.integers(-4, 5)), rng.integers(60, 90)))
        t += max(2, step + int(rng.integers(-1, 2)))
    table = np.array(notes, dtype=np.int32)
    table[:, 1] *= 3                                   # sustain pedal
    table[:, 2] = np.clip(table[:, 2], 0, KEYS - 1)
    return table[np.argsort(table[:, 0], kind="stable")]


def make_data(root, pieces=160):
    path = os.path.join(root, "pieces.pkl")
    if not os.path.exists(path):
        os.makedirs(root, exist_ok=True)
        rng = np.random.default_rng(13)
        out = [{"style": i % 4, "notes": make_piece(rng, i % 4)} for i in range(pieces)]
        with open(path, "wb") as f:
            pickle.dump(out, f)
    return path


# In[3]:
class Excerpts(Dataset):
    """Random excerpts of FRAMES frames; returns the notes that sound in it."""

    def __init__(self, pieces, per_piece, train):
        self.pieces, self.per_piece, self.train = pieces, per_piece, train

    def __len__(self):
        return len(self.pieces) * self.per_piece

    def __getitem__(self, i):
        piece = self.pieces[i % len(self.pieces)]
        notes = piece["notes"]
        room = int(notes[-1, 0]) - FRAMES
        if self.train:
            start = int(torch.randint(room, (1,)))
            shift = int(torch.randint(-5, 6, (1,)))
        else:
            start, shift = (i // len(self.pieces)) * 97 % room, 0
        lo, hi = np.searchsorted(notes[:, 0], [start, start + FRAMES])
        part = notes[lo:hi].copy()
        part[:, 0] -= start
        part[:, 2] = np.clip(part[:, 2] + shift, 0, KEYS - 1)
        return part, piece["style"]


# In[4]:
ENVELOPE = np.power(DECAY, np.arange(FRAMES)).astype(np.float32)


def collate(samples):
    roll = np.zeros((len(samples), FRAMES, KEYS), np.float32)
    for b, (notes, _) in enumerate(samples):
        for onset, length, key, velocity in notes.tolist():
            for t in range(onset, min(onset + length, FRAMES)):
                roll[b, t, key] = max(roll[b, t, key], velocity / 127 * ENVELOPE[t - onset])
    style = torch.tensor([s for _, s in samples])
    return torch.from_numpy(roll).transpose(1, 2), style


# In[5]:
class RollNet(nn.Module):
    def __init__(self, width=32, styles=len(STYLES)):
        super().__init__()
        self.inp = nn.Conv1d(KEYS, width, 5, stride=2, padding=2)
        self.mid = nn.ModuleList(nn.Conv1d(width, width, 5, stride=2, padding=2) for _ in range(3))
        self.norm = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(3))
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, styles)

    def forward(self, x):
        x = F.relu(self.inp(x))
        for conv, norm in zip(self.mid, self.norm):
            x = F.relu(norm(conv(x)))
        h, _ = self.rnn(x.transpose(1, 2))
        return self.out(h.mean(1))


# In[6]:
def evaluate(net, loader):
    net.eval()
    hits = n = 0
    with torch.no_grad():
        for roll, style in loader:
            hits += (net(roll).argmax(1) == style).sum().item()
            n += len(style)
    net.train()
    return hits / n


# In[7]:
def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--data", default="data/piano_next")
    cli.add_argument("--epochs", type=int, default=3)
    cli.add_argument("--per-piece", type=int, default=24)
    opt = cli.parse_args()
    torch.manual_seed(2)
    torch.set_num_threads(1)

    with open(make_data(opt.data), "rb") as f:
        pieces = pickle.load(f)
    train = Excerpts(pieces[:136], opt.per_piece, train=True)
    test = Excerpts(pieces[136:], 8, train=False)
    train_loader = DataLoader(train, batch_size=32, shuffle=True, drop_last=True, num_workers=2,
                              collate_fn=collate, persistent_workers=True)
    test_loader = DataLoader(test, batch_size=32, num_workers=1, collate_fn=collate, persistent_workers=True)

    net = RollNet()
    optim = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for epoch in range(opt.epochs):
        t0, total = time.time(), 0.0
        for roll, style in train_loader:
            loss = F.cross_entropy(net(roll), style)
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(train_loader):.4f} "
              f"({time.time() - t0:.1f} s)", flush=True)
        print(f"epoch {epoch}: accuracy {evaluate(net, test_loader):.3f}", flush=True)
    torch.save(net.state_dict(), os.path.join(opt.data, "rollnet.pt"))


# In[8]:
if __name__ == "__main__":
    main()
