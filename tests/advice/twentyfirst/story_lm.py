"""Small byte-level language model on generated stories."""
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parent / "data" / "story_lm"


@dataclass
class Config:
    block: int = 192
    batch: int = 16
    layers: int = 4
    heads: int = 4
    dim: int = 192
    lr: float = 6e-4
    warmup: int = 20
    epochs: int = int(os.environ.get("EPOCHS", 3))
    steps: int = 50
    val_batches: int = 6
    seed: int = 1234


def build_corpus():
    path = ROOT / "stories.bin"
    if path.exists():
        return path
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1234)
    who = "the fox|an old sailor|my sister|the baker|a small robot|the queen".split("|")
    did = "found|lost|painted|sold|remembered|buried|borrowed".split("|")
    what = "a golden key|the last letter|two loaves of bread|a broken clock|the map|a song".split("|")
    where = "by the river|in the cellar|after the storm|at the market|under the bridge".split("|")
    parts = []
    for _ in range(120_000):
        w, d, o, p = (c[rng.integers(len(c))] for c in (who, did, what, where))
        parts.append(f"{w} {d} {o} {p}. ")
    path.write_bytes("".join(parts).encode())
    return path


class ByteBlocks(Dataset):
    """Consecutive blocks of the corpus file, mapped from disk."""

    def __init__(self, path, lo, hi, block):
        raw = np.memmap(path, dtype=np.uint8, mode="r")
        self.raw = raw[int(lo * len(raw)):int(hi * len(raw))]
        self.block = block

    def __len__(self):
        return (len(self.raw) - 1) // self.block

    def __getitem__(self, i):
        s = i * self.block
        chunk = torch.from_numpy(self.raw[s:s + self.block + 1].astype(np.int64))
        return chunk[:-1], chunk[1:]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.ff(self.n2(x))


class ByteGPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok, self.pos = nn.Embedding(256, cfg.dim), nn.Embedding(cfg.block, cfg.dim)
        self.blocks = nn.Sequential(*[Block(cfg.dim, cfg.heads) for _ in range(cfg.layers)])
        self.norm, self.head = nn.LayerNorm(cfg.dim), nn.Linear(cfg.dim, 256, bias=False)

    def forward(self, x, y):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1]))
        logits = self.head(self.norm(self.blocks(h)))
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def lr_at(step, cfg):
    if step < cfg.warmup:
        return (step + 1) / cfg.warmup
    frac = (step - cfg.warmup) / max(1, cfg.epochs * cfg.steps - cfg.warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, frac)))


@torch.no_grad()
def validate(model, loader, n):
    model.eval()
    losses = [model(x, y).item() for (x, y), _ in zip(loader, range(n))]
    model.train()
    return sum(losses) / len(losses)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    path = build_corpus()
    train_dl = DataLoader(ByteBlocks(path, 0.0, 0.95, cfg.block), batch_size=cfg.batch, shuffle=True, drop_last=True)
    val_dl = DataLoader(ByteBlocks(path, 0.95, 1.0, cfg.block), batch_size=cfg.batch)
    model = ByteGPT(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.95), weight_decay=0.1)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: lr_at(s, cfg))
    for epoch in range(cfg.epochs):
        t0, total = time.time(), 0.0
        for step, (x, y) in enumerate(train_dl):
            if step == cfg.steps:
                break
            loss = model(x, y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item()
        val = validate(model, val_dl, cfg.val_batches)
        print(f"epoch {epoch} train {total / cfg.steps:.3f} val {val:.3f} {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
