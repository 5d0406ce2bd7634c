"""Continuous-filter message passing network for molecular energies (synthetic QM-style conformers)."""
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parent / "data" / "molnet"


@dataclass
class Config:
    epochs: int = int(os.environ.get("EPOCHS", 6))
    batch_size: int = 32
    hidden: int = 64
    layers: int = 3
    n_rbf: int = 32
    cutoff: float = 4.5
    lr: float = 1e-3
    workers: int = 2
    n_molecules: int = 4096
    seed: int = 7


def make_data(cfg):
    path = ROOT / "conformers.npz"
    if path.exists():
        return path
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(cfg.seed)
    sizes = rng.integers(8, 22, cfg.n_molecules)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    species = rng.choice([1, 6, 7, 8, 9], size=offsets[-1], p=[0.5, 0.3, 0.08, 0.1, 0.02]).astype(np.int64)
    pos = np.empty((offsets[-1], 3), np.float32)
    energy = np.empty(cfg.n_molecules, np.float32)
    for i, (a, b) in enumerate(zip(offsets[:-1], offsets[1:])):
        pos[a:b] = np.cumsum(rng.normal(0, 0.9, (b - a, 3)), 0)
        d = np.linalg.norm(pos[a:b, None] - pos[None, a:b], axis=-1) + np.eye(b - a)
        energy[i] = (species[a:b].sum() / 50.0) - np.exp(-d).sum() * 0.1
    np.savez(path, offsets=offsets, species=species, pos=pos, energy=energy)
    return path


class Conformers(Dataset):
    """One molecule per item: atoms, edge list within the cutoff, expanded distances, target."""

    def __init__(self, path, cfg):
        z = np.load(path)
        self.offsets, self.species, self.pos, self.energy = (z[k] for k in ("offsets", "species", "pos", "energy"))
        self.energy = (self.energy - self.energy.mean()) / self.energy.std()
        self.cfg = cfg
        self.centers = torch.linspace(0.0, cfg.cutoff, cfg.n_rbf)

    def __len__(self):
        return len(self.energy)

    def __getitem__(self, i):
        a, b = self.offsets[i], self.offsets[i + 1]
        pos = torch.from_numpy(self.pos[a:b])
        dist = torch.cdist(pos, pos)
        mask = (dist < self.cfg.cutoff) & ~torch.eye(len(pos), dtype=torch.bool)
        edges = mask.nonzero().t().contiguous()
        rbf = torch.exp(-4.0 * (dist[mask][:, None] - self.centers) ** 2)
        return {
            "z": torch.from_numpy(self.species[a:b]),
            "pos": pos,
            "edges": edges,
            "rbf": rbf,
            "y": torch.tensor(self.energy[i]),
        }


def merge_graphs(mols):
    """Disjoint union of a list of molecules."""
    counts = [len(m["z"]) for m in mols]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
    return {
        "z": torch.cat([m["z"] for m in mols]),
        "pos": torch.cat([m["pos"] for m in mols]),
        "edges": torch.cat([m["edges"] + s for m, s in zip(mols, starts)], dim=1),
        "rbf": torch.cat([m["rbf"] for m in mols]),
        "graph": torch.repeat_interleave(torch.arange(len(mols)), torch.tensor(counts)),
        "y": torch.stack([m["y"] for m in mols]),
    }


class Interaction(nn.Module):
    def __init__(self, hidden, n_rbf):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(n_rbf, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.update = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden))

    def forward(self, h, edges, rbf):
        msg = h[edges[1]] * self.filter(rbf)
        agg = torch.zeros_like(h).index_add_(0, edges[0], msg)
        return h + self.update(agg)


class EnergyNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(20, cfg.hidden)
        self.blocks = nn.ModuleList(Interaction(cfg.hidden, cfg.n_rbf) for _ in range(cfg.layers))
        self.head = nn.Sequential(nn.Linear(cfg.hidden, cfg.hidden), nn.SiLU(), nn.Linear(cfg.hidden, 1))

    def forward(self, g):
        h = self.embed(g["z"])
        for block in self.blocks:
            h = block(h, g["edges"], g["rbf"])
        atom = self.head(h).squeeze(-1)
        return torch.zeros(len(g["y"])).index_add_(0, g["graph"], atom)


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        self.data = Conformers(make_data(cfg), cfg)
        self.loader = DataLoader(
            self.data,
            batch_size=cfg.batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=cfg.workers,
            persistent_workers=True,
            collate_fn=list,
        )
        self.model = EnergyNet(cfg)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)

    def train_epoch(self):
        total, count = 0.0, 0
        for mols in self.loader:
            graph = merge_graphs(mols)
            loss = F.smooth_l1_loss(self.model(graph), graph["y"])
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            total += loss.item()
            count += 1
        return total / count

    def fit(self):
        for epoch in range(self.cfg.epochs):
            t0 = time.time()
            loss = self.train_epoch()
            print(f"epoch {epoch:02d}  loss {loss:.4f}  {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    Trainer(Config()).fit()
