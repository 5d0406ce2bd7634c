"""Character-level GRU language model."""
import os
import time
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split

WORDS = ("shall i compare thee to a summer day thou art more lovely and temperate rough winds do "
         "shake the darling buds of may and summer lease hath all too short a date").split()


@dataclass
class Hparams:
    context: int = 64
    stride: int = 48
    batch_size: int = 48
    hidden: int = 192
    embed: int = 48
    lr: float = 2e-3
    clip: float = 1.0
    letters: int = 80_000
    epochs: int = field(default_factory=lambda: int(os.environ.get("EPOCHS", 6)))


def write_poem(letters, seed=9):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(len(WORDS)))
    text = " ".join(rng.choice(WORDS, size=letters // 3, p=weights))
    return text[:letters]


class CharWindows(Dataset):
    def __init__(self, text, context, stride):
        self.vocab = sorted(set(text))
        lookup = {c: i for i, c in enumerate(self.vocab)}
        self.ids = torch.tensor([lookup[c] for c in text])
        self.context, self.stride = context, stride

    def __len__(self):
        return (len(self.ids) - self.context - 1) // self.stride

    def __getitem__(self, i):
        chunk = self.ids[i * self.stride: i * self.stride + self.context + 1]
        return chunk[:-1], chunk[1:]


class CharGRU(nn.Module):
    def __init__(self, vocab, hp):
        super().__init__()
        self.embed = nn.Embedding(vocab, hp.embed)
        self.gru = nn.GRU(hp.embed, hp.hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.out = nn.Linear(hp.hidden, vocab)

    def forward(self, ids):
        h, _ = self.gru(self.embed(ids))
        return self.out(h)


@torch.no_grad()
def perplexity(model, loader, loss_fn):
    model.eval()
    losses = [loss_fn(model(x).flatten(0, 1), y.flatten()).item() for x, y in loader]
    model.train()
    return float(np.exp(np.mean(losses)))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(9)
    hp = Hparams()
    data = CharWindows(write_poem(hp.letters), hp.context, hp.stride)
    held_out = len(data) // 10
    train, valid = random_split(data, [len(data) - held_out, held_out])
    train_loader = DataLoader(train, batch_size=hp.batch_size, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid, batch_size=hp.batch_size)

    model = CharGRU(len(data.vocab), hp)
    print(f"{len(train)} windows, {sum(p.numel() for p in model.parameters())} parameters")
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=hp.lr)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.85)
    for epoch in range(hp.epochs):
        start, total = time.time(), 0.0
        for step, (x, y) in enumerate(train_loader, 1):
            loss = loss_fn(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), hp.clip)
            optimizer.step()
            total += loss.item()
        schedule.step()
        print(f"epoch {epoch}  loss {total / step:.4f}  valid ppl {perplexity(model, valid_loader, loss_fn):.2f}"
              f"  {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
