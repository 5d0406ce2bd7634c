"""Classify road users in lidar frames; object crops from a bank are pasted into background scans."""
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = Path(os.environ.get("DATA_DIR", tempfile.gettempdir())) / "lidar_objects"
CLASSES = ("car", "van", "truck", "cyclist", "pedestrian")
CROPS_PER_CLASS = 45
CROP_POINTS = 512
SCENES = 960
SCENE_POINTS = 768
NEIGHBOURS = 16


def make_data():
    ROOT.mkdir(parents=True, exist_ok=True)
    crops, scans = ROOT / "crops.npz", ROOT / "scans.npy"
    rng = np.random.default_rng(5)
    if not crops.exists():
        sizes = np.array([[4.2, 1.8, 1.5], [5, 2, 2.2], [9, 2.6, 3.2], [1.8, 0.7, 1.7], [0.6, 0.6, 1.7]])
        arrays = {}
        for label, name in enumerate(CLASSES):
            for k in range(CROPS_PER_CLASS):
                points = rng.uniform(-0.5, 0.5, (CROP_POINTS, 3))
                face = rng.integers(0, 3, CROP_POINTS)
                points[np.arange(CROP_POINTS), face] = np.where(rng.random(CROP_POINTS) < 0.5, -0.5, 0.5)
                arrays[f"{name}_{k}"] = (points * sizes[label] * rng.uniform(0.9, 1.1, 3)).astype(np.float32)
        np.savez(crops, **arrays)
    if not scans.exists():
        ground = rng.uniform(-12, 12, (SCENES, SCENE_POINTS, 3)).astype(np.float16)
        ground[..., 2] = -0.9 + 0.05 * rng.standard_normal((SCENES, SCENE_POINTS))
        np.save(scans, ground)
    return crops, scans


def with_normals(points):
    """Append a normal to every point, from the plane through its neighbours."""
    distance = ((points[:, None] - points[None]) ** 2).sum(-1)
    near = np.argpartition(distance, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    patch = points[near]
    patch = patch - patch.mean(1, keepdims=True)
    _, vectors = np.linalg.eigh(np.einsum("nki,nkj->nij", patch, patch))
    return np.concatenate([points, vectors[:, :, 0]], axis=1).astype(np.float32)


class CropBank:
    def __init__(self, path):
        self.by_class = []
        with np.load(path) as archive:
            for name in CLASSES:
                self.by_class.append([with_normals(archive[f"{name}_{k}"]) for k in range(CROPS_PER_CLASS)])

    def draw(self, label, rng):
        crop = self.by_class[label][rng.integers(CROPS_PER_CLASS)]
        return crop[rng.permutation(CROP_POINTS)[:256]]


class PastedScenes(Dataset):
    def __init__(self, crops, scans):
        self.crops = crops
        self.scans = np.load(scans, mmap_mode="r")
        self._bank = None

    @property
    def bank(self):
        if self._bank is None:
            self._bank = CropBank(self.crops)
        return self._bank

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, index):
        rng = np.random.default_rng(int(torch.randint(2**31, ())))
        label = index % len(CLASSES)
        crop = self.bank.draw(label, rng).copy()
        angle = rng.uniform(0, 2 * np.pi)
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=np.float32)
        crop[:, :3] = crop[:, :3] @ turn.T
        crop[:, 3:] = crop[:, 3:] @ turn.T
        ground = np.zeros((SCENE_POINTS, 6), dtype=np.float32)
        ground[:, :3] = self.scans[index]
        ground[:, 5] = 1.0
        return torch.from_numpy(np.concatenate([crop, ground])), label


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.points = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 96))
        self.head = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, len(CLASSES)))

    def forward(self, x):
        return self.head(self.points(x).amax(1))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dataset = PastedScenes(*make_data())
    loader = DataLoader(dataset, batch_size=24, shuffle=True, num_workers=2, prefetch_factor=4, drop_last=True)
    model = PointNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        correct, seen, total = 0, 0, 0.0
        for points, label in loader:
            logits = model(points)
            loss = nn.functional.cross_entropy(logits, label)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == label).sum().item()
            total += loss.item() * len(label)
            seen += len(label)
        print(f"epoch {epoch}: loss {total / seen:.4f} accuracy {correct / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
