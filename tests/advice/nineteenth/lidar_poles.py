"""Classify roadside objects (pole, tree, sign, car) cut out of mobile lidar tiles."""
import functools
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "lidar_poles")
TILES, PER_TILE, POINTS, KEEP = 14, 128, 1024, 256
CLASSES = ["pole", "tree", "sign", "car"]


def synth_object(kind, rng):
    xyz = rng.normal(0, 1, (POINTS, 3))
    if kind == 0:
        xyz *= (0.08, 0.08, 2.0)
    elif kind == 1:
        xyz *= np.where(rng.random((POINTS, 1)) < 0.3, (0.15, 0.15, 1.0), (1.0, 1.0, 0.8))
        xyz[:, 2] += 1.5
    elif kind == 2:
        xyz *= (0.6, 0.03, 0.6)
        xyz[:, 2] += 2.0
    else:
        xyz *= (1.6, 0.7, 0.5)
    intensity = rng.integers(0, 255, (POINTS, 1)) / 100
    return np.concatenate([xyz, intensity], 1)


def build_tiles():
    os.makedirs(ROOT, exist_ok=True)
    for t in range(TILES):
        path = os.path.join(ROOT, f"tile_{t:03d}.npz")
        if os.path.exists(path):
            continue
        rng = np.random.default_rng(100 + t)
        kinds = rng.integers(0, len(CLASSES), PER_TILE)
        clouds = np.stack([synth_object(k, rng) for k in kinds])
        part = path[:-4] + ".part.npz"
        np.savez_compressed(part, points=np.round(clouds * 100).astype(np.int16), kinds=kinds)
        os.replace(part, path)


@functools.lru_cache(maxsize=2)
def open_tile(path):
    with np.load(path) as archive:
        return archive["points"], archive["kinds"]


class RoadsideObjects(Dataset):
    def __init__(self, root, augment=True):
        self.paths = sorted(
            os.path.join(root, name) for name in os.listdir(root) if len(name) == len("tile_000.npz"))
        self.augment = augment

    def __len__(self):
        return len(self.paths) * PER_TILE

    def __getitem__(self, index):
        tile, slot = divmod(index, PER_TILE)
        points, kinds = open_tile(self.paths[tile])
        keep = torch.randperm(POINTS)[:KEEP].numpy()
        cloud = torch.from_numpy(points[slot][keep].astype(np.float32) / 100)
        cloud[:, :3] -= cloud[:, :3].mean(0)
        if self.augment:
            angle = torch.rand(()) * 2 * torch.pi
            c, s = torch.cos(angle), torch.sin(angle)
            x, y = cloud[:, 0].clone(), cloud[:, 1].clone()
            cloud[:, 0], cloud[:, 1] = c * x - s * y, s * x + c * y
            cloud[:, :3] += torch.randn(len(cloud), 3) * 0.01
        return cloud.T.contiguous(), int(kinds[slot])


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(
            nn.Conv1d(4, 32, 1), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 96, 1), nn.BatchNorm1d(96), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, len(CLASSES)))

    def forward(self, cloud):
        return self.head(self.local(cloud).amax(2))


def main():
    torch.manual_seed(11)
    torch.set_num_threads(1)
    build_tiles()
    objects = RoadsideObjects(ROOT)
    loader = DataLoader(objects, batch_size=32, shuffle=True, num_workers=2,
                        persistent_workers=True, drop_last=True)
    model = PointNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    for epoch in range(EPOCHS):
        losses, right = [], 0
        for clouds, kinds in loader:
            optimizer.zero_grad(set_to_none=True)
            scores = model(clouds)
            loss = nn.functional.cross_entropy(scores, kinds, label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            right += int((scores.argmax(1) == kinds).sum())
        schedule.step()
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f} accuracy {right / len(objects):.3f}", flush=True)


if __name__ == "__main__":
    main()
