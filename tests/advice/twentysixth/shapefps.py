"""Shape classification on point clouds with a two-level set abstraction network (PointNet++ style)."""
from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

CACHE = Path(__file__).parent / "data" / "shapefps" / "clouds.npz"
KINDS = ("sphere", "box", "torus", "cone", "helix", "saddle")


@dataclass
class Config:
    epochs: int = 5
    batch_size: int = 24
    lr: float = 1e-3
    seed: int = 42


def sample_shape(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    u, v = rng.random(n), rng.random(n)
    a, b = 2 * np.pi * u, 2 * np.pi * v
    if kind == "sphere":
        p = rng.normal(size=(n, 3))
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif kind == "box":
        p = rng.uniform(-1, 1, (n, 3))
        axis = rng.integers(0, 3, n)
        p[np.arange(n), axis] = np.sign(p[np.arange(n), axis])
    elif kind == "torus":
        p = np.stack([(1 + 0.35 * np.cos(b)) * np.cos(a), (1 + 0.35 * np.cos(b)) * np.sin(a), 0.35 * np.sin(b)], 1)
    elif kind == "cone":
        p = np.stack([v * np.cos(a), v * np.sin(a), 1 - 2 * v], 1)
    elif kind == "helix":
        p = np.stack([np.cos(3 * a), np.sin(3 * a), 2 * u - 1], 1)
    else:
        p = np.stack([2 * u - 1, 2 * v - 1, (2 * u - 1) ** 2 - (2 * v - 1) ** 2], 1)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return ((p * rng.uniform(0.7, 1.2, 3)) @ turn + rng.normal(0, 0.03, (n, 3))).astype(np.float32)


def load_clouds(count: int = 900, points: int = 512) -> tuple[Tensor, Tensor]:
    if not CACHE.exists():
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(1)
        label = rng.integers(0, len(KINDS), count)
        xyz = np.stack([sample_shape(KINDS[k], points, rng) for k in label])
        np.savez(CACHE, xyz=xyz, label=label)
    with np.load(CACHE) as z:
        xyz, label = z["xyz"], z["label"]
    xyz = xyz - xyz.mean(1, keepdims=True)
    xyz /= np.abs(xyz).max(axis=(1, 2), keepdims=True)
    return torch.from_numpy(xyz), torch.from_numpy(label)


def farthest_points(xyz: Tensor, m: int) -> Tensor:
    """Indices (m,) of points of a cloud (n, 3) that lie far from each other."""
    picked = torch.zeros(m, dtype=torch.long)
    nearest = torch.full((xyz.shape[0],), float("inf"))
    last = 0
    for i in range(m):
        picked[i] = last
        nearest = torch.minimum(nearest, (xyz - xyz[last]).square().sum(-1))
        last = nearest.argmax()
    return picked


def gather(x: Tensor, idx: Tensor) -> Tensor:
    """x (B, N, C), idx (B, ...) -> (B, ..., C)"""
    rows = torch.arange(x.shape[0]).view(-1, *[1] * (idx.dim() - 1))
    return x[rows, idx]


class SetAbstraction(nn.Module):
    def __init__(self, m: int, k: int, cin: int, widths: tuple[int, ...]):
        super().__init__()
        self.m, self.k = m, k
        layers: list[nn.Module] = []
        for a, b in zip((cin + 3,) + widths, widths):
            layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()]
        self.mlp = nn.Sequential(*layers)

    def forward(self, xyz: Tensor, feat: Tensor | None) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            idx = torch.stack([farthest_points(cloud, self.m) for cloud in xyz])
            centre = gather(xyz, idx)
            near = torch.cdist(centre, xyz).topk(self.k, largest=False).indices
        local = gather(xyz, near) - centre.unsqueeze(2)
        if feat is not None:
            local = torch.cat([local, gather(feat, near)], -1)
        return centre, self.mlp(local).amax(2)


class ShapeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.low = SetAbstraction(64, 8, 0, (16, 32))
        self.high = SetAbstraction(16, 12, 32, (64, 96))
        self.head = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, len(KINDS)))

    def forward(self, xyz: Tensor) -> Tensor:
        xyz, feat = self.low(xyz, None)
        _, feat = self.high(xyz, feat)
        return self.head(feat.amax(1))


def fit(cfg: Config) -> None:
    torch.manual_seed(cfg.seed)
    xyz, label = load_clouds()
    cut = len(xyz) * 8 // 9
    train = DataLoader(TensorDataset(xyz[:cut], label[:cut]), cfg.batch_size, shuffle=True, drop_last=True)
    model = ShapeNet()
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        model.train()
        losses = []
        for cloud, y in train:
            loss = nn.functional.cross_entropy(model(cloud), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.inference_mode():
            acc = (model(xyz[cut:]).argmax(1) == label[cut:]).float().mean().item()
        print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}  test acc {acc:.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, value in vars(Config()).items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    fit(Config(**vars(parser.parse_args())))
