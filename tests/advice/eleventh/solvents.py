#!/usr/bin/env python
"""Predict a solvation-like energy of small molecules with a message-passing net."""
import argparse
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ELEMENTS = 8
RBF = 16
CUTOFF = 2.6
ZETAS = (1.0, 2.0, 4.0, 8.0, 16.0)
ETAS = (0.2, 1.0)


def make_molecules(n, seed):
    rng = np.random.default_rng(seed)
    charge = rng.normal(size=ELEMENTS)
    molecules = []
    for _ in range(n):
        atoms = int(rng.integers(10, 22))
        kind = rng.integers(0, ELEMENTS, atoms)
        xyz = (rng.normal(size=(atoms, 3)) * 1.6).astype(np.float32)
        gap = np.linalg.norm(xyz[:, None] - xyz[None], axis=-1) + np.eye(atoms)
        energy = (charge[kind][:, None] * charge[kind][None] * np.exp(-gap)).sum() / 10
        molecules.append((kind, xyz, np.float32(energy)))
    return molecules


class Molecules(Dataset):
    """Radius graph with radial-basis edge features, jittered coordinates."""

    def __init__(self, molecules, jitter=0.02):
        self.molecules = molecules
        self.jitter = jitter
        self.centres = torch.linspace(0, CUTOFF, RBF)

    def __len__(self):
        return len(self.molecules)

    def __getitem__(self, i):
        kind, xyz, energy = self.molecules[i]
        pos = torch.from_numpy(xyz)
        pos = pos + self.jitter * torch.randn_like(pos)
        dist = torch.cdist(pos, pos)
        near = (dist < CUTOFF) & ~torch.eye(len(pos), dtype=torch.bool)
        edges = near.nonzero().t().contiguous()
        attr = torch.exp(-8.0 * (dist[near][:, None] - self.centres) ** 2)
        return {"kind": torch.from_numpy(kind), "local": self.angular(pos, dist, near),
                "edges": edges, "attr": attr, "energy": torch.tensor(energy)}


    @staticmethod
    def angular(pos, dist, near):
        """Behler-Parrinello angular symmetry functions of every atom."""
        unit = (pos[None] - pos[:, None]) / dist.clamp(min=1e-3)[..., None]
        cosine = unit @ unit.transpose(1, 2)
        fade = 0.5 * (torch.cos(np.pi * dist / CUTOFF) + 1) * near
        out = []
        for eta in ETAS:
            radial = fade * torch.exp(-eta * dist ** 2)
            pair = radial[:, :, None] * radial[:, None, :]
            out += [(pair * (0.5 + 0.5 * cosine).clamp(min=0) ** z).sum((1, 2)) for z in ZETAS]
        return torch.stack(out, dim=1)


def merge(graphs):
    sizes = torch.tensor([len(g["kind"]) for g in graphs])
    offsets = torch.cumsum(sizes, 0) - sizes
    return {
        "kind": torch.cat([g["kind"] for g in graphs]),
        "local": torch.cat([g["local"] for g in graphs]),
        "edges": torch.cat([g["edges"] + o for g, o in zip(graphs, offsets)], dim=1),
        "attr": torch.cat([g["attr"] for g in graphs]),
        "owner": torch.repeat_interleave(torch.arange(len(graphs)), sizes),
        "energy": torch.stack([g["energy"] for g in graphs]),
    }


class MessagePassing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(width + RBF, width), nn.SiLU())
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU())

    def forward(self, h, edges, attr):
        src, dst = edges
        m = self.message(torch.cat([h[src], attr], dim=1))
        pooled = torch.zeros_like(h).index_add_(0, dst, m)
        return h + self.update(torch.cat([h, pooled], dim=1))


class EnergyNet(nn.Module):
    def __init__(self, width=64, depth=2):
        super().__init__()
        self.embed = nn.Embedding(ELEMENTS, width)
        self.local = nn.Linear(len(ETAS) * len(ZETAS), width)
        self.layers = nn.ModuleList(MessagePassing(width) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, b):
        h = self.embed(b["kind"]) + self.local(b["local"])
        for layer in self.layers:
            h = layer(h, b["edges"], b["attr"])
        per_atom = self.readout(h).squeeze(-1)
        return torch.zeros(len(b["energy"])).index_add_(0, b["owner"], per_atom)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", 6)))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    opt = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    loader = DataLoader(Molecules(make_molecules(2400, 1)), batch_size=opt.batch_size, shuffle=True,
                        num_workers=2, persistent_workers=True, collate_fn=list)
    net = EnergyNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=opt.lr)
    for epoch in range(opt.epochs):
        began, total, absolute, n = time.time(), 0.0, 0.0, 0
        for graphs in loader:
            batch = merge(graphs)
            pred = net(batch)
            loss = nn.functional.huber_loss(pred, batch["energy"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(pred)
            absolute += (pred.detach() - batch["energy"]).abs().sum().item()
            n += len(pred)
        print(f"epoch {epoch + 1}/{opt.epochs} huber {total / n:.4f} mae {absolute / n:.4f} "
              f"{time.time() - began:.1f}s")


if __name__ == "__main__":
    main()
