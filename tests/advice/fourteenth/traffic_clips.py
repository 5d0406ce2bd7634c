import os
import tempfile
import time

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "traffic_clips")
VIDEOS, FRAMES = 16, 160
WIDTH, HEIGHT = 320, 192
DIRECTIONS = 4


def record(path, direction, rng):
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"mp4v"), 25, (WIDTH, HEIGHT))
    road = cv2.resize(rng.integers(60, 140, (24, 40, 3), dtype=np.uint8), (WIDTH, HEIGHT))
    step = [(3, 0), (-3, 0), (0, 3), (0, -3)][direction]
    cars = rng.integers(0, 300, (8, 2))
    colours = rng.integers(0, 255, (8, 3)).tolist()
    for t in range(FRAMES):
        frame = road.copy()
        for (x, y), colour in zip(cars, colours):
            cx, cy = int(x + step[0] * t) % WIDTH, int(y + step[1] * t) % HEIGHT
            cv2.rectangle(frame, (cx, cy), (cx + 22, cy + 14), colour, -1)
        writer.write(frame)
    writer.release()


def prepare():
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(8)
    paths = []
    for i in range(VIDEOS):
        path = os.path.join(ROOT, f"cam{i:02d}.mp4")
        if not os.path.exists(path):
            partial = os.path.join(ROOT, f"partial{i:02d}.mp4")
            record(partial, i % DIRECTIONS, rng)
            os.replace(partial, path)
        paths.append((path, i % DIRECTIONS))
    return paths


class ClipReader:
    def __init__(self, path):
        self.video = cv2.VideoCapture(path)

    def frame(self, number):
        self.video.set(cv2.CAP_PROP_POS_FRAMES, number)
        ok, image = self.video.read()
        if not ok:
            raise IOError(f"cannot read frame {number}")
        return image

    def clip(self, start, length, stride):
        return [self.frame(start + k * stride) for k in range(length)]


class TrafficClips(Dataset):
    def __init__(self, videos, clips_per_video, length=8, stride=2):
        self.videos, self.clips_per_video = videos, clips_per_video
        self.length, self.stride = length, stride
        self.readers = {}

    def __len__(self):
        return len(self.videos) * self.clips_per_video

    def reader(self, path):
        if path not in self.readers:
            self.readers[path] = ClipReader(path)
        return self.readers[path]

    def __getitem__(self, index):
        path, label = self.videos[index % len(self.videos)]
        last = FRAMES - self.length * self.stride
        start = int(torch.randint(0, last, (1,)))
        frames = self.reader(path).clip(start, self.length, self.stride)
        small = [cv2.resize(f, (80, 48), interpolation=cv2.INTER_AREA) for f in frames]
        clip = torch.from_numpy(np.stack(small)).permute(3, 0, 1, 2).float()
        return clip / 127.5 - 1, label


class MotionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv3d(3, 8, (3, 5, 5), stride=(1, 2, 2), padding=(1, 2, 2)), nn.ReLU(),
            nn.Conv3d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv3d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.head = nn.Linear(32, DIRECTIONS)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3, 4)))


def main():
    torch.manual_seed(8)
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    dataset = TrafficClips(prepare(), clips_per_video=26)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2, prefetch_factor=4,
                        persistent_workers=True, drop_last=True)
    model = MotionNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        began = time.perf_counter()
        losses, hits, seen = [], 0, 0
        for clips, label in loader:
            logits = model(clips)
            loss = F.cross_entropy(logits, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            hits += (logits.argmax(1) == label).sum().item()
            seen += len(label)
        print(f"epoch {epoch} loss {np.mean(losses):.3f} acc {hits / seen:.3f} "
              f"{time.perf_counter() - began:.1f}s", flush=True)


if __name__ == "__main__":
    main()
