"""Road-object classification from LiDAR clusters (points + surface normals), PointNet style."""
import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.spatial import cKDTree
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "lidar_objects"
KINDS = ("car", "van", "pole", "tree", "pedestrian")
N_TRAIN, N_VAL = 320, 40
FULL, SAMPLE = 4096, 512


def box(rng, n, size):
    points = rng.uniform(-0.5, 0.5, (n, 3))
    axis = rng.integers(0, 3, n)
    points[np.arange(n), axis] = np.where(rng.random(n) < 0.5, -0.5, 0.5)
    return points * size


def tube(rng, n, radius, height):
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), rng.uniform(0, height, n)], 1)


def shape(kind, rng):
    scale = rng.uniform(0.8, 1.2)
    if kind == "car":
        cloud = np.concatenate([box(rng, FULL // 2, [4.2, 1.8, 0.9]), box(rng, FULL // 2, [2.2, 1.6, 0.7]) + [0, 0, 0.8]])
    elif kind == "van":
        cloud = box(rng, FULL, [4.9, 2.0, 2.1])
    elif kind == "pole":
        cloud = tube(rng, FULL, 0.12, 5.0)
    elif kind == "tree":
        ball = rng.normal(size=(FULL // 2, 3))
        ball *= rng.uniform(1.0, 1.7) / np.linalg.norm(ball, axis=1, keepdims=True)
        cloud = np.concatenate([tube(rng, FULL // 2, 0.2, 3.0), ball + [0, 0, 4.0]])
    else:
        cloud = np.concatenate([tube(rng, FULL // 2, 0.25, 1.1) + [0, 0, 0.7], tube(rng, FULL // 2, 0.15, 0.7)])
    return (cloud * scale + rng.normal(0, 0.02, cloud.shape)).astype(np.float32)


def make_data():
    if (DATA / "done").exists():
        return
    rng = np.random.default_rng(9)
    for part, count in (("train", N_TRAIN), ("val", N_VAL)):
        (DATA / part).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            kind = i % len(KINDS)
            np.save(DATA / part / f"{i:04d}_{KINDS[kind]}.npy", shape(KINDS[kind], rng))
    (DATA / "done").touch()


def surface_normals(tree, points, k=16):
    _, neighbours = tree.query(points, k=k)
    patch = tree.data[neighbours]
    patch = patch - patch.mean(axis=1, keepdims=True)
    cov = np.einsum("nki,nkj->nij", patch, patch)
    _, vectors = np.linalg.eigh(cov)
    normals = vectors[:, :, 0]
    facing = np.sign((normals * points).sum(axis=1, keepdims=True))
    return normals * np.where(facing == 0, 1, facing)


class ClusterDataset(Dataset):
    def __init__(self, part, train):
        self.paths = sorted((DATA / part).glob("*.npy"))
        self.train = train

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        cloud = np.load(path).astype(np.float64)
        cloud -= cloud.mean(axis=0)
        seed = int(torch.randint(2 ** 31, ())) if self.train else index
        rng = np.random.default_rng(seed)
        if self.train:
            angle = rng.uniform(0, 2 * np.pi)
            turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
            cloud = cloud @ turn.T
        tree = cKDTree(cloud)
        normals = surface_normals(tree, cloud)
        keep = rng.choice(len(cloud), SAMPLE, replace=False)
        features = np.concatenate([cloud[keep], normals[keep]], axis=1)
        label = KINDS.index(path.stem.split("_")[1])
        return torch.from_numpy(features.T.astype(np.float32)), label


class PointNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.local = nn.Sequential(
            nn.Conv1d(6, width, 1), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 1), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width * 4, 1), nn.BatchNorm1d(width * 4), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Linear(width * 4, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, len(KINDS)))

    def forward(self, x):
        return self.head(self.local(x).amax(dim=2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.set_num_threads(1)
    torch.manual_seed(13)
    train_loader = DataLoader(ClusterDataset("train", True), args.batch_size, shuffle=True, num_workers=1,
                              persistent_workers=True)
    val_loader = DataLoader(ClusterDataset("val", False), args.batch_size)
    model = PointNet()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    for epoch in range(args.epochs):
        began = time.time()
        model.train()
        total = 0.0
        for points, label in train_loader:
            loss = F.cross_entropy(model(points), label, label_smoothing=0.05)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            right = sum((model(points).argmax(1) == label).sum().item() for points, label in val_loader)
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} val acc {right / N_VAL:.3f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
