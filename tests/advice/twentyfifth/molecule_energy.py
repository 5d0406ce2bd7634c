"""Energy regression on small molecular graphs with a continuous-filter message-passing net."""
import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "molecule_energy"
MOLECULES = 3600
ELEMENTS = np.array([1, 6, 7, 8, 9])
CUTOFF = 2.4


def make_data():
    if (DATA / "molecules.npz").exists():
        return
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    counts = rng.integers(9, 20, MOLECULES)
    starts = np.concatenate([[0], np.cumsum(counts)])
    numbers = rng.choice(ELEMENTS, starts[-1], p=[0.5, 0.3, 0.08, 0.1, 0.02])
    positions = np.zeros((starts[-1], 3), np.float32)
    energies = np.zeros(MOLECULES, np.float32)
    for m in range(MOLECULES):
        a, b = starts[m], starts[m + 1]
        steps = rng.normal(size=(b - a, 3))
        steps *= 1.3 / np.linalg.norm(steps, axis=1, keepdims=True)
        xyz = np.cumsum(steps, 0)
        xyz -= xyz.mean(0)
        gap = np.linalg.norm(xyz[:, None] - xyz[None], axis=-1) + np.eye(b - a)
        charge = np.sqrt(numbers[a:b])
        energies[m] = (np.outer(charge, charge) * np.exp(-gap)).sum() / (b - a) - 0.2 * charge.sum()
        positions[a:b] = xyz
    energies = (energies - energies.mean()) / energies.std()
    np.savez(DATA / "molecules.npz", starts=starts, numbers=numbers, positions=positions, energies=energies)


class MoleculeDataset(Dataset):
    def __init__(self):
        with np.load(DATA / "molecules.npz") as f:
            self.starts = f["starts"]
            self.numbers = f["numbers"].astype(np.int64)
            self.positions = f["positions"]
            self.energies = f["energies"]

    def __len__(self):
        return len(self.energies)

    def __getitem__(self, index):
        a, b = self.starts[index], self.starts[index + 1]
        xyz = torch.from_numpy(self.positions[a:b])
        gap = torch.cdist(xyz, xyz)
        gap.fill_diagonal_(CUTOFF + 1)
        edges = (gap < CUTOFF).nonzero().T
        return {
            "z": torch.from_numpy(self.numbers[a:b]),
            "edges": edges,
            "length": gap[edges[0], edges[1]],
            "y": torch.tensor(self.energies[index]),
        }


def merge_graphs(items):
    """One big disconnected graph out of many small ones."""
    sizes = torch.tensor([len(item["z"]) for item in items])
    shift = torch.cumsum(sizes, 0) - sizes
    return {
        "z": torch.cat([item["z"] for item in items]),
        "edges": torch.cat([item["edges"] + s for item, s in zip(items, shift)], dim=1),
        "length": torch.cat([item["length"] for item in items]),
        "owner": torch.repeat_interleave(torch.arange(len(items)), sizes),
        "y": torch.stack([item["y"] for item in items]),
    }


class FilterLayer(nn.Module):
    def __init__(self, width, basis):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(basis, width), nn.SiLU(), nn.Linear(width, width))
        self.update = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, h, edges, rbf):
        message = h[edges[0]] * self.filter(rbf)
        return h + self.update(torch.zeros_like(h).index_add_(0, edges[1], message))


class EnergyNet(nn.Module):
    def __init__(self, width=48, basis=24, depth=3):
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.register_buffer("centres", torch.linspace(0, CUTOFF, basis))
        self.layers = nn.ModuleList(FilterLayer(width, basis) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, graph):
        rbf = torch.exp(-20 * (graph["length"][:, None] - self.centres) ** 2)
        h = self.embed(graph["z"])
        for layer in self.layers:
            h = layer(h, graph["edges"], rbf)
        atomwise = self.head(h).squeeze(1)
        return torch.zeros(len(graph["y"])).index_add_(0, graph["owner"], atomwise)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.set_num_threads(1)
    torch.manual_seed(0)
    full = MoleculeDataset()
    train_set, val_set = random_split(full, [MOLECULES - 400, 400])
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=2,
                              collate_fn=list, persistent_workers=True)
    val_batch = merge_graphs([val_set[i] for i in range(len(val_set))])
    model = EnergyNet()
    optimiser = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        began = time.time()
        model.train()
        total = 0.0
        for batch in train_loader:
            graph = merge_graphs(batch)
            loss = F.smooth_l1_loss(model(graph), graph["y"])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            mae = F.l1_loss(model(val_batch), val_batch["y"]).item()
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} val mae {mae:.4f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
