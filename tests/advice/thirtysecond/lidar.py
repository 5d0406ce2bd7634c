"""Object classification in mobile LiDAR scans; small in-house Lightning-like runner."""
import argparse
import dataclasses
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.spatial import cKDTree
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

SITES = ("harbour", "campus", "depot", "ringroad")
LABELS = ("pole", "car", "tree", "wall", "sign", "bench")


@dataclasses.dataclass
class Scan:
    name: str
    site: str
    cloud: np.ndarray      # (N, 4) x y z intensity
    centres: np.ndarray    # (K, 3)
    labels: np.ndarray     # (K,)
    starts: np.ndarray     # (K + 1,) objects are contiguous in the cloud

    @classmethod
    def load(cls, path):
        with np.load(path) as z:
            return cls(path.stem, str(z["site"]), z["cloud"], z["centres"], z["labels"], z["starts"])


@dataclasses.dataclass
class ObjectCrop:
    points: Tensor
    label: int
    scan: Scan


def object_points(rng, kind, n):
    u, v, w = rng.uniform(-1, 1, (3, n))
    if kind == 0:
        p = np.stack([0.1 * u, 0.1 * v, 3 * w], 1)
    elif kind == 1:
        p = np.stack([2.1 * u, 0.9 * v, 0.7 * np.sign(w)], 1)
    elif kind == 2:
        p = np.stack([1.4 * u * np.abs(w), 1.4 * v * np.abs(w), 2.5 * w], 1)
    elif kind == 3:
        p = np.stack([2.5 * u, 0.08 * v, 1.5 * w], 1)
    elif kind == 4:
        p = np.stack([0.5 * u * (w > 0.5), 0.06 * v, 1.8 * w], 1)
    else:
        p = np.stack([0.9 * u, 0.3 * v, 0.3 * np.sign(w) * (u > 0)], 1)
    a = rng.uniform(0, 6.28)
    rot = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    return p @ rot.T * rng.uniform(0.8, 1.2) + 0.12 * rng.standard_normal((n, 3))


def survey(root: Path, scans=72, objects=40, per_object=3000):
    rng = np.random.default_rng(404)
    root.mkdir(parents=True, exist_ok=True)
    for s in range(scans):
        labels = rng.integers(0, len(LABELS), objects)
        centres = np.c_[rng.uniform(-60, 60, (objects, 2)), rng.uniform(0, 3, objects)]
        parts = []
        for k in range(objects):
            xyz = object_points(rng, labels[k], per_object) + centres[k]
            parts.append(np.c_[xyz, rng.gamma(2 + labels[k] % 3, 0.2, per_object)])
        np.savez(root / f"scan{s:03d}.npz", site=SITES[s % 4], cloud=np.concatenate(parts).astype(np.float32),
                 centres=centres.astype(np.float32), labels=labels, starts=np.arange(objects + 1) * per_object)
    (root / "survey.ok").touch()


def shape_features(xyz, k=24):
    """Spacing, flatness and upward spread of each point's neighbourhood."""
    dist, idx = cKDTree(xyz).query(xyz, k)
    local = xyz[idx] - xyz[idx].mean(1, keepdims=True)
    eig = np.linalg.eigvalsh(np.einsum("nki,nkj->nij", local, local) / k)
    return np.stack([dist[:, 1:].mean(1), eig[:, 0] / (eig[:, 2] + 1e-9), local[..., 2].std(1)], 1).astype(np.float32)


class CropDataset(Dataset):
    def __init__(self, root: Path, points=512):
        self.scans = [Scan.load(p) for p in sorted(root.glob("scan*.npz"))]
        self.index = [(i, k) for i, s in enumerate(self.scans) for k in range(len(s.labels))]
        self.points = points
        self.round = 0

    def __len__(self):
        return len(self.index)

    def __getitem__(self, n):
        i, k = self.index[n]
        scan = self.scans[i]
        rng = np.random.default_rng((self.round, n))
        pick = rng.integers(scan.starts[k], scan.starts[k + 1], self.points)
        pts = scan.cloud[pick]
        pts[:, :3] -= scan.centres[k]
        a = rng.uniform(0, 2 * np.pi)
        c, s = np.cos(a), np.sin(a)
        pts[:, :2] = pts[:, :2] @ np.array([[c, -s], [s, c]], np.float32)
        pts = np.concatenate([pts, shape_features(pts[:, :3])], 1)
        return ObjectCrop(torch.from_numpy(pts), int(scan.labels[k]), scan)


def collate(crops):
    return torch.stack([c.points for c in crops]), torch.tensor([c.label for c in crops]), crops


class PointNetModule(nn.Module):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.local = nn.Sequential(nn.Linear(7, 48), nn.ReLU(), nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 192))
        self.head = nn.Sequential(nn.Linear(192, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, len(LABELS)))
        self.by_site = defaultdict(list)

    def forward(self, pts):
        return self.head(self.local(pts).amax(1))

    def training_step(self, batch, batch_idx):
        pts, labels, crops = batch
        each = F.cross_entropy(self(pts), labels, reduction="none")
        for crop, value in zip(crops, each.tolist()):
            self.by_site[crop.scan.site].append(value)
        return each.mean()

    def on_train_epoch_end(self, epoch):
        means = {k: float(np.mean(v)) for k, v in sorted(self.by_site.items())}
        overall = float(np.mean([x for v in self.by_site.values() for x in v]))
        print(f"epoch={epoch} train_loss={overall:.4f} " + " ".join(f"{k}={v:.3f}" for k, v in means.items()), flush=True)
        self.by_site.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class Runner:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def fit(self, module, loader):
        opt = module.configure_optimizers()
        for epoch in range(self.max_epochs):
            loader.dataset.round = epoch
            module.train()
            for i, batch in enumerate(loader):
                loss = module.training_step(batch, i)
                opt.zero_grad()
                loss.backward()
                opt.step()
            module.on_train_epoch_end(epoch)


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--data", type=Path, default=Path("data/lidar"))
    cli.add_argument("--max-epochs", type=int, default=3)
    cli.add_argument("--batch-size", type=int, default=32)
    cli.add_argument("--num-workers", type=int, default=2)
    ns = cli.parse_args()
    if not (ns.data / "survey.ok").exists():
        survey(ns.data)
    torch.manual_seed(8)
    torch.set_num_threads(1)
    data = CropDataset(ns.data)
    Runner(ns.max_epochs).fit(
        PointNetModule(),
        DataLoader(data, ns.batch_size, shuffle=True, num_workers=ns.num_workers, collate_fn=collate, drop_last=True))
