"""Hand gestures from short clips: a pretrained frame encoder and a recurrent head that is trained on top."""
import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
STORE = HERE / "data" / "gestures"
FRAMES, SIDE, CLASSES = 10, 56, 4


@dataclass
class Config:
    epochs: int = 3
    batch: int = 16
    lr: float = 3e-3
    seed: int = 12


def record_clips(folder, n=160):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(77)
    label = rng.integers(0, CLASSES, n)
    heading = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
    yy, xx = np.mgrid[:SIDE, :SIDE]
    clips = np.empty((n, FRAMES, 3, SIDE, SIDE), np.uint8)
    for i in range(n):
        at = SIDE / 2 - heading[label[i]] * 14 + rng.normal(0, 3, 2)
        colour = rng.uniform(100, 220, 3)
        back = rng.uniform(0, 60, (3, SIDE, SIDE))
        for f in range(FRAMES):
            y, x = at + heading[label[i]] * 3.0 * f
            spot = np.exp(-((yy - y) ** 2 + (xx - x) ** 2) / 40)
            clips[i, f] = np.clip(back + colour[:, None, None] * spot, 0, 255)
    torch.manual_seed(8)
    torch.save(FrameEncoder().state_dict(), folder / "encoder.pt")
    np.save(folder / "clips.npy", clips)
    np.save(folder / "label.npy", label)


class FrameEncoder(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(4)

    def forward(self, frames):
        return self.pool(self.features(frames)).flatten(1)


class GestureNet(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.norm = nn.BatchNorm1d(768)
        self.rnn = nn.GRU(768, 64, batch_first=True)
        self.classify = nn.Linear(64, CLASSES)

    def head_parameters(self):
        for part in (self.norm, self.rnn, self.classify):
            yield from part.parameters()

    def forward(self, clips):
        b, t = clips.shape[:2]
        feats = self.encoder(clips.flatten(0, 1))
        out, _ = self.rnn(self.norm(feats).view(b, t, -1))
        return self.classify(out[:, -1])


def augment(clips):
    """Exposure, contrast and a small shift, drawn anew for each clip of the batch."""
    b = len(clips)
    x = clips.float().div_(255)
    x = x * torch.empty(b, 1, 1, 1, 1).uniform_(0.7, 1.3) + torch.empty(b, 1, 1, 1, 1).uniform_(-0.1, 0.1)
    dy, dx = torch.randint(-4, 5, (2,)).tolist()
    return x.roll((dy, dx), (-2, -1))


class Experiment:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.clips = torch.from_numpy(np.load(STORE / "clips.npy"))
        self.label = torch.from_numpy(np.load(STORE / "label.npy"))
        encoder = FrameEncoder()
        encoder.load_state_dict(torch.load(STORE / "encoder.pt"))
        self.net = GestureNet(encoder)
        self.optimizer = torch.optim.Adam(self.net.head_parameters(), lr=cfg.lr)

    def batches(self):
        order = torch.randperm(len(self.clips))
        for rows in order.split(self.cfg.batch):
            yield augment(self.clips[rows]), self.label[rows]

    def run(self):
        self.net.train()
        for epoch in range(1, self.cfg.epochs + 1):
            t0 = time.time()
            total, right = torch.zeros(()), torch.zeros(())
            for clips, label in self.batches():
                logits = self.net(clips)
                loss = nn.functional.cross_entropy(logits, label)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.detach() * len(label)
                right += (logits.argmax(1) == label).sum()
            n = len(self.label)
            print(f"epoch {epoch}: loss {total / n:.4f}, accuracy {right / n:.3f}, {time.time() - t0:.2f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, default in vars(Config()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    config = Config(**vars(parser.parse_args()))
    if not (STORE / "clips.npy").exists():
        record_clips(STORE)
    Experiment(config).run()
