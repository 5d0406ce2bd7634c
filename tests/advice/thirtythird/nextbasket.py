"""Nightly retrain of the next-item model for the grocery shop."""
import argparse
import json
import logging
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger("nextbasket")


@dataclass(frozen=True)
class Settings:
    shoppers: int = 12000
    products: int = 20000
    max_len: int = 20
    dim: int = 64
    batch: int = 128
    epochs: int = 3
    candidates: int = 100
    lr: float = 1e-3
    workers: int = 1


def simulate_orders(folder: Path, s: Settings):
    target = folder / "orders.npz"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2024)
    counts = rng.integers(12, 70, s.shoppers)
    shopper = np.repeat(np.arange(s.shoppers), counts)
    taste = rng.integers(0, 200, s.shoppers)
    group = np.where(rng.random(len(shopper)) < 0.7, taste[shopper], rng.integers(0, 200, len(shopper)))
    within = np.minimum(rng.geometric(0.04, len(shopper)), s.products // 200) - 1
    product = group * (s.products // 200) + within + 1
    np.savez(target, shopper=shopper.astype(np.int32), product=product.astype(np.int32))
    return target


def group_orders(path: Path):
    """Orders are stored by shopper, oldest first."""
    raw = np.load(path)
    cuts = np.flatnonzero(np.diff(raw["shopper"])) + 1
    return np.split(raw["product"].astype(np.int64), cuts)


class NextItemTrain(Dataset):
    def __init__(self, histories, s):
        self.histories = histories
        self.s = s

    def __len__(self):
        return len(self.histories)

    def __getitem__(self, u):
        seq = self.histories[u][:-1][-self.s.max_len - 1:]
        window = np.zeros(self.s.max_len + 1, np.int64)
        window[-len(seq):] = seq
        return window[:-1], window[1:]


class NextItemEval(Dataset):
    """Leave-one-out: the last product of each shopper against products the shopper never bought."""

    def __init__(self, histories, s, seed):
        rng = np.random.RandomState(seed)
        catalogue = np.arange(1, s.products + 1)
        self.inputs = np.zeros((len(histories), s.max_len), np.int64)
        self.items = np.zeros((len(histories), 1 + s.candidates), np.int64)
        for u, history in enumerate(histories):
            past = history[:-1][-s.max_len:]
            self.inputs[u, -len(past):] = past
            self.items[u, 0] = history[-1]
            unseen = np.setdiff1d(catalogue, history)
            self.items[u, 1:] = rng.choice(unseen, s.candidates, replace=False)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, u):
        return self.inputs[u], self.items[u]


class SequenceModel(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.items = nn.Embedding(s.products + 1, s.dim, padding_idx=0)
        nn.init.normal_(self.items.weight, std=0.05)
        self.rnn = nn.GRU(s.dim, s.dim, num_layers=1, batch_first=True)
        self.proj = nn.Linear(s.dim, s.dim)

    def encode(self, seq):
        return self.proj(self.rnn(self.items(seq))[0])

    def score(self, seq, items):
        return torch.einsum("bd,bkd->bk", self.encode(seq)[:, -1], self.items(items))


def train_epoch(model, loader, optimiser, s):
    losses = []
    for seq, nxt in loader:
        state = model.encode(seq)
        shared = torch.randint(1, s.products + 1, (512,))
        pos = (state * model.items(nxt)).sum(-1, keepdim=True)
        neg = state @ model.items(shared).t()
        logits = torch.cat([pos, neg], dim=-1)[nxt > 0]
        loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return float(np.mean(losses))


@torch.no_grad()
def hit_rate(model, loader, k=10):
    hits = seen = 0
    for seq, items in loader:
        scores = model.score(seq, items)
        rank = (scores[:, 1:] > scores[:, :1]).sum(1)
        hits += int((rank < k).sum())
        seen += len(seq)
    return hits / seen


def run(folder: Path, s: Settings):
    logger.info("settings %s", json.dumps(asdict(s)))
    histories = group_orders(simulate_orders(folder, s))
    torch.manual_seed(9)
    train = DataLoader(NextItemTrain(histories, s), batch_size=s.batch, shuffle=True, num_workers=s.workers)
    held_out = DataLoader(NextItemEval(histories, s, seed=9), batch_size=500)
    model = SequenceModel(s)
    optimiser = torch.optim.Adam(model.parameters(), lr=s.lr)
    for epoch in range(s.epochs):
        loss = train_epoch(model, train, optimiser, s)
        logger.info("epoch %d loss %.4f hit@10 %.3f", epoch + 1, loss, hit_rate(model, held_out))
    torch.save(model.state_dict(), folder / "nextbasket.pt")


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s | %(message)s")
    cli = argparse.ArgumentParser()
    cli.add_argument("--data", type=Path, default="data/nextbasket")
    cli.add_argument("--epochs", type=int, default=Settings.epochs)
    ns = cli.parse_args()
    run(ns.data, Settings(epochs=ns.epochs))
