"""Steering angle regression from short dashcam sequences kept in a clip store."""
import os
import random
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "dashcam_clips")
EPOCHS = int(os.environ.get("EPOCHS", 6))
CLIPS = 14
FRAMES = 104
WINDOW = 8
HEIGHT, WIDTH = 48, 64


def build_store():
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(3)
    xs = np.linspace(-1, 1, WIDTH, dtype=np.float32)[None, None, :]
    ys = np.linspace(0, 1, HEIGHT, dtype=np.float32)[None, :, None]
    for k in range(CLIPS):
        path = os.path.join(ROOT, f"clip_{k:03d}.npz")
        if os.path.exists(path):
            continue
        angle = np.cumsum(rng.normal(0, 0.06, FRAMES)).clip(-1, 1).astype(np.float32)
        lane = np.exp(-((xs - angle[:, None, None] * (1 - ys)) ** 2) / 0.02)
        frames = (lane[..., None] * np.array([200, 190, 160], np.float32)
                  + rng.normal(30, 9, (FRAMES, HEIGHT, WIDTH, 3)))
        tmp = path + f".{os.getpid()}.npz"
        np.savez(tmp, frames=frames.clip(0, 255).astype(np.uint8), angle=angle)
        os.replace(tmp, path)


class ClipStore:
    """Client of the (remote) clip archive; a clip has to be requested as a whole."""

    latency = 0.6

    def names(self):
        return sorted(n for n in os.listdir(ROOT) if n.endswith(".npz") and n.count(".") == 1)

    def get(self, name):
        time.sleep(self.latency)
        with np.load(os.path.join(ROOT, name)) as data:
            return data["frames"], data["angle"]


class SteeringWindows(IterableDataset):
    def __init__(self, store):
        self.store = store
        self.names = store.names()

    def __iter__(self):
        info = get_worker_info()
        names = self.names
        if info is not None:
            names = names[info.id::info.num_workers]
        names = list(names)
        random.shuffle(names)
        for name in names:
            frames, angle = self.store.get(name)
            starts = np.random.permutation(len(frames) - WINDOW)
            for s in starts:
                window = frames[s:s + WINDOW]
                target = angle[s + WINDOW - 1]
                if random.random() < 0.5:
                    window, target = window[:, :, ::-1], -target
                yield torch.from_numpy(window.copy()), float(target)


class SteeringNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 20, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(20, 36, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(36, 64, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d((1, 4)), nn.Flatten())
        self.rnn = nn.GRU(256, 64, batch_first=True)
        self.head = nn.Linear(64, 1)

    def forward(self, clips):
        b, t = clips.shape[:2]
        x = clips.permute(0, 1, 4, 2, 3).reshape(b * t, 3, HEIGHT, WIDTH).float().div_(255)
        features = self.encoder(x).view(b, t, -1)
        out, _ = self.rnn(features)
        return self.head(out[:, -1]).squeeze(1)


def main():
    torch.manual_seed(0)
    random.seed(0)
    build_store()
    loader = DataLoader(
        SteeringWindows(ClipStore()),
        batch_size=8,
        num_workers=2,
        persistent_workers=True,
    )
    model = SteeringNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        total, count = 0.0, 0
        for clips, angle in loader:
            loss = nn.functional.smooth_l1_loss(model(clips), angle.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(clips)
            count += len(clips)
        print(f"epoch {epoch}: {count} windows, loss {total / count:.4f}", flush=True)


if __name__ == "__main__":
    main()
