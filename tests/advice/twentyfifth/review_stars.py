"""Star rating from hotel reviews: GRU classifier with length-bucketed batches."""
import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "review_stars"
VOCAB = 6000
REVIEWS = 22000
STARS = 5


def make_data():
    if (DATA / "reviews.npz").exists():
        return
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(21)
    lengths = np.clip(rng.lognormal(2.8, 0.5, REVIEWS), 5, 80).astype(np.int64)
    stars = rng.integers(0, STARS, REVIEWS)
    common = rng.zipf(1.3, lengths.sum()) % (VOCAB - 500) + 1
    tone = VOCAB - 500 + np.repeat(stars, lengths) * 90 + rng.integers(0, 140, lengths.sum())
    tokens = np.where(rng.random(lengths.sum()) < 0.08, tone, common).astype(np.int32)
    tokens = np.minimum(tokens, VOCAB - 1)
    np.savez(DATA / "reviews.npz", tokens=tokens, lengths=lengths, stars=stars)


class ReviewDataset(Dataset):
    def __init__(self, lo, hi):
        with np.load(DATA / "reviews.npz") as f:
            ends = np.cumsum(f["lengths"])
            starts = ends - f["lengths"]
            tokens = torch.from_numpy(f["tokens"].astype(np.int64))
            self.stars = f["stars"][lo:hi].tolist()
        self.texts = [tokens[a:b] for a, b in zip(starts[lo:hi], ends[lo:hi])]
        self.lengths = [len(text) for text in self.texts]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return self.texts[index], self.stars[index]


class BucketSampler(Sampler):
    """Batches of similar length: shuffle, cut into pools, sort every pool, shuffle the batches."""

    def __init__(self, lengths, batch_size, seed=0, pool=25):
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.pool = pool
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def _batches(self):
        rng = np.random.default_rng((self.seed, self.epoch))
        order = rng.permutation(len(self.lengths)).tolist()
        span = self.batch_size * self.pool
        batches = []
        for a in range(0, len(order), span):
            chunk = sorted(order[a:a + span], key=lambda i: self.lengths[i])
            batches += [chunk[b:b + self.batch_size] for b in range(0, len(chunk), self.batch_size)]
        rng.shuffle(batches)
        return batches

    def __iter__(self):
        return iter(self._batches())

    def __len__(self):
        return len(self._batches())


def collate(items):
    items = sorted(items, key=lambda item: -len(item[0]))
    texts, stars = zip(*items)
    lengths = torch.tensor([len(text) for text in texts])
    return pad_sequence(texts, batch_first=True), lengths, torch.tensor(stars)


class ReviewNet(nn.Module):
    def __init__(self, width=40, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width, padding_idx=0)
        self.rnn = nn.GRU(width, hidden, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(hidden, STARS)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True)
        _, last = self.rnn(packed)
        return self.out(self.drop(last[-1]))


def rate(progress, total, peak=4e-3, warm=0.3):
    if progress < warm:
        return peak * progress / warm
    return peak * 0.5 * (1 + math.cos(math.pi * (progress - warm) / (total - warm)))


def train_epoch(model, loader, optimiser, epoch, epochs):
    model.train()
    total = seen = 0
    for step, (tokens, lengths, stars) in enumerate(loader):
        progress = epoch + (step + 1) / len(loader)
        for group in optimiser.param_groups:
            group["lr"] = rate(progress, epochs)
        loss = F.cross_entropy(model(tokens, lengths), stars)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        total += loss.item() * len(stars)
        seen += len(stars)
    return total / seen


def evaluate(model, loader):
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for tokens, lengths, stars in loader:
            right += (model(tokens, lengths).argmax(1) == stars).sum().item()
            seen += len(stars)
    return right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.set_num_threads(1)
    torch.manual_seed(4)
    train_set, val_set = ReviewDataset(0, REVIEWS - 1000), ReviewDataset(REVIEWS - 1000, REVIEWS)
    sampler = BucketSampler(train_set.lengths, args.batch_size)
    train_loader = DataLoader(train_set, batch_sampler=sampler, collate_fn=collate, num_workers=1)
    val_loader = DataLoader(val_set, batch_size=100, collate_fn=collate)
    model = ReviewNet()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)

    for epoch in range(args.epochs):
        began = time.time()
        sampler.set_epoch(epoch)
        loss = train_epoch(model, train_loader, optimiser, epoch, args.epochs)
        accuracy = evaluate(model, val_loader)
        print(f"epoch {epoch} loss {loss:.4f} val acc {accuracy:.3f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
