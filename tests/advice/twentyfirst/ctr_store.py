"""Two-tower ranking model; user and item features live in an online feature store."""
import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parent / "data" / "ctr_store"
N_USERS, N_ITEMS, N_EVENTS, DIM_U, DIM_I, HIST = 60_000, 20_000, 400_000, 48, 64, 20


def create_tables():
    done = ROOT / "events.npy"
    if done.exists():
        return
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(9)
    users = rng.standard_normal((N_USERS, DIM_U), dtype=np.float32)
    items = rng.standard_normal((N_ITEMS, DIM_I), dtype=np.float32)
    hist = rng.integers(0, N_ITEMS, (N_USERS, HIST)).astype(np.int32)
    u = rng.integers(0, N_USERS, N_EVENTS)
    i = rng.integers(0, N_ITEMS, N_EVENTS)
    affinity = (users[u, :16] * items[i, :16]).sum(1) / 4
    click = rng.random(N_EVENTS) < 1 / (1 + np.exp(-affinity))
    np.save(ROOT / "users.npy", users)
    np.save(ROOT / "items.npy", items)
    np.save(ROOT / "hist.npy", hist)
    np.save(done, np.stack([u, i, click], 1).astype(np.int32))


class RemoteStore:
    """Stand-in for the feature service in the next rack (same API as the real client)."""

    RTT = 0.0005
    PER_KEY = 0.000004

    def __init__(self):
        self.users = np.load(ROOT / "users.npy", mmap_mode="r")
        self.items = np.load(ROOT / "items.npy", mmap_mode="r")
        self.hist = np.load(ROOT / "hist.npy", mmap_mode="r")

    def _network(self, n_keys):
        time.sleep(self.RTT + self.PER_KEY * n_keys)

    def get(self, user, item):
        self._network(1)
        return self.users[user].copy(), self.hist[user].copy(), self.items[item].copy()

    def mget(self, users, items):
        self._network(len(users))
        return list(zip(self.users[users], self.hist[users], self.items[items]))


class ClickLog(Dataset):
    def __init__(self, events, store):
        self.events = events
        self.store = store

    def __len__(self):
        return len(self.events)

    def _example(self, feats, label):
        user, hist, item = feats
        return user, hist, item, np.float32(label)

    def __getitem__(self, k):
        u, i, label = self.events[k]
        return self._example(self.store.get(u, i), label)


def collate(rows):
    user, hist, item, label = zip(*rows)
    return (torch.from_numpy(np.stack(user)), torch.from_numpy(np.stack(hist)),
            torch.from_numpy(np.stack(item)), torch.from_numpy(np.array(label)))


class TwoTower(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.item_id = nn.EmbeddingBag(N_ITEMS, 32, mode="mean")
        self.user = nn.Sequential(nn.Linear(DIM_U + 32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                  nn.Linear(width, 64))
        self.item = nn.Sequential(nn.Linear(DIM_I, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                  nn.Linear(width, 64))

    def forward(self, user, hist, item):
        u = self.user(torch.cat([user, self.item_id(hist)], 1))
        return (u * self.item(item)).sum(1) / 8


def run_epoch(model, loader, opt, epoch):
    bce = nn.BCEWithLogitsLoss()
    t0, loss_sum, hit, n = time.time(), 0.0, 0, 0
    for user, hist, item, label in loader:
        logit = model(user, hist, item)
        loss = bce(logit, label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        loss_sum += loss.item() * len(label)
        hit += ((logit > 0) == (label > 0.5)).sum().item()
        n += len(label)
    print(f"day {epoch}: {n} events  bce {loss_sum / n:.4f}  acc {hit / n:.3f}  {n / (time.time() - t0):.0f} ev/s", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--days", type=int, default=int(os.environ.get("EPOCHS", 10)))
    p.add_argument("--events-per-day", type=int, default=10_240)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    torch.manual_seed(9)
    create_tables()
    events = np.load(ROOT / "events.npy")
    store = RemoteStore()
    model = TwoTower(args.width)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for day in range(args.days):
        # one day of traffic at a time, shuffled within the day
        part = events[day * args.events_per_day % N_EVENTS:][:args.events_per_day]
        loader = DataLoader(ClickLog(part, store), batch_size=args.batch_size, shuffle=True,
                            num_workers=args.workers, collate_fn=collate)
        run_epoch(model, loader, opt, day)


if __name__ == "__main__":
    main()
