"""Hand gesture recognition from short webcam videos (sparse frame sampling + 2D CNN)."""
import argparse
import os
import time

import cv2
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "gesture_clips")
GESTURES = ["swipe_left", "swipe_right", "swipe_up", "circle", "push"]
VIDEOS_PER_GESTURE = 16
FRAMES = 100
WIDTH, HEIGHT = 480, 360
CLIP = 8
STRIDE = 2


def hand_position(gesture, t):
    if gesture == "swipe_left":
        return 420 - 360 * t, 180, 39
    if gesture == "swipe_right":
        return 60 + 360 * t, 180, 39
    if gesture == "swipe_up":
        return 240, 300 - 240 * t, 39
    if gesture == "circle":
        return 240 + 105 * np.cos(2 * np.pi * t), 180 + 105 * np.sin(2 * np.pi * t), 39
    return 240, 180, 22 + 82 * t


def make_data():
    if os.path.exists(os.path.join(ROOT, "done")):
        return
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(8)
    for gesture in GESTURES:
        for n in range(VIDEOS_PER_GESTURE):
            path = os.path.join(ROOT, f"{gesture}_{n:03d}.mp4")
            writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"mp4v"), 25.0, (WIDTH, HEIGHT))
            room = cv2.resize(rng.integers(40, 200, (12, 16, 3), dtype=np.uint8), (WIDTH, HEIGHT))
            dx, dy, period = rng.integers(-20, 20), rng.integers(-20, 20), rng.uniform(22, 34)
            grain = rng.integers(0, 12, (4, HEIGHT, WIDTH, 3), dtype=np.uint8)
            for f in range(FRAMES):
                x, y, r = hand_position(gesture, (f % period) / period)
                frame = room.copy()
                cv2.circle(frame, (int(x + dx), int(y + dy)), int(r), (140, 170, 225), -1)
                writer.write(cv2.add(frame, grain[f % 4]))
            writer.release()
    open(os.path.join(ROOT, "done"), "w").close()


class GestureVideos(Dataset):
    def __init__(self, root):
        names = sorted(name for name in os.listdir(root) if name.endswith(".mp4"))
        self.paths = [os.path.join(root, name) for name in names]
        self.labels = [GESTURES.index(name.rsplit("_", 1)[0]) for name in names]

    def __len__(self):
        return len(self.paths)

    def read_clip(self, path, first):
        capture = cv2.VideoCapture(path)
        frames = []
        for position in range(first, first + CLIP * STRIDE, STRIDE):
            capture.set(cv2.CAP_PROP_POS_FRAMES, position)
            ok, frame = capture.read()
            if not ok:
                raise IOError(f"{path}: no frame {position}")
            frame = cv2.resize(frame, (80, 60), interpolation=cv2.INTER_AREA)
            frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
        capture.release()
        return np.stack(frames)

    def __getitem__(self, index):
        first = torch.randint(0, FRAMES - CLIP * STRIDE, ()).item()
        clip = self.read_clip(self.paths[index], first)
        clip = torch.from_numpy(clip).permute(0, 3, 1, 2).float().div_(255).sub_(0.45).div_(0.25)
        return clip, self.labels[index]


class GestureNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.frame_net = nn.Sequential(
            nn.Conv2d(3, 12, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(24, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d((3, 4)), nn.Flatten(), nn.Linear(32 * 12, 64), nn.ReLU(),
        )
        self.temporal = nn.GRU(64, 64, batch_first=True)
        self.head = nn.Linear(64, classes)

    def forward(self, clips):
        b, t = clips.shape[:2]
        features = self.frame_net(clips.flatten(0, 1)).view(b, t, -1)
        _, last = self.temporal(features)
        return self.head(last[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.manual_seed(42)
    dataset = GestureVideos(ROOT)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    model = GestureNet(len(GESTURES))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(1, args.epochs + 1):
        tic, total, correct = time.time(), 0.0, 0
        for clips, labels in loader:
            scores = model(clips)
            loss = criterion(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * labels.size(0)
            correct += (scores.argmax(1) == labels).sum().item()
        n = len(dataset)
        print(f"epoch {epoch:3d}  loss {total / n:.4f}  acc {correct / n:.3f}  time {time.time() - tic:.1f}s")


if __name__ == "__main__":
    main()
