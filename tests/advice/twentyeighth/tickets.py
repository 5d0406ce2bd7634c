"""Tagging of entities in support tickets: BiGRU over token ids, in a small module / runner layout."""
import argparse
import collections
import pickle
import random
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "tickets" / "corpus.pkl"
TAGS = ["O", "PRODUCT", "PERSON", "ORDER", "DATE", "PLACE"]
VOCAB = 4000
PAD = 0
IGNORE = -100


def build_corpus(path, n=3000):
    rnd = random.Random(23)
    kind = [0] + [rnd.choices(range(len(TAGS)), [5, 1, 1, 1, 1, 1])[0] for _ in range(VOCAB - 1)]
    rows = []
    for _ in range(n):
        length = rnd.randint(40, 160)
        ids = [min(VOCAB - 1, 1 + int(rnd.expovariate(1 / 500))) for _ in range(length)]
        tags = [kind[t] if rnd.random() > 0.03 else 0 for t in ids]
        rows.append((ids, tags))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as f:
        pickle.dump(rows, f)


class Tickets(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        ids, tags = self.rows[index]
        return torch.tensor(ids), torch.tensor(tags)


def pad_batch(samples):
    longest = max(len(ids) for ids, _ in samples)
    tokens = torch.full((len(samples), longest), PAD)
    labels = torch.full((len(samples), longest), IGNORE)
    for row, (ids, tags) in enumerate(samples):
        for col in range(len(ids)):
            tokens[row, col] = ids[col]
            labels[row, col] = tags[col]
    return tokens, labels


class TokenScores:
    """Counts per tag, for micro F1 over everything but O."""

    def __init__(self):
        self.hit, self.said, self.true = (collections.Counter() for _ in range(3))

    def update(self, predicted, labels):
        for p_row, l_row in zip(predicted, labels):
            for p, l in zip(p_row, l_row):
                if l.item() == IGNORE:
                    continue
                self.said[p.item()] += 1
                self.true[l.item()] += 1
                if p.item() == l.item():
                    self.hit[l.item()] += 1

    def f1(self):
        hit, said, true = (sum(v for k, v in c.items() if k != 0) for c in (self.hit, self.said, self.true))
        return 2 * hit / max(1, said + true)


class Tagger(nn.Module):
    def __init__(self, dim=32, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


class TaggerModule:
    def __init__(self, lr):
        self.model = Tagger()
        self.lr = lr
        self.scores = None

    def configure_optimizers(self):
        return torch.optim.Adam(self.model.parameters(), lr=self.lr)

    def on_epoch_start(self):
        self.scores = TokenScores()

    def training_step(self, batch):
        tokens, labels = batch
        logits = self.model(tokens)
        self.scores.update(logits.detach().argmax(-1), labels)
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)

    def on_epoch_end(self):
        return {"f1": self.scores.f1()}


class Runner:
    def __init__(self, epochs):
        self.epochs = epochs

    def fit(self, module, loader):
        optimizer = module.configure_optimizers()
        for epoch in range(1, self.epochs + 1):
            began = time.monotonic()
            module.on_epoch_start()
            total = torch.zeros(())
            for batch in loader:
                loss = module.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.detach()
            logs = module.on_epoch_end()
            print(f"epoch {epoch} loss {total.item() / len(loader):.4f} f1 {logs['f1']:.4f} "
                  f"time {time.monotonic() - began:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--limit", type=int, default=600, help="tickets to train on")
    args = parser.parse_args()
    if not DATA.exists():
        build_corpus(DATA)
    with open(DATA, "rb") as f:
        rows = pickle.load(f)[:args.limit]
    torch.manual_seed(7)
    loader = DataLoader(Tickets(rows), batch_size=args.batch_size, shuffle=True, collate_fn=pad_batch)
    Runner(args.epochs).fit(TaggerModule(args.lr), loader)


if __name__ == "__main__":
    main()
