"""Click model for a display-ad auction; every batch holds the same number of impressions per advertiser."""
import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

DATA = Path(__file__).resolve().parent / "data" / "ad_auction"
N_ROWS, N_ADV = 600_000, 64
CARDS = (N_ADV, 5000, 800, 24, 7, 12)  # advertiser, site, creative, hour, weekday, device


def make():
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(99)
    cats = np.stack([(rng.beta(0.9, 1.6, N_ROWS) * c).astype(np.int32) for c in CARDS], 1)
    dense = rng.normal(0, 1, (N_ROWS, 8)).astype(np.float32)
    eff = [rng.normal(0, 0.6, c) for c in CARDS]
    logit = -2 + sum(e[cats[:, k]] for k, e in enumerate(eff)) + 0.4 * dense[:, 0] - 0.3 * dense[:, 1]
    click = (rng.random(N_ROWS) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    np.save(DATA / "cats.npy", cats)
    np.save(DATA / "dense.npy", dense)
    np.save(DATA / "click.npy", click)


class Impressions(Dataset):
    def __init__(self, lo, hi):
        self.cats = torch.from_numpy(np.load(DATA / "cats.npy")[lo:hi])
        self.dense = torch.from_numpy(np.load(DATA / "dense.npy")[lo:hi])
        self.click = torch.from_numpy(np.load(DATA / "click.npy")[lo:hi])

    def __len__(self):
        return len(self.click)

    def __getitems__(self, idx):
        idx = torch.as_tensor(idx)
        return self.cats[idx].long(), self.dense[idx], self.click[idx]


class AdvertiserSampler(Sampler):
    """Yields batches with `per_adv` random impressions of each advertiser."""

    def __init__(self, advertiser, per_adv, n_batches, seed=0):
        self.advertiser = np.asarray(advertiser)
        self.ids = np.unique(self.advertiser)
        self.per_adv = per_adv
        self.n_batches = n_batches
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.n_batches

    def __iter__(self):
        for _ in range(self.n_batches):
            batch = []
            for a in self.ids:
                pool = np.flatnonzero(self.advertiser == a)
                batch.append(self.rng.choice(pool, self.per_adv, replace=len(pool) < self.per_adv))
            batch = np.concatenate(batch)
            self.rng.shuffle(batch)
            yield batch


class DeepFM(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(c, dim) for c in CARDS)
        self.lin = nn.ModuleList(nn.Embedding(c, 1) for c in CARDS)
        self.deep = nn.Sequential(nn.Linear(dim * len(CARDS) + 8, 256), nn.ReLU(),
                                  nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))
        for e in self.emb:
            nn.init.normal_(e.weight, std=0.02)

    def forward(self, cats, dense):
        v = torch.stack([e(cats[:, k]) for k, e in enumerate(self.emb)], 1)
        first = sum(e(cats[:, k]) for k, e in enumerate(self.lin))
        second = 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1)).sum(1, keepdim=True)
        return (first + second + self.deep(torch.cat([v.flatten(1), dense], 1))).squeeze(1)


def auc(score, label):
    order = torch.argsort(score)
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = label.sum()
    return ((rank[label > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(label) - pos))).item()


def main(args):
    torch.manual_seed(0)
    train, val = Impressions(0, 560_000), Impressions(560_000, N_ROWS)
    sampler = AdvertiserSampler(train.cats[:, 0].numpy(), per_adv=32, n_batches=120)
    loader = DataLoader(train, batch_sampler=sampler, collate_fn=lambda b: b)
    val_loader = DataLoader(val, batch_size=8192, collate_fn=lambda b: b)
    model = DeepFM()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    lossf = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        start, running = time.perf_counter(), 0.0
        model.train()
        for cats, dense, click in loader:
            loss = lossf(model(cats, dense), click)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
        model.eval()
        with torch.no_grad():
            out = [(model(c, d), y) for c, d, y in val_loader]
        score = auc(torch.cat([s for s, _ in out]).double(), torch.cat([y for _, y in out]))
        print(f"epoch {epoch}: {len(sampler)} steps, loss {running / len(sampler):.4f}, AUC {score:.4f}, "
              f"{time.perf_counter() - start:.1f} s", flush=True)
        torch.save(model.state_dict(), DATA / "last.pt")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--make", action="store_true")
    a = p.parse_args()
    if a.make or not (DATA / "click.npy").exists():
        make()
    if not a.make:
        main(a)
