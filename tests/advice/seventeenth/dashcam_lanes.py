"""Predict the steering angle from dashcam frames stored as motion-JPEG clips."""
import itertools
import os
import random
import struct
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = Path(os.environ.get("DATA_DIR", tempfile.gettempdir())) / "dashcam_lanes"
CLIPS, FRAMES_PER_CLIP = 12, 60
HEIGHT, WIDTH = 540, 960
HEADER = struct.Struct("<fI")


def draw_frame(road, offset, angle):
    frame = np.roll(road, offset, axis=0)
    for lane in (-260, 0, 260):
        foot = (WIDTH // 2 + lane, HEIGHT)
        top = (int(WIDTH // 2 + lane * 0.3 + 300 * angle), HEIGHT // 2)
        cv2.line(frame, foot, top, (235, 235, 235), 9)
    return frame


def make_clips():
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(17)
    paths = []
    for c in range(CLIPS):
        path = ROOT / f"clip_{c:02d}.mjpg"
        paths.append(path)
        if path.exists():
            continue
        coarse = rng.integers(30, 170, (HEIGHT // 6, WIDTH // 6, 3), dtype=np.uint8)
        road = cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
        angle = 0.0
        with open(path, "wb") as out:
            for k in range(FRAMES_PER_CLIP):
                angle = 0.95 * angle + 0.1 * rng.standard_normal()
                _, jpeg = cv2.imencode(".jpg", draw_frame(road, 7 * k, angle), [cv2.IMWRITE_JPEG_QUALITY, 80])
                out.write(HEADER.pack(angle, len(jpeg)) + jpeg.tobytes())
    return paths


class ClipFrames(IterableDataset):
    def __init__(self, clips, size=(160, 90)):
        self.clips = list(clips)
        self.size = size
        self.epoch = 0

    def read(self, path):
        with open(path, "rb") as clip:
            while header := clip.read(HEADER.size):
                angle, length = HEADER.unpack(header)
                yield np.frombuffer(clip.read(length), dtype=np.uint8), angle

    def prepare(self, jpeg, angle):
        frame = cv2.imdecode(jpeg, cv2.IMREAD_COLOR)
        frame = frame[HEIGHT // 4:]
        frame = cv2.resize(frame, self.size, interpolation=cv2.INTER_AREA)
        yuv = cv2.cvtColor(frame, cv2.COLOR_BGR2YUV)
        yuv[..., 0] = cv2.equalizeHist(yuv[..., 0])
        return torch.from_numpy(yuv).permute(2, 0, 1).float().div_(255), torch.tensor(angle)

    def samples(self, clips):
        for path in clips:
            for jpeg, angle in self.read(path):
                yield self.prepare(jpeg, angle)

    def __iter__(self):
        clips = list(self.clips)
        random.Random(self.epoch).shuffle(clips)
        self.epoch += 1
        info = get_worker_info()
        if info is None:
            return self.samples(clips)
        return itertools.islice(self.samples(clips), info.id, None, info.num_workers)


class SteeringNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 12, 5, stride=2), nn.ELU(),
            nn.Conv2d(12, 24, 5, stride=2), nn.ELU(),
            nn.Conv2d(24, 32, 3, stride=2), nn.ELU(),
            nn.AdaptiveAvgPool2d((3, 6)), nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(32 * 18, 50), nn.ELU(), nn.Linear(50, 1))

    def forward(self, x):
        return self.head(self.features(x)).squeeze(1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    dataset = ClipFrames(make_clips())
    loader = DataLoader(dataset, batch_size=16, num_workers=2, prefetch_factor=4, persistent_workers=True)
    model = SteeringNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        total, seen = 0.0, 0
        for frames, angle in loader:
            loss = nn.functional.mse_loss(model(frames), angle)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(angle)
            seen += len(angle)
        print(f"epoch {epoch}: mse {total / seen:.5f} over {seen} frames", flush=True)


if __name__ == "__main__":
    main()
