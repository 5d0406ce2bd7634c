"""Message passing network that regresses a solubility-like property of small molecules."""
import os
import tempfile
import time

import numpy as np
import torch
import torch.multiprocessing
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 7))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "mol_property_gnn")
N_MOLECULES = 6400
BATCH = 128
ATOM_FEATS = 24
BOND_FEATS = 6

torch.multiprocessing.set_sharing_strategy("file_system")


def build_molecules():
    path = os.path.join(ROOT, "molecules.npz")
    if os.path.exists(path):
        return path
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(5)
    n_atoms = rng.integers(9, 30, N_MOLECULES)
    atom_ptr = np.concatenate([[0], np.cumsum(n_atoms)])
    atoms = rng.normal(size=(atom_ptr[-1], ATOM_FEATS)).astype(np.float32)
    src, dst, bond_ptr = [], [], [0]
    for n in n_atoms:
        chain = np.arange(n - 1)
        ring = rng.integers(0, n, (2, n // 4))
        a = np.concatenate([chain, chain + 1, ring[0], ring[1]])
        b = np.concatenate([chain + 1, chain, ring[1], ring[0]])
        src.append(a)
        dst.append(b)
        bond_ptr.append(bond_ptr[-1] + len(a))
    bonds = rng.normal(size=(bond_ptr[-1], BOND_FEATS)).astype(np.float32)
    target = np.add.reduceat(atoms[:, 0] * atoms[:, 1], atom_ptr[:-1]).astype(np.float32)
    np.savez(path, atoms=atoms, atom_ptr=atom_ptr, bonds=bonds, bond_ptr=np.array(bond_ptr),
             edges=np.stack([np.concatenate(src), np.concatenate(dst)]), target=target)
    return path


class MoleculeDataset(Dataset):
    def __init__(self, path):
        with np.load(path) as f:
            self.arrays = {k: f[k] for k in f.files}

    def __len__(self):
        return len(self.arrays["target"])

    def __getitem__(self, i):
        z = self.arrays
        a0, a1 = z["atom_ptr"][i], z["atom_ptr"][i + 1]
        b0, b1 = z["bond_ptr"][i], z["bond_ptr"][i + 1]
        return {
            "x": torch.tensor(z["atoms"][a0:a1]),
            "edge_index": torch.tensor(z["edges"][:, b0:b1]),
            "edge_attr": torch.tensor(z["bonds"][b0:b1]),
            "y": torch.tensor(z["target"][i:i + 1]),
        }


def merge_graphs(graphs):
    sizes = torch.tensor([len(g["x"]) for g in graphs])
    offsets = torch.cumsum(sizes, 0) - sizes
    return {
        "x": torch.cat([g["x"] for g in graphs]),
        "edge_index": torch.cat([g["edge_index"] + o for g, o in zip(graphs, offsets)], dim=1),
        "edge_attr": torch.cat([g["edge_attr"] for g in graphs]),
        "y": torch.cat([g["y"] for g in graphs]),
        "owner": torch.repeat_interleave(torch.arange(len(graphs)), sizes),
    }


class EdgeConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(dim + BOND_FEATS, dim), nn.ReLU())
        self.update = nn.Linear(2 * dim, dim)

    def forward(self, h, edge_index, edge_attr):
        m = self.message(torch.cat([h[edge_index[0]], edge_attr], 1))
        pooled = torch.zeros_like(h).index_add(0, edge_index[1], m)
        return torch.relu(self.update(torch.cat([h, pooled], 1))) + h


class PropertyNet(nn.Module):
    def __init__(self, dim=64, depth=3):
        super().__init__()
        self.embed = nn.Linear(ATOM_FEATS, dim)
        self.convs = nn.ModuleList(EdgeConv(dim) for _ in range(depth))
        self.readout = nn.Linear(dim, 1)

    def forward(self, b):
        h = self.embed(b["x"])
        for conv in self.convs:
            h = conv(h, b["edge_index"], b["edge_attr"])
        pooled = torch.zeros(len(b["y"]), h.shape[1]).index_add(0, b["owner"], h)
        return self.readout(pooled).squeeze(1)


def main():
    torch.manual_seed(0)
    dataset = MoleculeDataset(build_molecules())
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=2, collate_fn=list)
    model = PropertyNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        started, total = time.time(), 0.0
        for graphs in loader:
            batch = merge_graphs(graphs)
            loss = nn.functional.smooth_l1_loss(model(batch), batch["y"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: huber {total / len(loader):.4f}, {time.time() - started:.1f}s", flush=True)


if __name__ == "__main__":
    main()
