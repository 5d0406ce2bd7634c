"""Next-item recommendation from a click log with popularity-smoothed negatives."""
import os
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "session_reco")
ITEMS, SESSIONS, CLICKS = 50_000, 2_700, 10
HISTORY, NEGATIVES = 6, 10


def write_click_log():
    path = os.path.join(ROOT, "clicks.npy")
    if os.path.exists(path):
        return path
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(5)
    start = (rng.pareto(1.1, SESSIONS) * 300).astype(np.int64)
    steps = rng.integers(-40, 41, (SESSIONS, CLICKS)).cumsum(1)
    np.save(path, np.abs(start[:, None] + steps) % ITEMS)
    return path


class SessionStream(IterableDataset):
    """Yields (recent items, clicked item, negatives) for every click of every session."""

    def __init__(self, path):
        self.path = path
        clicks = np.load(path)
        counts = np.bincount(clicks.ravel(), minlength=ITEMS) + 1.0
        weights = counts ** 0.75
        self.popularity = weights / weights.sum()
        self.rng = None

    def sample_negatives(self, positive):
        drawn = self.rng.choice(ITEMS, size=NEGATIVES, p=self.popularity)
        drawn[drawn == positive] = (positive + 1) % ITEMS
        return drawn

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        if self.rng is None:
            self.rng = np.random.default_rng(100 + worker)
        clicks = np.load(self.path, mmap_mode="r")
        for session in self.rng.permutation(np.arange(worker, len(clicks), workers)):
            items = np.array(clicks[session])
            for t in range(1, CLICKS):
                recent = np.full(HISTORY, ITEMS, np.int64)
                window = items[max(0, t - HISTORY):t]
                recent[-len(window):] = window
                yield recent, items[t], self.sample_negatives(items[t])


class SessionModel(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.items = nn.Embedding(ITEMS + 1, width, sparse=True)
        nn.init.normal_(self.items.weight, std=0.05)
        self.mix = nn.Sequential(nn.Linear(HISTORY * width, 96), nn.ReLU(), nn.Linear(96, width))

    def forward(self, recent, candidates):
        query = self.mix(self.items(recent).flatten(1))
        return torch.einsum("bd,bkd->bk", query, self.items(candidates))


def main():
    torch.manual_seed(0)
    stream = SessionStream(write_click_log())
    loader = DataLoader(stream, batch_size=384, num_workers=2, persistent_workers=True,
                        prefetch_factor=4)
    model = SessionModel()
    dense = torch.optim.Adam(model.mix.parameters(), lr=1e-3)
    sparse = torch.optim.SparseAdam(model.items.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        total, hits, seen = 0.0, 0, 0
        for recent, clicked, negatives in loader:
            candidates = torch.cat([clicked[:, None], negatives], 1)
            scores = model(recent, candidates)
            loss = F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))
            dense.zero_grad()
            sparse.zero_grad()
            loss.backward()
            dense.step()
            sparse.step()
            total += loss.item() * len(scores)
            hits += (scores.argmax(1) == 0).sum().item()
            seen += len(scores)
        print(f"epoch {epoch}: {seen} clicks, loss {total / seen:.4f}, hit@1 {hits / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
