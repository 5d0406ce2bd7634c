"""Click model for recipe search: hashed character n-grams of the query and its page text against recipe ids."""
import itertools
import json
import os
import random
import tempfile
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "recipe_search")
LOG = os.path.join(ROOT, "impressions.jsonl")
EPOCHS = int(os.environ.get("EPOCHS", 6))
EVENTS = 70000
RECIPES = 3000
BUCKETS = 1 << 14
LETTERS = np.frombuffer(b"aaabcdeeefghiiklmnooprrsstuvy", dtype="S1")


def write_log():
    os.makedirs(ROOT, exist_ok=True)
    if os.path.exists(LOG):
        return
    rng = np.random.default_rng(21)
    tmp = f"{LOG}.{os.getpid()}"
    with open(tmp, "w") as out:
        lengths = rng.integers(4, 10, (EVENTS, 14))
        recipes = rng.integers(0, RECIPES, EVENTS)
        devices = rng.integers(0, 4, EVENTS)
        chance = rng.random(EVENTS)
        for n in range(EVENTS):
            text = rng.choice(LETTERS, int(lengths[n].sum())).tobytes().decode()
            cuts = np.cumsum(lengths[n])
            words = [text[b - w:b] for b, w in zip(cuts, lengths[n])]
            clicked = chance[n] < (0.6 if text[0] in "aeiou" else 0.25) + 0.2 * (recipes[n] % 2)
            out.write(json.dumps({"text": " ".join(words), "recipe": int(recipes[n]),
                                  "device": int(devices[n]), "clicked": int(clicked)}) + "\n")
    os.replace(tmp, LOG)


def with_typos(text, rate=0.04):
    return "".join(c for c in text if c == " " or random.random() > rate)


def ngrams(text):
    ids = []
    for word in text.split():
        padded = f"<{word}>".encode()
        for size in (3, 4, 5):
            for i in range(len(padded) - size + 1):
                ids.append(zlib.crc32(padded[i:i + size]) % BUCKETS)
    return np.array(ids or [0])


class Impressions(IterableDataset):
    """Streams the impression log, typos are made anew in each pass."""

    def __init__(self, path):
        self.path = path

    def encode(self, line):
        event = json.loads(line)
        ids = ngrams(with_typos(event["text"]))
        return ids, event["recipe"], event["device"], event["clicked"]

    def examples(self):
        with open(self.path) as log:
            for line in log:
                yield self.encode(line)

    def __iter__(self):
        info = get_worker_info()
        rank, world = (info.id, info.num_workers) if info else (0, 1)
        return itertools.islice(self.examples(), rank, None, world)


def collate(rows):
    ids, recipe, device, clicked = zip(*rows)
    lengths = torch.tensor([0] + [len(x) for x in ids[:-1]])
    flat = torch.from_numpy(np.concatenate(ids))
    return (flat, lengths.cumsum(0), torch.tensor(recipe), torch.tensor(device),
            torch.tensor(clicked, dtype=torch.float32))


class ClickModel(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.query = nn.EmbeddingBag(BUCKETS, dim, mode="mean")
        self.recipe = nn.Embedding(RECIPES, dim)
        self.device = nn.Embedding(4, 4)
        self.mlp = nn.Sequential(nn.Linear(3 * dim + 4, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, ids, offsets, recipe, device):
        q, r = self.query(ids, offsets), self.recipe(recipe)
        return self.mlp(torch.cat([q, r, q * r, self.device(device)], 1)).squeeze(1)


def main():
    torch.manual_seed(0)
    write_log()
    loader = DataLoader(Impressions(LOG), batch_size=512, num_workers=2, collate_fn=collate,
                        prefetch_factor=4, persistent_workers=True)
    model = ClickModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        total, seen = 0.0, 0
        for ids, offsets, recipe, device, clicked in loader:
            logits = model(ids, offsets, recipe, device)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, clicked)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(clicked)
            seen += len(clicked)
        print(f"epoch {epoch}: {seen} impressions, log loss {total / seen:.4f}", flush=True)


if __name__ == "__main__":
    main()
