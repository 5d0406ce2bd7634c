"""Product price regression from catalogue records."""
import gc
import os
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

VOCAB = 20_000
MAX_TOKENS = 32


def read_catalogue(n, seed=1):
    rnd = random.Random(seed)
    words = [rnd.randrange(1, VOCAB) for _ in range(200_000)]
    records = []
    for i in range(n):
        k = rnd.randrange(len(words) - MAX_TOKENS)
        title = words[k:k + 8 + i % 20]
        records.append({
            "title": title,
            "tags": [words[k + 1] % 50, words[k + 2] % 50],
            "shop": {"id": i % 900, "ratings": [i % 5, i % 3]},
            "price": 1.0 + sum(title[:4]) / VOCAB,
        })
    return records


class Catalogue(Dataset):
    def __init__(self, records):
        self.records = records

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        r = self.records[i]
        tokens = torch.zeros(MAX_TOKENS, dtype=torch.long)
        title = r["title"][:MAX_TOKENS]
        tokens[:len(title)] = torch.tensor(title)
        side = torch.tensor([r["shop"]["id"] / 900, *r["tags"], *r["shop"]["ratings"]], dtype=torch.float32)
        return tokens, side, torch.tensor(r["price"], dtype=torch.float32)


class PriceModel(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=0, sparse=True)
        self.enc = nn.TransformerEncoderLayer(dim, 4, 192, dropout=0.0, batch_first=True)
        self.out = nn.Sequential(nn.Linear(dim + 5, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, tokens, side):
        h = self.enc(self.emb(tokens)).mean(1)
        return self.out(torch.cat([h, side / 50], 1)).squeeze(1)


def train_epoch(model, loader, opts):
    model.train()
    total, n = 0.0, 0
    for tokens, side, price in loader:
        pred = model(tokens, side)
        loss = nn.functional.smooth_l1_loss(pred, price)
        for o in opts:
            o.zero_grad()
        loss.backward()
        for o in opts:
            o.step()
        total += loss.item() * len(price)
        n += len(price)
        del pred, loss
        gc.collect()
    return total / n


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    err = [(model(t, s) - p).abs() for t, s, p in loader]
    return torch.cat(err).mean().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    epochs = int(os.environ.get("EPOCHS", 6))
    data = Catalogue(read_catalogue(40_000))
    picks = torch.randperm(len(data)).tolist()
    common = dict(batch_size=64, num_workers=2, persistent_workers=True)
    train = DataLoader(Subset(data, picks[:1600]), shuffle=True, **common)
    valid = DataLoader(Subset(data, picks[1600:2000]), **common)
    model = PriceModel()
    dense = [p for n, p in model.named_parameters() if not n.startswith("emb")]
    opts = [torch.optim.Adam(dense, lr=1e-3), torch.optim.SparseAdam(list(model.emb.parameters()), lr=1e-3)]
    for epoch in range(epochs):
        t = time.time()
        loss = train_epoch(model, train, opts)
        mae = evaluate(model, valid)
        print(f"epoch {epoch + 1}/{epochs} loss {loss:.4f} val MAE {mae:.4f} {time.time() - t:.1f}s")


if __name__ == "__main__":
    main()
