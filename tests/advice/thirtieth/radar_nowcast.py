"""Precipitation nowcasting on radar composites: predict the next frame from the last seven.

Composites are archived as tar shards (one shard per storm episode, one .npz per sequence).
Shards live in the institute's archive and are staged on first access.
"""
from __future__ import annotations

import argparse
import io
import json
import logging
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

log = logging.getLogger("nowcast")


@dataclass
class NowcastConfig:
    data: Path = Path("data/radar_nowcast")
    epochs: int = 2
    batch_size: int = 8
    lr: float = 1e-3
    hidden: int = 16
    n_workers: int = 2
    staging_s: float = 1.3
    seed: int = 5


# ------------------------------------------------------------------ archive
class RadarArchive:
    """Index of episodes plus access to their shards."""

    SIZE, FRAMES = 48, 8

    def __init__(self, cfg: NowcastConfig):
        self.root = Path(cfg.data)
        self.staging_s = cfg.staging_s
        index = self.root / "episodes.json"
        if not index.exists():
            self._simulate(index)
        self.episodes: list[dict] = json.loads(index.read_text())

    def _simulate(self, index: Path) -> None:
        rng = np.random.default_rng(8)
        self.root.mkdir(parents=True, exist_ok=True)
        yy, xx = np.mgrid[:self.SIZE, :self.SIZE]
        episodes = []
        for e, count in enumerate([96, 168, 144, 128, 136, 144, 128, 104]):
            name = f"episode_{e:02d}.tar"
            with tarfile.open(self.root / name, "w") as tar:
                for s in range(count):
                    cells = rng.uniform([0, 0, -2, -2, 3, 60], [48, 48, 2, 2, 9, 220], size=(5, 6))
                    seq = np.zeros((self.FRAMES, self.SIZE, self.SIZE), np.float32)
                    for y, x, vy, vx, r, a in cells:
                        for t in range(self.FRAMES):
                            seq[t] += a * np.exp(-((yy - y - vy * t) ** 2 + (xx - x - vx * t) ** 2) / (2 * r * r))
                    buf = io.BytesIO()
                    np.savez(buf, dbz=np.clip(seq, 0, 255).astype(np.uint8))
                    info = tarfile.TarInfo(f"{s:04d}.npz")
                    info.size = buf.tell()
                    buf.seek(0)
                    tar.addfile(info, buf)
            episodes.append({"shard": name, "sequences": count})
        index.write_text(json.dumps(episodes))

    def stage(self, name: str) -> Path:
        """Ask the archive for a shard; returns when the robot has put it on the cache disk."""
        time.sleep(self.staging_s)
        return self.root / name


class RadarSequences(IterableDataset):
    def __init__(self, archive: RadarArchive, episodes: list[dict]):
        self.archive, self.episodes = archive, episodes
        self.epoch = 0

    def __iter__(self):
        info = get_worker_info()
        wid, n = (info.id, info.num_workers) if info else (0, 1)
        for ep in self.episodes[wid::n]:
            with tarfile.open(self.archive.stage(ep["shard"])) as tar:
                for member in tar:
                    with np.load(io.BytesIO(tar.extractfile(member).read())) as z:
                        dbz = z["dbz"]
                    yield torch.from_numpy(dbz[:-1]), torch.from_numpy(dbz[-1:])


# ------------------------------------------------------------------ model
class ResidualBlock(nn.Module):
    def __init__(self, c: int):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1)
        self.b = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(torch.relu(x))))


class NowcastNet(nn.Module):
    def __init__(self, frames: int, hidden: int):
        super().__init__()
        self.stem = nn.Conv2d(frames, hidden, 5, padding=2)
        self.down = nn.Conv2d(hidden, hidden * 2, 3, stride=2, padding=1)
        self.body = nn.Sequential(*[ResidualBlock(hidden * 2) for _ in range(3)])
        self.up = nn.ConvTranspose2d(hidden * 2, hidden, 2, stride=2)
        self.out = nn.Conv2d(hidden, 1, 3, padding=1)

    def forward(self, x):
        h = self.stem(x)
        y = self.up(self.body(self.down(torch.relu(h))))
        return x[:, -1:] + self.out(torch.relu(h + y))


# ------------------------------------------------------------------ trainer
class NowcastTrainer:
    def __init__(self, cfg: NowcastConfig):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.archive = RadarArchive(cfg)
        self.dataset = RadarSequences(self.archive, self.archive.episodes)
        self.model = NowcastNet(RadarArchive.FRAMES - 1, cfg.hidden)
        self.optim = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.global_step = 0
        self.history: list[dict] = []

    def build_loader(self) -> DataLoader:
        return DataLoader(
            self.dataset,
            batch_size=self.cfg.batch_size,
            num_workers=self.cfg.n_workers,
            persistent_workers=True,
        )

    def training_step(self, past: torch.Tensor, target: torch.Tensor) -> dict:
        past = past.float().div_(255)
        target = target.float().div_(255)
        pred = self.model(past)
        weight = 1 + 4 * target
        loss = (weight * (pred - target).abs()).mean()
        self.optim.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optim.step()
        self.global_step += 1
        with torch.no_grad():
            hit = ((pred > 0.4) & (target > 0.4)).sum().item()
            union = ((pred > 0.4) | (target > 0.4)).sum().item()
        return {"loss": loss.item(), "hit": hit, "union": union}

    def fit(self) -> None:
        loader = self.build_loader()
        for epoch in range(self.cfg.epochs):
            self.model.train()
            losses, hit, union = [], 0, 0
            for past, target in loader:
                out = self.training_step(past, target)
                losses.append(out["loss"])
                hit += out["hit"]
                union += out["union"]
                if self.global_step % 40 == 0:
                    log.info("step %d loss %.4f", self.global_step, np.mean(losses[-40:]))
            row = {"epoch": epoch, "loss": float(np.mean(losses)), "csi": hit / max(union, 1)}
            self.history.append(row)
            print(json.dumps(row), flush=True)
        self.save()

    def save(self) -> None:
        torch.save(self.model.state_dict(), self.archive.root / "nowcast.pt")
        (self.archive.root / "history.json").write_text(json.dumps(self.history))


def cli() -> NowcastConfig:
    p = argparse.ArgumentParser()
    p.add_argument("--data", type=Path, default=NowcastConfig.data)
    p.add_argument("--epochs", type=int, default=NowcastConfig.epochs)
    p.add_argument("--batch-size", type=int, default=NowcastConfig.batch_size)
    p.add_argument("--n-workers", type=int, default=NowcastConfig.n_workers)
    return NowcastConfig(**vars(p.parse_args()))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    NowcastTrainer(cli()).fit()
