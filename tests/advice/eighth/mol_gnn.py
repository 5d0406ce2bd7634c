"""Property regression on random molecule-like graphs, dense message passing."""
from __future__ import annotations

import os
import time
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

EPOCHS: int = int(os.environ.get("EPOCHS", "2"))
ATOM_TYPES = 9
MAX_ATOMS = 28


class Graph(NamedTuple):
    atoms: Tensor      # (n,) int64
    bonds: Tensor      # (n, n) float32, symmetric
    target: float


def random_molecule(rng: np.random.Generator) -> Graph:
    n = int(rng.integers(14, MAX_ATOMS + 1))
    atoms = rng.integers(1, ATOM_TYPES, n)
    bonds = np.zeros((n, n), dtype=np.float32)
    for v in range(1, n):                       # a random tree first
        u = int(rng.integers(max(0, v - 4), v))
        bonds[u, v] = bonds[v, u] = 1.0
    for _ in range(int(rng.integers(0, 4))):    # then some rings
        u, v = rng.choice(n, 2, replace=False)
        bonds[u, v] = bonds[v, u] = 1.5
    target = float(atoms.mean() - 4.5 + 0.2 * (bonds.sum() / 2 - n) + rng.normal(0, 0.05))
    return Graph(torch.from_numpy(atoms), torch.from_numpy(bonds), target)


class Molecules(Dataset):
    def __init__(self, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.graphs = [random_molecule(rng) for _ in range(n)]

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, i: int) -> Graph:
        return self.graphs[i]


def collate(graphs: list[Graph]) -> tuple[Tensor, Tensor, Tensor]:
    b = len(graphs)
    atoms = torch.zeros(b, MAX_ATOMS, dtype=torch.long)
    adj = torch.zeros(b, MAX_ATOMS, MAX_ATOMS)
    for k, g in enumerate(graphs):
        n = len(g.atoms)
        atoms[k, :n] = g.atoms
        adj[k, :n, :n] = g.bonds
    return atoms, adj, torch.tensor([g.target for g in graphs])


class MessageLayer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.upd = nn.GRUCell(dim, dim)

    def forward(self, h: Tensor, adj: Tensor) -> Tensor:
        m = adj @ self.msg(h)
        b, n, d = h.shape
        return self.upd(m.reshape(b * n, d), h.reshape(b * n, d)).view(b, n, d)


class MPNN(nn.Module):
    def __init__(self, dim: int = 48, depth: int = 3) -> None:
        super().__init__()
        self.embed = nn.Embedding(ATOM_TYPES, dim, padding_idx=0)
        self.layers = nn.ModuleList(MessageLayer(dim) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, atoms: Tensor, adj: Tensor) -> Tensor:
        mask = (atoms > 0).unsqueeze(-1).float()
        h = self.embed(atoms)
        for layer in self.layers:
            h = layer(h, adj) * mask
        return self.readout(h.sum(1) / mask.sum(1)).squeeze(-1)


def main() -> None:
    torch.manual_seed(3)
    data = Molecules(2304, seed=3)
    loader = DataLoader(data, batch_size=48, shuffle=True, collate_fn=collate)
    model = MPNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, EPOCHS))

    for epoch in range(EPOCHS):
        tic = time.perf_counter()
        mae = 0.0
        for atoms, adj, target in loader:
            pred = model(atoms, adj)
            loss = nn.functional.mse_loss(pred, target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            mae += (pred.detach() - target).abs().sum().item()
        scheduler.step()
        print(f"{epoch:3d}  mae {mae / len(data):.4f}  {time.perf_counter() - tic:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
