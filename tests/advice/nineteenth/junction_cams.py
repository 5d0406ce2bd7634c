"""Predict the turning direction of vehicles from short clips of junction cameras."""
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "junction_cams")
SEGMENTS, CLIPS, FRAMES, SIDE = 12, 96, 8, 32
TURNS = ["left", "straight", "right"]


def record_segments():
    os.makedirs(ROOT, exist_ok=True)
    for number in range(SEGMENTS):
        path = os.path.join(ROOT, f"segment-{number:04d}.npz")
        if os.path.exists(path):
            continue
        rng = np.random.default_rng(number)
        turns = rng.integers(0, len(TURNS), CLIPS)
        video = rng.integers(0, 60, (CLIPS, FRAMES, SIDE, SIDE), dtype=np.uint8)
        for clip, turn in enumerate(turns):
            x = rng.integers(12, 20)
            for frame in range(FRAMES):
                left = x + (int(turn) - 1) * frame
                top = 26 - 3 * frame
                video[clip, frame, top:top + 6, left:left + 5] += 150
        part = path[:-4] + ".part.npz"
        np.savez(part, video=video, turns=turns)
        os.replace(part, path)
    return [os.path.join(ROOT, f"segment-{n:04d}.npz") for n in range(SEGMENTS)]


class Archive:
    """Camera archive: a segment is handed out as a whole once it has been recalled."""

    def __init__(self, recall_s=0.8):
        self.recall_s = recall_s

    def recall(self, path):
        time.sleep(self.recall_s)
        with np.load(path) as segment:
            return segment["video"], segment["turns"]


class JunctionClips(IterableDataset):
    def __init__(self, paths, archive, seed=0):
        self.paths = paths
        self.archive = archive
        self.seed = seed
        self.epoch = 0

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        rng = np.random.default_rng((self.seed, self.epoch))
        self.epoch += 1
        order = rng.permutation(len(self.paths))
        for number in order[worker::workers]:
            video, turns = self.archive.recall(self.paths[number])
            for clip in rng.permutation(len(turns)):
                frames = torch.from_numpy(video[clip]).float().div_(255).sub_(0.15)
                yield frames.unsqueeze(0), int(turns[clip])


class TurnNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d((1, 2, 2)),
            nn.Conv3d(8, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(16, 32, 3, padding=1), nn.BatchNorm3d(32), nn.ReLU(),
            nn.AdaptiveAvgPool3d((2, 3, 3)), nn.Flatten())
        self.head = nn.Linear(32 * 18, len(TURNS))

    def forward(self, clips):
        return self.head(self.body(clips))


def train_one_epoch(model, loader, optimizer, criterion):
    model.train()
    total, correct, seen = 0.0, 0, 0
    for clips, turns in loader:
        logits = model(clips)
        loss = criterion(logits, turns)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(turns)
        correct += (logits.detach().argmax(1) == turns).sum().item()
        seen += len(turns)
    return total / seen, correct / seen


def main():
    torch.manual_seed(5)
    clips = JunctionClips(record_segments(), Archive())
    loader = DataLoader(clips, batch_size=8, num_workers=2, persistent_workers=True)
    model = TurnNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        loss, accuracy = train_one_epoch(model, loader, optimizer, criterion)
        print(f"epoch {epoch + 1}: loss {loss:.4f} accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
