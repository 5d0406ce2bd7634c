#!/usr/bin/env python
# Hand-gesture recognition from short clips: frame encoder, temporal blocks, recurrent head.
import argparse
import os
import pickle

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser(description="gesture clips")
parser.add_argument("--data", default="data/gesture", help="folder of the clips")
parser.add_argument("--epochs", default=3, type=int)
parser.add_argument("-b", "--batch-size", default=8, type=int)
parser.add_argument("-j", "--workers", default=2, type=int)
parser.add_argument("--frames", default=16, type=int, help="frames taken from each clip")
parser.add_argument("--side", default=32, type=int, help="side of a frame after the crop")
parser.add_argument("--hidden", default=64, type=int)
parser.add_argument("--lr", default=1e-3, type=float)
parser.add_argument("--seed", default=17, type=int)

cv2.setNumThreads(0)
CLASSES = 6
CLIPS = 320
LENGTH = 24


def draw_clip(rng, label):
    height, width = 120, 160
    scene = cv2.resize(rng.integers(30, 120, (6, 8, 3)).astype(np.uint8), (width, height), interpolation=cv2.INTER_CUBIC)
    phase, speed = rng.uniform(0, 6.28), rng.uniform(0.2, 0.4)
    frames = []
    for t in range(LENGTH):
        a = phase + speed * t
        x, y = [(np.cos(a), np.sin(a)), (np.cos(a), 0), (0, np.sin(a)), (np.cos(a), np.cos(2 * a)),
                (np.cos(a), -np.sin(a)), (np.sin(2 * a), np.sin(a))][label]
        picture = scene.copy()
        cv2.circle(picture, (int(80 + 45 * x), int(60 + 35 * y)), 12, (190, 200, 235), -1)
        frames.append(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 80])[1].tobytes())
    return frames


def make_data(root):
    done = os.path.join(root, "labels.npy")
    if os.path.exists(done):
        return
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(8)
    labels = rng.integers(0, CLASSES, CLIPS)
    for i, label in enumerate(labels):
        with open(os.path.join(root, f"clip{i:04d}.pkl"), "wb") as f:
            pickle.dump(draw_clip(rng, int(label)), f)
    np.save(done, labels)


class ClipDataset(Dataset):
    def __init__(self, root, indices, frames, side, augment):
        self.root = root
        self.indices = indices
        self.labels = np.load(os.path.join(root, "labels.npy"))
        self.frames = frames
        self.side = side
        self.augment = augment

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, k):
        i = self.indices[k]
        with open(os.path.join(self.root, f"clip{i:04d}.pkl"), "rb") as f:
            coded = pickle.load(f)
        spare = len(coded) - self.frames
        first = int(torch.randint(spare + 1, ())) if self.augment else spare // 2
        top, left = torch.randint(0, 16, (2,)).tolist() if self.augment else (8, 8)
        clip = np.empty((self.frames, self.side, self.side, 3), np.uint8)
        for t, blob in enumerate(coded[first:first + self.frames]):
            picture = cv2.imdecode(np.frombuffer(blob, np.uint8), cv2.IMREAD_COLOR)
            picture = picture[top:top + 104, left:left + 144]
            clip[t] = cv2.resize(picture, (self.side, self.side), interpolation=cv2.INTER_AREA)
        return torch.from_numpy(clip).permute(0, 3, 1, 2).contiguous(), int(self.labels[i])


class TemporalBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.depth = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation, groups=width)
        self.norm = nn.LayerNorm(width)
        self.point = nn.Linear(width, 2 * width)
        self.back = nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.depth(x.transpose(1, 2)).transpose(1, 2)
        return x + self.back(F.gelu(self.point(self.norm(y))))


class GestureNet(nn.Module):
    def __init__(self, hidden, blocks=4):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(True),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(True),
            nn.Conv2d(32, hidden, 3, stride=2, padding=1), nn.BatchNorm2d(hidden), nn.ReLU(True),
        )
        self.blocks = nn.Sequential(*[TemporalBlock(hidden, 2 ** (i % 3)) for i in range(blocks)])
        self.rnn = nn.GRU(hidden, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, CLASSES)

    def forward(self, clip):
        b, t = clip.shape[:2]
        x = clip.flatten(0, 1).float().div_(255)
        x = self.stem(x).mean((2, 3)).view(b, t, -1)
        return self.fc(self.rnn(self.blocks(x))[0].mean(1))


def build_loaders(args):
    order = np.random.default_rng(args.seed).permutation(CLIPS)
    train = ClipDataset(args.data, order[:-32], args.frames, args.side, True)
    test = ClipDataset(args.data, order[-32:], args.frames, args.side, False)
    common = dict(batch_size=args.batch_size, num_workers=args.workers)
    return (DataLoader(train, shuffle=True, persistent_workers=args.workers > 0, **common),
            DataLoader(test, **common))


@torch.no_grad()
def test_accuracy(model, loader):
    model.eval()
    right = count = 0
    for clip, label in loader:
        right += (model(clip).argmax(1) == label).sum().item()
        count += len(label)
    return right / count


def main():
    args = parser.parse_args()
    make_data(args.data)
    torch.manual_seed(args.seed)
    train_loader, test_loader = build_loaders(args)
    model = GestureNet(args.hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3 * args.lr, total_steps=args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        model.train()
        running = torch.zeros(())
        for clip, label in train_loader:
            loss = F.cross_entropy(model(clip), label, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            running += loss.detach()
        print(f"[{epoch + 1}/{args.epochs}] loss {running.item() / len(train_loader):.4f}", flush=True)
    print(f"test accuracy {test_accuracy(model, test_loader):.3f}")
    torch.save({"model": model.state_dict(), "args": vars(args)}, os.path.join(args.data, "gesture.pth"))


if __name__ == "__main__":
    main()
