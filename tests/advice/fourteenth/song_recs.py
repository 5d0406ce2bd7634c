import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

EPOCHS = int(os.environ.get("EPOCHS", 6))
USERS, SONGS, PLAYS = 12000, 5000, 600_000
BATCH, STEPS = 256, 300
NEGATIVES = 4


def play_log(seed=21):
    rng = np.random.default_rng(seed)
    users = rng.integers(0, USERS, PLAYS)
    taste = users % 10
    songs = (rng.zipf(1.3, PLAYS) * 10 + taste) % SONGS
    age_days = rng.exponential(120, PLAYS)
    return users.astype(np.int64), songs.astype(np.int64), age_days


class Plays(Dataset):
    def __init__(self, users, songs):
        self.users, self.songs = users, songs

    def __len__(self):
        return len(self.users)

    def __getitems__(self, indices):
        indices = np.asarray(indices)
        negatives = torch.randint(0, SONGS, (len(indices), NEGATIVES))
        return (torch.from_numpy(self.users[indices]),
                torch.from_numpy(self.songs[indices]), negatives)


class RecencySampler(Sampler):
    """Batches of distinct plays: recent ones more often, plays of very popular songs less often."""

    def __init__(self, songs, age_days, batch_size, steps, half_life=90.0, seed=0):
        popularity = np.bincount(songs, minlength=SONGS)[songs]
        weight = 0.5 ** (age_days / half_life) / np.sqrt(popularity)
        self.probability = weight / weight.sum()
        self.batch_size, self.steps = batch_size, steps
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.steps

    def draw(self):
        n = len(self.probability)
        return self.rng.choice(n, self.batch_size, replace=False, p=self.probability)

    def __iter__(self):
        for _ in range(self.steps):
            yield self.draw().tolist()


class TwoTower(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.user = nn.Embedding(USERS, width)
        self.song = nn.Embedding(SONGS, width)
        self.user_net = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.song_net = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))

    def forward(self, users, songs):
        u = self.user_net(self.user(users)).unsqueeze(1)
        s = self.song_net(self.song(songs))
        return (u * s).sum(-1)


def first(batch):
    return batch


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    users, songs, age_days = play_log()
    sampler = RecencySampler(songs, age_days, BATCH, STEPS)
    loader = DataLoader(Plays(users, songs), batch_sampler=sampler, collate_fn=first,
                        num_workers=1, prefetch_factor=8, persistent_workers=True)
    model = TwoTower()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)

    for epoch in range(EPOCHS):
        began = time.perf_counter()
        model.train()
        total, ranked_first, seen = 0.0, 0, 0
        for user, positive, negatives in loader:
            candidates = torch.cat([positive.unsqueeze(1), negatives], 1)
            scores = model(user, candidates)
            target = torch.zeros(len(user), dtype=torch.long)
            loss = F.cross_entropy(scores, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(user)
            ranked_first += (scores.argmax(1) == 0).sum().item()
            seen += len(user)
        print(f"epoch {epoch}: loss {total / seen:.4f} hit@1 {ranked_first / seen:.3f} "
              f"{time.perf_counter() - began:.1f}s", flush=True)


if __name__ == "__main__":
    main()
