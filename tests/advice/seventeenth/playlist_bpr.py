"""Recommend tracks for playlists: a neural ranking model trained on implicit feedback (BPR loss)."""
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

EPOCHS = int(os.environ.get("EPOCHS", 6))
PLAYLISTS, TRACKS = 2000, 6000
INTERACTIONS = 20_000
BATCH = 512
NEGATIVES = 4


def make_interactions(seed=21):
    rng = np.random.default_rng(seed)
    taste = rng.integers(0, 12, PLAYLISTS)
    genre = rng.integers(0, 12, TRACKS)
    appeal = 1.0 / np.arange(1, TRACKS + 1) ** 0.6
    playlists = rng.integers(0, PLAYLISTS, INTERACTIONS)
    tracks = np.empty(INTERACTIONS, dtype=np.int64)
    for g in range(12):
        rows = np.flatnonzero(taste[playlists] == g)
        weight = appeal * np.where(genre == g, 15.0, 1.0)
        tracks[rows] = rng.choice(TRACKS, len(rows), p=weight / weight.sum())
    return playlists, tracks


class Interactions(Dataset):
    def __init__(self, playlists, tracks):
        self.playlists = torch.from_numpy(playlists)
        self.tracks = torch.from_numpy(tracks)

    def __len__(self):
        return len(self.playlists)

    def __getitem__(self, index):
        return self.playlists[index], self.tracks[index]


class NegativeSampler:
    """Draws tracks by popularity that are not in the playlist."""

    def __init__(self, playlists, tracks, power=0.75, seed=0):
        counts = np.bincount(tracks, minlength=TRACKS) + 1.0
        self.popularity = counts ** power / (counts ** power).sum()
        self.members = [set() for _ in range(PLAYLISTS)]
        for playlist, track in zip(playlists.tolist(), tracks.tolist()):
            self.members[playlist].add(track)
        self.rng = np.random.default_rng(seed)

    def draw(self, playlists):
        drawn = []
        for playlist in playlists.tolist():
            members = self.members[playlist]
            tracks = self.rng.choice(TRACKS, size=NEGATIVES, p=self.popularity)
            while any(track in members for track in tracks):
                tracks = self.rng.choice(TRACKS, size=NEGATIVES, p=self.popularity)
            drawn.append(tracks)
        return torch.from_numpy(np.stack(drawn))


class Ranker(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.playlist = nn.Embedding(PLAYLISTS, width)
        self.track = nn.Embedding(TRACKS, width)
        self.score = nn.Sequential(nn.Linear(3 * width, 96), nn.ReLU(), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, playlists, tracks):
        p = self.playlist(playlists).unsqueeze(1).expand(-1, tracks.size(1), -1)
        t = self.track(tracks)
        return self.score(torch.cat([p, t, p * t], dim=2)).squeeze(2)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    playlists, tracks = make_interactions()
    dataset = Interactions(playlists, tracks)
    batches = BatchSampler(RandomSampler(dataset), BATCH, drop_last=False)
    loader = DataLoader(dataset, sampler=batches, batch_size=None)
    negatives = NegativeSampler(playlists, tracks)
    model = Ranker()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        total, ranked = 0.0, 0.0
        for playlist, positive in loader:
            negative = negatives.draw(playlist)
            scores = model(playlist, torch.cat([positive.unsqueeze(1), negative], dim=1))
            margin = scores[:, :1] - scores[:, 1:]
            loss = -nn.functional.logsigmoid(margin).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(playlist)
            ranked += (margin > 0).float().mean().item() * len(playlist)
        print(f"epoch {epoch}: bpr {total / len(dataset):.4f} ranked {ranked / len(dataset):.3f}", flush=True)


if __name__ == "__main__":
    main()
