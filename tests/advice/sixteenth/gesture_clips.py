"""Hand gesture recognition on short clips cut from longer camera recordings."""
import os
import tempfile
import time

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "gesture_clips")
GESTURES, VIDEOS, FRAMES = 4, 12, 150
WIDTH, HEIGHT = 320, 240
CLIP, STRIDE, SIDE = 16, 1, 56
CLIPS_PER_VIDEO = 24


def make_videos():
    os.makedirs(ROOT, exist_ok=True)
    if os.path.exists(os.path.join(ROOT, "done")):
        return
    rng = np.random.default_rng(8)
    fourcc = cv2.VideoWriter_fourcc(*"mp4v")
    backdrop = cv2.resize(rng.integers(0, 120, (30, 40, 3), dtype=np.uint8), (WIDTH, HEIGHT))
    for v in range(VIDEOS):
        gesture = v % GESTURES
        writer = cv2.VideoWriter(os.path.join(ROOT, f"cam{v:02d}_{gesture}.mp4"), fourcc, 25, (WIDTH, HEIGHT))
        phase = rng.uniform(0, 6)
        for t in range(FRAMES):
            frame = backdrop.copy()
            angle = phase + 0.15 * t
            dx = int(80 * np.cos(angle)) if gesture in (0, 2) else 0
            dy = int(70 * np.sin(angle)) if gesture in (1, 2) else 0
            size = 30 + (int(15 * np.sin(angle)) if gesture == 3 else 0)
            cv2.circle(frame, (WIDTH // 2 + dx, HEIGHT // 2 + dy), size, (120, 160, 230), -1)
            writer.write(frame)
        writer.release()
    open(os.path.join(ROOT, "done"), "w").close()


class GestureClips(Dataset):
    """Random clips of CLIP frames, STRIDE frames apart."""

    def __init__(self, root):
        self.paths = sorted(os.path.join(root, f) for f in os.listdir(root) if f.endswith(".mp4"))

    def __len__(self):
        return len(self.paths) * CLIPS_PER_VIDEO

    def read_frames(self, path, indices):
        capture = cv2.VideoCapture(path)
        frames = []
        for index in indices:
            capture.set(cv2.CAP_PROP_POS_FRAMES, index)
            ok, frame = capture.read()
            if not ok:
                raise RuntimeError(f"{path}: cannot read frame {index}")
            frames.append(cv2.resize(frame, (SIDE, SIDE), interpolation=cv2.INTER_AREA))
        capture.release()
        return np.stack(frames)

    def __getitem__(self, item):
        path = self.paths[item % len(self.paths)]
        first = int(torch.randint(0, FRAMES - CLIP * STRIDE, (1,)))
        frames = self.read_frames(path, range(first, first + CLIP * STRIDE, STRIDE))
        if torch.rand(1) < 0.5:
            frames = np.clip(frames * float(torch.empty(1).uniform_(0.7, 1.2)), 0, 255)
        clip = torch.from_numpy(np.ascontiguousarray(frames, dtype=np.float32)) / 255 - 0.5
        return clip.permute(3, 0, 1, 2), int(path[-5])


class ClipNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv3d(3, 8, (1, 5, 5), stride=(1, 2, 2), padding=(0, 2, 2))
        self.motion = nn.Conv3d(8, 16, 3, stride=(1, 2, 2), padding=1)
        self.deep = nn.Conv3d(16, 32, 3, stride=2, padding=1)
        self.head = nn.Linear(32, GESTURES)

    def forward(self, x):
        for layer in (self.stem, self.motion, self.deep):
            x = torch.relu(layer(x))
        return self.head(x.mean(dim=(2, 3, 4)))


def seed_worker(worker_id):
    cv2.setNumThreads(1)
    torch.set_num_threads(1)


def main():
    torch.manual_seed(0)
    make_videos()
    dataset = GestureClips(ROOT)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2, prefetch_factor=3,
                        persistent_workers=True, worker_init_fn=seed_worker)
    model = ClipNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        began, running, hits = time.time(), 0.0, 0
        for clips, labels in loader:
            logits = model(clips)
            loss = nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
            hits += (logits.argmax(1) == labels).sum().item()
        print(f"epoch {epoch}: loss {running / len(loader):.4f} acc {hits / len(dataset):.3f} "
              f"({time.time() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
