"""Song recommendation from listening logs: two-tower model with sampled negatives."""
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
USERS, SONGS, RECENT = 3000, 60000, 12
LISTENS, BATCH = 12800, 256
DIM = 48


def write_log(seed=4):
    """(user, song) pairs in the order in which they were played."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, SONGS + 1) ** 0.8
    song = rng.choice(SONGS, LISTENS, p=weight / weight.sum())
    taste = rng.integers(0, 20, USERS)
    user = rng.integers(0, USERS, LISTENS)
    song = (song // 20 * 20 + taste[user]) % SONGS
    return np.stack([user, song], axis=1)


class ListeningStream(IterableDataset):
    """Replays the log day by day; yields whole batches with each user's recent songs."""

    def __init__(self, log):
        self.log = log

    def __iter__(self):
        recent = np.zeros((USERS, RECENT), np.int64)
        for start in range(0, len(self.log), BATCH):
            rows = self.log[start:start + BATCH]
            yield {
                "user": torch.from_numpy(rows[:, 0].copy()),
                "recent": torch.from_numpy(recent[rows[:, 0]]),
                "song": torch.from_numpy(rows[:, 1].copy()),
            }
            for user, song in rows:
                recent[user, :-1] = recent[user, 1:]
                recent[user, -1] = song


class NegativeSampler:
    """Negatives follow the smoothed popularity of the songs (power 0.75)."""

    def __init__(self, log, power=0.75, seed=0):
        counts = np.bincount(log[:, 1], minlength=SONGS) + 1.0
        self.p = counts ** power
        self.p /= self.p.sum()
        self.rng = np.random.default_rng(seed)

    def draw(self, k):
        return self.rng.choice(SONGS, size=k, p=self.p)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.song = nn.Embedding(SONGS, DIM)
        self.query = nn.Sequential(nn.Linear(2 * DIM, 256), nn.ReLU(), nn.Linear(256, DIM))
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.song.weight, std=0.05)

    def forward(self, user, recent, candidates):
        history = self.song(recent).mean(dim=1)
        query = self.query(torch.cat([self.user(user), history], dim=1))
        return torch.einsum("bd,bkd->bk", query, self.song(candidates))


def main():
    torch.manual_seed(0)
    log = write_log()
    sampler = NegativeSampler(log)
    loader = DataLoader(ListeningStream(log), batch_size=None, num_workers=1, prefetch_factor=4,
                        persistent_workers=True)
    model = TwoTower()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        began, running, top, seen = time.time(), 0.0, 0, 0
        for batch in loader:
            rows = len(batch["user"])
            negatives = np.stack([sampler.draw(20) for _ in range(rows)])
            candidates = torch.cat([batch["song"][:, None], torch.from_numpy(negatives)], dim=1)
            scores = model(batch["user"], batch["recent"], candidates)
            loss = F.cross_entropy(scores, torch.zeros(rows, dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item() * rows
            top += (scores.argmax(dim=1) == 0).sum().item()
            seen += rows
        print(f"epoch {epoch}: loss {running / seen:.4f} hit@1 {top / seen:.3f} ({time.time() - began:.1f}s)",
              flush=True)


if __name__ == "__main__":
    main()
