"""Next-frame prediction on piano rolls. One config object, one trainer."""
import os
import sys
import pickle
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

PITCHES = 64


@dataclass
class Config:
    data: str = "data/pianoroll"
    seed: int = 17
    pieces: int = 720
    batch_size: int = 24
    window: int = 30          # batches shuffled together
    passes: int = 11
    channels: int = 64
    levels: int = 4
    lr: float = 1.5e-3
    workers: int = 2

    @classmethod
    def from_argv(cls, argv):
        kinds = {f.name: f.type for f in fields(cls)}
        cfg = cls()
        for key, value in zip(argv[::2], argv[1::2]):
            name = key.lstrip("-").replace("-", "_")
            setattr(cfg, name, kinds[name](value))
        return cfg


def compose(cfg):
    """Random pieces: a key, a tempo, and notes as (start tick, length, pitch)."""
    rng = np.random.default_rng(cfg.seed)
    os.makedirs(cfg.data, exist_ok=True)
    scale = np.array([0, 2, 4, 5, 7, 9, 11])
    pieces = []
    for _ in range(cfg.pieces):
        ticks = int(np.clip(rng.lognormal(4.35, 0.85), 24, 900))
        n = int(np.clip(rng.lognormal(5.2, 0.5), 40, 700))
        key = rng.integers(12)
        walk = np.cumsum(rng.integers(-2, 3, n)) + rng.integers(14, 22)
        walk = np.abs(walk) % 36
        pitch = (scale[walk % 7] + 12 * (walk // 7) + key) % PITCHES
        start = np.sort(rng.integers(0, ticks - 4, n))
        length = np.minimum(rng.choice([1, 2, 3, 4, 6, 8], n), ticks - start)
        pieces.append({"notes": np.stack([start, length, pitch], 1).astype(np.int32), "ticks": ticks})
    with open(os.path.join(cfg.data, "pieces.pkl.tmp"), "wb") as f:
        pickle.dump(pieces, f)
    os.rename(os.path.join(cfg.data, "pieces.pkl.tmp"), os.path.join(cfg.data, "pieces.pkl"))


class PieceDataset(Dataset):
    def __init__(self, path):
        with open(path, "rb") as f:
            self.pieces = pickle.load(f)

    def size(self, i):
        return len(self.pieces[i]["notes"])

    def __len__(self):
        return len(self.pieces)

    def __getitem__(self, i):
        piece = self.pieces[i]
        roll = np.zeros((piece["ticks"], PITCHES), np.float32)
        for start, length, pitch in piece["notes"]:
            roll[start:start + length, pitch] = 1.0
        return torch.from_numpy(roll)


class BucketBatches(Sampler):
    """Batches of like-sized pieces, batches in random order."""

    def __init__(self, dataset, batch_size, window, seed):
        self.sizes = np.array([dataset.size(i) for i in range(len(dataset))])
        self.batch_size, self.window = batch_size, window
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.sizes) // self.batch_size

    def __iter__(self):
        order = self.rng.permutation(len(self.sizes))
        span = self.batch_size * self.window
        batches = []
        for s in range(0, len(order), span):
            part = order[s:s + span]
            part = part[np.argsort(self.sizes[part], kind="stable")]
            batches += [part[k:k + self.batch_size] for k in range(0, len(part), self.batch_size)]
        batches = [b for b in batches if len(b) == self.batch_size]
        for k in self.rng.permutation(len(batches)):
            yield batches[k].tolist()


def pad_rolls(rolls):
    lengths = torch.tensor([len(r) for r in rolls])
    return nn.utils.rnn.pad_sequence(rolls, batch_first=True), lengths


class CausalBlock(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(c, 2 * c, 3, dilation=dilation)
        self.mix = nn.Conv1d(c, c, 1)

    def forward(self, x):
        a, b = self.conv(nn.functional.pad(x, (self.pad, 0))).chunk(2, 1)
        return x + self.mix(torch.tanh(a) * torch.sigmoid(b))


class RollNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Conv1d(PITCHES, cfg.channels, 1)
        self.blocks = nn.Sequential(*[CausalBlock(cfg.channels, 2 ** k) for k in range(cfg.levels)])
        self.out = nn.Conv1d(cfg.channels, PITCHES, 1)

    def forward(self, roll):
        return self.out(torch.relu(self.blocks(self.inp(roll.transpose(1, 2))))).transpose(1, 2)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        ds = PieceDataset(os.path.join(cfg.data, "pieces.pkl"))
        self.loader = DataLoader(ds, batch_sampler=BucketBatches(ds, cfg.batch_size, cfg.window, cfg.seed),
                                 collate_fn=pad_rolls, num_workers=cfg.workers)
        self.net = RollNet(cfg)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr)

    def loss(self, roll, lengths):
        logits = self.net(roll[:, :-1])
        each = nn.functional.binary_cross_entropy_with_logits(logits, roll[:, 1:], reduction="none").sum(-1)
        mask = torch.arange(each.shape[1])[None] < (lengths - 1)[:, None]
        return (each * mask).sum() / mask.sum()

    def fit(self):
        for p in range(1, self.cfg.passes + 1):
            seen = []
            for roll, lengths in self.loader:
                loss = self.loss(roll, lengths)
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
                self.opt.step()
                seen.append(loss.item())
            print(f"[pass {p}] nll/frame {np.mean(seen):.4f} last {seen[-1]:.4f}", flush=True)


if __name__ == "__main__":
    config = Config.from_argv(sys.argv[1:])
    if not os.path.exists(os.path.join(config.data, "pieces.pkl")):
        compose(config)
    Trainer(config).fit()
