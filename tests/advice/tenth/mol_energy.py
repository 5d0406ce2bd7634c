"""Message passing network for molecular energies (synthetic conformers, no rdkit needed)."""
import os
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 11))
N_MOLS = 960
BATCH = 20
CUTOFF = 2.2          # Angstrom
N_RBF = 16
ELEMENTS = [1, 6, 7, 8, 9]


def make_molecules(n, seed=3):
    """Self-avoiding-ish random chains; energy from a Morse-like pair term."""
    rng = np.random.default_rng(seed)
    mols = []
    for _ in range(n):
        k = int(rng.integers(9, 19))
        step = rng.normal(size=(k, 3))
        step *= 1.4 / np.linalg.norm(step, axis=1, keepdims=True)
        pos = np.cumsum(step, 0).astype(np.float32)
        z = rng.integers(0, len(ELEMENTS), k)
        d = np.linalg.norm(pos[:, None] - pos[None], axis=-1)[np.triu_indices(k, 1)]
        e = ((1 - np.exp(-(d - 1.4))) ** 2 * (d < 3)).sum() * 0.1 - 0.2 * z.sum()
        mols.append((z, pos, float(e)))
    return mols


@dataclass
class Batch:
    z: torch.Tensor
    edge_index: torch.Tensor
    edge_attr: torch.Tensor
    graph: torch.Tensor
    y: torch.Tensor


def collate_mols(items):
    """Disjoint union of the graphs."""
    sizes = [len(m["z"]) for m in items]
    offset = np.cumsum([0] + sizes[:-1])
    return Batch(
        z=torch.cat([m["z"] for m in items]),
        edge_index=torch.cat([m["edge_index"] + int(o) for m, o in zip(items, offset)], 1),
        edge_attr=torch.cat([m["edge_attr"] for m in items]),
        graph=torch.repeat_interleave(torch.arange(len(items)), torch.tensor(sizes)),
        y=torch.stack([m["y"] for m in items]),
    )


class MolDataset(Dataset):
    def __init__(self, mols):
        self.mols = mols
        self.centers = torch.linspace(0.5, CUTOFF, N_RBF)

    def __len__(self):
        return len(self.mols)

    def __getitem__(self, i):
        z, pos, e = self.mols[i]
        pos = torch.from_numpy(pos) + 0.02 * torch.randn(len(z), 3)   # jitter
        d = torch.cdist(pos, pos)
        d.fill_diagonal_(1e3)
        edge_index = (d < CUTOFF).nonzero().t().contiguous()
        dist = d[edge_index[0], edge_index[1]]
        rbf = torch.exp(-10.0 * (dist[:, None] - self.centers) ** 2)
        return {"z": torch.from_numpy(z), "edge_index": edge_index, "edge_attr": rbf,
                "y": torch.tensor(e, dtype=torch.float32)}


class MPNN(nn.Module):
    def __init__(self, h=48, layers=3):
        super().__init__()
        self.emb = nn.Embedding(len(ELEMENTS), h)
        self.msg = nn.ModuleList(nn.Linear(2 * h + N_RBF, h) for _ in range(layers))
        self.upd = nn.ModuleList(nn.GRUCell(h, h) for _ in range(layers))
        self.out = nn.Sequential(nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 1))

    def forward(self, b):
        h = self.emb(b.z)
        src, dst = b.edge_index
        for msg, upd in zip(self.msg, self.upd):
            m = torch.nn.functional.silu(msg(torch.cat([h[src], h[dst], b.edge_attr], 1)))
            h = upd(torch.zeros_like(h).index_add_(0, dst, m), h)
        atom_e = self.out(h).squeeze(1)
        return torch.zeros_like(b.y).index_add_(0, b.graph, atom_e)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    mols = make_molecules(N_MOLS)
    y = np.array([m[2] for m in mols])
    mols = [(z, p, (e - y.mean()) / y.std()) for z, p, e in mols]
    loader = DataLoader(MolDataset(mols), batch_size=BATCH, shuffle=True, num_workers=2,
                        persistent_workers=True, collate_fn=list)
    model = MPNN()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        mae = 0.0
        for items in loader:
            batch = collate_mols(items)
            pred = model(batch)
            loss = nn.functional.smooth_l1_loss(pred, batch.y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            mae += (pred - batch.y).abs().sum().item()
        print(f"epoch {epoch + 1}/{EPOCHS}   train MAE {mae / N_MOLS:.4f} (normalised)")


if __name__ == "__main__":
    main()
