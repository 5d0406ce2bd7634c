#!/usr/bin/env python
# coding: utf-8

# # Aqueous solubility from molecular graphs
# Exported from `solubility.ipynb`.

# In[1]:

import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

DATA = sys.argv[sys.argv.index("--data") + 1] if "--data" in sys.argv else "data/solubility"
MOLECULES = 4000
ELEMENTS = 9
BONDS = 4

# In[2]:


def random_molecule(rng):
    """A random tree of atoms plus a few ring closures; entries of `adj` are bond orders 1..4."""
    n = int(rng.integers(24, 60))
    atoms = rng.choice(ELEMENTS, n, p=np.array([40, 14, 14, 8, 7, 6, 5, 4, 2]) / 100)
    adj = np.zeros((n, n), np.float32)
    for a in range(1, n):
        b = int(rng.integers(max(0, a - 4), a))
        adj[a, b] = adj[b, a] = rng.choice([1, 1, 1, 2, 3, 4])
    for _ in range(n // 8):
        a, b = rng.integers(0, n, 2)
        if a != b:
            adj[a, b] = adj[b, a] = 4
    polar = np.isin(atoms, [1, 2, 4]).mean()
    aromatic = (adj == 4).sum() / n
    return atoms, adj, 3.0 * polar - 1.2 * aromatic - 0.02 * n + rng.normal(0, 0.05)


path = os.path.join(DATA, "molecules.pt")
if not os.path.exists(path):
    os.makedirs(DATA, exist_ok=True)
    rng = np.random.default_rng(77)
    rows = [random_molecule(rng) for _ in range(MOLECULES)]
    torch.save([{"atoms": torch.from_numpy(a), "adj": torch.from_numpy(m), "y": float(y)} for a, m, y in rows], path)

# In[3]:

mols = torch.load(path, weights_only=False)
ys = np.array([m["y"] for m in mols])
mu, sd = ys.mean(), ys.std()
print(len(mols), "molecules, mean atoms", round(float(np.mean([len(m["atoms"]) for m in mols])), 2))

# In[4]:


class MolDataset(torch.utils.data.Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        m = self.items[i]
        x = F.one_hot(m["atoms"], ELEMENTS).float()
        degree = (m["adj"] > 0).sum(1, keepdim=True).float()
        return torch.cat([x, degree / 4], dim=1), m["adj"], (m["y"] - mu) / sd


def batch_graphs(samples):
    xs, adjs, y = zip(*samples)
    bonds = torch.block_diag(*adjs)
    edge_index = bonds.nonzero().t().contiguous()
    edge_type = bonds[edge_index[0], edge_index[1]].long() - 1
    owner = torch.repeat_interleave(torch.arange(len(xs)), torch.tensor([len(x) for x in xs]))
    return torch.cat(xs), edge_index, edge_type, owner, torch.tensor(y, dtype=torch.float32)


# In[5]:


class RelConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bond = nn.Embedding(BONDS, dim)
        self.msg = nn.Linear(dim, dim)
        self.upd = nn.Sequential(nn.Linear(2 * dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, edge_index, edge_type):
        src, dst = edge_index
        m = torch.relu(self.msg(h).index_select(0, src) + self.bond(edge_type))
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        return self.norm(h + self.upd(torch.cat([h, agg], dim=1)))


class Net(nn.Module):
    def __init__(self, dim=64, depth=3):
        super().__init__()
        self.inp = nn.Linear(ELEMENTS + 1, dim)
        self.convs = nn.ModuleList([RelConv(dim) for _ in range(depth)])
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, x, edge_index, edge_type, owner, n_graphs):
        h = self.inp(x)
        for conv in self.convs:
            h = conv(h, edge_index, edge_type)
        pooled = torch.zeros(n_graphs, h.shape[1]).index_add_(0, owner, h)
        return self.out(pooled / 40).squeeze(1)


# In[6]:

torch.manual_seed(0)
perm = np.random.default_rng(0).permutation(len(mols))
train_loader = DataLoader(MolDataset([mols[i] for i in perm[200:]]), batch_size=192, shuffle=True,
                          num_workers=2, collate_fn=batch_graphs)
test_loader = DataLoader(MolDataset([mols[i] for i in perm[:200]]), batch_size=100, collate_fn=batch_graphs)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)

# In[7]:

history = []
for epoch in range(8):
    net.train()
    losses = []
    for x, edge_index, edge_type, owner, y in train_loader:
        loss = F.smooth_l1_loss(net(x, edge_index, edge_type, owner, len(y)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    history.append(np.mean(losses))
    print("epoch", epoch, "loss", round(float(history[-1]), 5), flush=True)

# In[8]:

net.eval()
err = []
with torch.no_grad():
    for x, edge_index, edge_type, owner, y in test_loader:
        err.append((net(x, edge_index, edge_type, owner, len(y)) - y).abs() * sd)
print("test MAE", round(float(torch.cat(err).mean()), 4))
