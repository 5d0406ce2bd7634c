# coding: utf-8
# Converted from basket.ipynb - rating model for the grocery recommender.

# In[1]:
import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
FILE = HERE / "data" / "basket" / "events.npz"
USERS, ITEMS, EVENTS, DAYS = 20_000, 5_000, 2_000_000, 730


# In[2]:
def make_events():
    rng = np.random.default_rng(99)
    user = rng.integers(0, USERS, EVENTS).astype(np.int32)
    item = np.minimum(rng.exponential(700, EVENTS), ITEMS - 1).astype(np.int32)
    u, v = rng.normal(0, 1, (USERS, 4)), rng.normal(0, 1, (ITEMS, 4))
    bias = rng.normal(0, 0.7, ITEMS)
    rating = (u[user] * v[item]).sum(1) * 0.3 + bias[item] + rng.normal(0, 0.3, EVENTS)
    day = rng.integers(0, DAYS, EVENTS).astype(np.int16)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    np.savez(FILE, user=user, item=item, rating=rating.astype(np.float32), day=day)


# In[3]:
class Events(Dataset):
    """Takes a whole list of rows at once."""

    def __init__(self, path):
        with np.load(path) as z:
            self.user = torch.from_numpy(z["user"]).long()
            self.item = torch.from_numpy(z["item"]).long()
            self.rating = torch.from_numpy(z["rating"])
            self.day = z["day"]

    def __len__(self):
        return len(self.rating)

    def __getitem__(self, rows):
        rows = torch.from_numpy(rows)
        return self.user[rows], self.item[rows], self.rating[rows]


class RecentFirst:
    """Draws batches in which recent events are more likely (half-life in days)."""

    def __init__(self, day, batch_size, steps, half_life=180.0, seed=0):
        self.batch_size = batch_size
        self.steps = steps
        self.rng = np.random.default_rng(seed)
        weight = 0.5 ** ((day.max() - day.astype(np.float64)) / half_life)
        self.p = weight / weight.sum()

    def __len__(self):
        return self.steps

    def __iter__(self):
        for _ in range(self.steps):
            yield self.rng.choice(len(self.p), size=self.batch_size, p=self.p)


# In[4]:
class TwoTower(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.user = nn.Embedding(USERS, dim)
        self.item = nn.Embedding(ITEMS, dim)
        self.bias = nn.Embedding(ITEMS, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)
        self.mix = nn.Sequential(nn.Linear(2 * dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, u, i):
        a, b = self.user(u), self.item(i)
        return (a * b).sum(1) + self.bias(i).squeeze(1) + self.mix(torch.cat([a, b], 1)).squeeze(1)


# In[5]:
def run(epochs, steps, batch_size):
    torch.manual_seed(3)
    events = Events(FILE)
    sampler = RecentFirst(events.day, batch_size, steps)
    loader = DataLoader(events, sampler=sampler, batch_size=None)
    model = TwoTower()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        t0 = time.time()
        total = torch.zeros(())
        for u, i, r in loader:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(u, i), r)
            loss.backward()
            opt.step()
            total += loss.detach()
        print("epoch %d: rmse %.4f  (%.2f s)" % (epoch + 1, (total.item() / steps) ** 0.5, time.time() - t0), flush=True)


# In[6]:
if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--steps", type=int, default=150, help="batches in an epoch")
    ap.add_argument("--batch-size", type=int, default=2048)
    a = ap.parse_args()
    if not FILE.exists():
        make_events()
    run(a.epochs, a.steps, a.batch_size)
