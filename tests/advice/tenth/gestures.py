"""Hand gesture recognition from short clips. Clips sit in one packed file on the archive mount.

TODO(mk): move to the real 27-class set once the licence is through.
"""
import contextlib
import io
import multiprocessing as mp
import os
import tempfile
import time

import cv2
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 8))
N_CLIPS = 252
FRAMES = 8
SIZE = 48
GESTURES = ("left", "right", "up", "down", "zoom_in", "zoom_out")
MOUNT_DELAY = 0.012    # s per read on the archive mount


def draw_clip(g, rng):
    x, y, r = rng.uniform(20, 44, 2).tolist() + [rng.uniform(6, 10)]
    dx, dy, dr = [(-3, 0, 0), (3, 0, 0), (0, -3, 0), (0, 3, 0), (0, 0, 1.2), (0, 0, -0.7)][g]
    bg = rng.integers(0, 80, (64, 64, 3), dtype=np.uint8)
    frames = []
    for t in range(FRAMES):
        f = bg.copy()
        cv2.circle(f, (int(x + dx * t), int(y + dy * t)), max(2, int(r + dr * t)), (180, 190, 230), -1)
        frames.append(cv2.imencode(".jpg", f)[1].tobytes())
    return frames


def pack_clips(path):
    """Writes all JPEG frames behind each other, returns [(offset, [sizes], label), ...]."""
    rng = np.random.default_rng(8)
    index, pos = [], 0
    with open(path, "wb") as f:
        for i in range(N_CLIPS):
            g = i % len(GESTURES)
            frames = draw_clip(g, rng)
            sizes = [len(b) for b in frames]
            f.write(b"".join(frames))
            index.append((pos, sizes, g))
            pos += sum(sizes)
    return index


class PackedClips(Dataset):
    def __init__(self, path, index):
        self.path = path
        self.index = index
        # the mount once gave us mixed up clips with several readers, so one at a time
        self.lock = mp.Lock()

    def __len__(self):
        return len(self.index)

    def read(self, offset, nbytes):
        with self.lock:
            with open(self.path, "rb") as f:
                f.seek(offset)
                time.sleep(MOUNT_DELAY)
                return f.read(nbytes)

    def __getitem__(self, i):
        offset, sizes, label = self.index[i]
        blob = io.BytesIO(self.read(offset, sum(sizes)))
        clip = []
        for s in sizes:
            img = cv2.imdecode(np.frombuffer(blob.read(s), np.uint8), cv2.IMREAD_COLOR)
            clip.append(img)
        clip = np.stack(clip)
        t, l = torch.randint(0, 64 - SIZE + 1, (2,)).tolist()
        clip = clip[:, t:t + SIZE, l:l + SIZE]
        clip = torch.from_numpy(np.ascontiguousarray(clip)).permute(3, 0, 1, 2).float().div_(255)
        return clip * (0.8 + 0.4 * torch.rand(1)), label


class C3D(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(3, 12, (3, 5, 5), stride=(1, 2, 2), padding=(1, 2, 2)), nn.BatchNorm3d(12), nn.ReLU(),
            nn.MaxPool3d((1, 2, 2)),
            nn.Conv3d(12, 32, 3, padding=1), nn.BatchNorm3d(32), nn.ReLU(),
            nn.MaxPool3d(2),
            nn.Conv3d(32, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d((2, 2, 2)))
        self.fc = nn.Linear(48 * 8, len(GESTURES))

    def forward(self, x):
        return self.fc(self.body(x).flatten(1))


@contextlib.contextmanager
def packed_archive():
    fd, path = tempfile.mkstemp(suffix=".pack")
    os.close(fd)
    try:
        yield path, pack_clips(path)
    finally:
        os.remove(path)


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    with packed_archive() as (path, index):
        loader = DataLoader(PackedClips(path, index), batch_size=6, shuffle=True,
                            num_workers=4, persistent_workers=True)
        net = C3D()
        optim = torch.optim.Adam(net.parameters(), lr=1e-3)
        ce = nn.CrossEntropyLoss()
        for ep in range(EPOCHS):
            hits = loss_sum = 0
            for clips, labels in loader:
                out = net(clips)
                loss = ce(out, labels)
                optim.zero_grad(); loss.backward(); optim.step()
                hits += (out.argmax(1) == labels).sum().item()
                loss_sum += loss.item() * len(labels)
            print(f"ep {ep} loss {loss_sum / N_CLIPS:.3f} acc {hits / N_CLIPS:.2%}")


if __name__ == "__main__":
    main()
