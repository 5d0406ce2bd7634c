"""Label the parts of scanned tools (handle, head, joint, screw) point by point with edge convolutions."""
from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

PARTS = 4


@dataclasses.dataclass
class Config:
    data: pathlib.Path = pathlib.Path("data/scanparts")
    scans: int = 160
    points: int = 1024
    neighbours: int = 10
    width: int = 24
    depth: int = 5
    batch_size: int = 4
    epochs: int = 3
    lr: float = 2e-3
    workers: int = 1
    seed: int = 9

    @classmethod
    def from_command_line(cls) -> Config:
        parser = argparse.ArgumentParser(description=__doc__)
        for field in dataclasses.fields(cls):
            parser.add_argument("--" + field.name.replace("_", "-"), type=type(field.default), default=field.default)
        return cls(**vars(parser.parse_args()))


def scan_tool(rng: np.random.Generator, points: int) -> tuple[np.ndarray, np.ndarray]:
    part = rng.choice(PARTS, points, p=[0.45, 0.3, 0.15, 0.1])
    angle = rng.uniform(0, 2 * np.pi, points)
    height = rng.uniform(0, 1, points)
    length, radius = rng.uniform(1.2, 2.0), rng.uniform(0.1, 0.2)
    handle = np.stack([radius * np.cos(angle), radius * np.sin(angle), length * height], 1)
    head = np.stack([rng.uniform(-0.6, 0.6, points), rng.uniform(-0.2, 0.2, points), length + 0.3 * height], 1)
    joint = np.stack([0.25 * np.cos(angle), 0.25 * np.sin(angle), length - 0.1 + 0.1 * height], 1)
    screw = np.stack([0.6 + 0.05 * np.cos(angle), 0.05 * np.sin(angle), length + 0.3 * height], 1)
    xyz = np.stack([handle, head, joint, screw])[part, np.arange(points)]
    xyz += 0.01 * rng.standard_normal(xyz.shape)
    return xyz.astype(np.float32), part.astype(np.uint8)


def make_data(config: Config) -> None:
    done = config.data / "complete"
    if done.exists():
        return
    config.data.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(31)
    for i in range(config.scans):
        xyz, part = scan_tool(rng, 1500)
        np.savez(config.data / f"scan{i:04d}.npz", xyz=xyz, part=part)
    done.touch()


class Scans(Dataset):
    def __init__(self, config: Config, files: list[pathlib.Path], augment: bool):
        self.files = files
        self.points = config.points
        self.augment = augment

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        with np.load(self.files[index]) as scan:
            xyz, part = torch.from_numpy(scan["xyz"]), torch.from_numpy(scan["part"])
        keep = torch.randperm(len(xyz))[: self.points] if self.augment else slice(0, self.points)
        xyz, part = xyz[keep], part[keep].long()
        if self.augment:
            turn = torch.rand(()) * 6.2832
            c, s = turn.cos(), turn.sin()
            xyz = xyz @ torch.tensor([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        return xyz - xyz.mean(0), part


def nearest(xyz: Tensor, k: int) -> Tensor:
    """Indices (batch, points, k) of the k nearest points, the point itself left out."""
    distance = torch.cdist(xyz, xyz)
    return distance.topk(k + 1, largest=False).indices[..., 1:]


def gather(features: Tensor, index: Tensor) -> Tensor:
    b, n, k = index.shape
    flat = index + torch.arange(b).view(b, 1, 1) * n
    return features.flatten(0, 1).index_select(0, flat.flatten()).view(b, n, k, -1)


class EdgeConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, k: int):
        super().__init__()
        self.k = k
        self.centre = nn.Linear(inputs, outputs)
        self.offset = nn.Linear(inputs, outputs, bias=False)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, features: Tensor, xyz: Tensor) -> Tensor:
        index = nearest(xyz, self.k)
        around = gather(self.offset(features), index).amax(2)
        return F.relu(self.norm(self.centre(features) + around))


class PartNet(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        sizes = [3] + [config.width] * config.depth
        self.convs = nn.ModuleList(EdgeConv(a, b, config.neighbours) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Sequential(
            nn.Linear(sum(sizes[1:]) + config.width, 64), nn.ReLU(), nn.Linear(64, PARTS),
        )

    def forward(self, xyz: Tensor) -> Tensor:
        features, kept = xyz, []
        for conv in self.convs:
            features = conv(features, xyz)
            kept.append(features)
        whole = features.amax(1, keepdim=True).expand_as(features)
        return self.head(torch.cat([*kept, whole], -1))


def train(config: Config, model: PartNet, loader: DataLoader) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    for epoch in range(config.epochs):
        model.train()
        start, losses = time.monotonic(), []
        for xyz, part in loader:
            loss = F.cross_entropy(model(xyz).flatten(0, 1), part.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch}: loss {torch.stack(losses).mean():.4f} in {time.monotonic() - start:.1f} s", flush=True)


@torch.inference_mode()
def accuracy(model: PartNet, loader: DataLoader) -> float:
    model.eval()
    hits = torch.cat([(model(xyz).argmax(-1) == part).flatten() for xyz, part in loader])
    return hits.float().mean().item()


def main() -> None:
    config = Config.from_command_line()
    make_data(config)
    torch.manual_seed(config.seed)
    files = sorted(config.data.glob("scan*.npz"))
    split = len(files) * 9 // 10
    loader = DataLoader(Scans(config, files[:split], True), batch_size=config.batch_size, shuffle=True, drop_last=True,
                        num_workers=config.workers, persistent_workers=True)
    held_out = DataLoader(Scans(config, files[split:], False), batch_size=config.batch_size)
    model = PartNet(config)
    train(config, model, loader)
    print(f"held-out accuracy {accuracy(model, held_out):.4f}")
    torch.save(model.state_dict(), os.path.join(config.data, "partnet.pt"))


if __name__ == "__main__":
    main()
