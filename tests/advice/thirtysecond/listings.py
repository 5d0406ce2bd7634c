"""Price-band model for marketplace listings (title text + seller table + catalogue history)."""
import argparse
import fcntl
import json
import os
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCAB = 4096
BANDS = 6
HISTORY = 52
ADJ = "new used vintage rare mint boxed signed small large steel oak brass red blue black light heavy spare".split()
NOUN = "lamp chair guitar camera bike clock jacket table radio phone lens drum saw kettle watch boot shelf amp".split()


def generate(root: Path, n=3000):
    rng = np.random.default_rng(77)
    root.mkdir(parents=True, exist_ok=True)
    value = rng.uniform(1, 6, size=(len(ADJ), len(NOUN)))
    hist = np.empty((n, HISTORY), np.float32)
    with open(root / "listings.jsonl", "w") as f:
        for i in range(n):
            a, b, c = rng.integers(len(ADJ)), rng.integers(len(NOUN)), rng.integers(len(ADJ))
            price = 0.5 * (value[a, b] + value[c, b]) + 0.4 * rng.standard_normal()
            hist[i] = price + np.cumsum(rng.standard_normal(HISTORY)) * 0.05
            row = {"sku": i, "title": f"{ADJ[a]} {ADJ[c]} {NOUN[b]} no {rng.integers(400)}",
                   "seller": rng.standard_normal(8).round(4).tolist(),
                   "band": int(np.clip(price - 1, 0, BANDS - 1))}
            f.write(json.dumps(row) + "\n")
    hist.tofile(root / "history.bin")
    (root / "READY").touch()


class HostLock:
    """Advisory lock between the processes of one host."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.fh = open(self.path, "a+b")
        fcntl.flock(self.fh, fcntl.LOCK_EX)
        return self.fh

    def __exit__(self, *exc):
        fcntl.flock(self.fh, fcntl.LOCK_UN)
        self.fh.close()


class CatalogueClient:
    """Looks up the weekly price history of a sku. Offline stand-in: answers come from history.bin."""

    ROUND_TRIP_S = 0.011

    def __init__(self, root: Path):
        self.table = root / "history.bin"
        self.ledger = root / "requests.ledger"

    def _request(self, sku):
        time.sleep(self.ROUND_TRIP_S)
        with open(self.table, "rb") as f:
            f.seek(sku * HISTORY * 4)
            return np.frombuffer(f.read(HISTORY * 4), np.float32)

    def _count(self, fh):
        fh.seek(0)
        raw = fh.read(8)
        used = struct.unpack("<q", raw)[0] if len(raw) == 8 else 0
        fh.truncate(0)
        fh.write(struct.pack("<q", used + 1))
        fh.flush()

    def history(self, sku):
        with HostLock(self.ledger) as fh:
            self._count(fh)
            answer = self._request(sku)
        return answer


class ListingDataset(Dataset):
    def __init__(self, root: Path, max_tokens=8):
        with open(root / "listings.jsonl") as f:
            self.rows = [json.loads(line) for line in f]
        self.client = CatalogueClient(root)
        self.max_tokens = max_tokens

    def __len__(self):
        return len(self.rows)

    def encode(self, title):
        ids = [zlib.crc32(w.encode()) % (VOCAB - 1) + 1 for w in title.split()][: self.max_tokens]
        return ids + [0] * (self.max_tokens - len(ids))

    def __getitem__(self, i):
        row = self.rows[i]
        hist = self.client.history(row["sku"])
        trend = np.diff(hist, prepend=hist[:1])
        return {"tokens": torch.tensor(self.encode(row["title"])),
                "seller": torch.tensor(row["seller"]),
                "history": torch.from_numpy(np.stack([hist, trend])),
                "band": row["band"]}


class PriceBandNet(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.text = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.hist = nn.Sequential(nn.Conv1d(2, 32, 5, padding=2), nn.GELU(), nn.Conv1d(32, dim, 5, padding=2), nn.GELU())
        self.seller = nn.Sequential(nn.Linear(8, dim), nn.GELU())
        self.out = nn.Sequential(nn.LayerNorm(3 * dim), nn.Linear(3 * dim, 128), nn.GELU(), nn.Linear(128, BANDS))

    def forward(self, b):
        t = self.text(self.embed(b["tokens"])).mean(1)
        h = self.hist(b["history"] - b["history"].mean(-1, keepdim=True)).amax(-1)
        return self.out(torch.cat([t, h, self.seller(b["seller"])], 1))


class Trainer:
    def __init__(self, root, passes, per_pass, batch=32, workers=4, seed=1):
        torch.manual_seed(seed)
        self.root, self.passes, self.per_pass = root, passes, per_pass
        self.batch, self.workers = batch, workers
        self.model = PriceBandNet()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=8e-4)
        self.gen = torch.Generator().manual_seed(seed)

    def build_loader(self):
        ds = ListingDataset(self.root)
        sampler = torch.utils.data.RandomSampler(ds, num_samples=self.per_pass, generator=self.gen)
        return DataLoader(ds, batch_size=self.batch, sampler=sampler, num_workers=self.workers, persistent_workers=True)

    def step(self, batch):
        loss = nn.functional.cross_entropy(self.model(batch), batch["band"])
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        return loss.item()

    def fit(self):
        loader = self.build_loader()
        for p in range(self.passes):
            losses = [self.step(b) for b in loader]
            print(f"pass {p + 1}/{self.passes} loss={np.mean(losses):.4f}", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", type=Path, default=Path("data/listings"))
    ap.add_argument("--passes", type=int, default=5)
    ap.add_argument("--per-pass", type=int, default=576)
    a = ap.parse_args()
    if not (a.data / "READY").exists():
        generate(a.data)
    Trainer(a.data, a.passes, a.per_pass).fit()
