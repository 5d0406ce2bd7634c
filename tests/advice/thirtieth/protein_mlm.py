"""
Masked-residue pre-training of a small protein encoder on a FASTA file.
Settings are the module-level values below; any of them can be overridden with --name value.
"""
import ast
import math
import os
import random
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

# -----------------------------------------------------------------------------
data = "data/protein_mlm"
epochs = 2
steps_per_epoch = 60
batch_size = 32
crop = 128
n_layer = 3
n_head = 4
n_embd = 128
lr = 1e-3
weight_decay = 0.01
warmup = 20
mask_rate = 0.15
val_batches = 4
log_every = 20
seed = 1337
# -----------------------------------------------------------------------------
ALPHABET = "-ACDEFGHIKLMNPQRSTVWYX"          # '-' pads, 'X' masks
MASK = ALPHABET.index("X")
CODE = np.zeros(128, np.uint8)
CODE[[ord(c) for c in ALPHABET]] = np.arange(len(ALPHABET))


def make_data(root, families=60, members=60, seed=0):
    """Sequences of made-up families: a consensus with substitutions and short deletions."""
    path = os.path.join(root, "families.fasta")
    if os.path.exists(path):
        return path
    os.makedirs(root, exist_ok=True)
    rng = random.Random(seed)
    residues = ALPHABET[1:-1]
    with open(path + ".part", "w") as f:
        for fam in range(families):
            core = [rng.choice(residues) for _ in range(rng.randint(160, 420))]
            for m in range(members):
                seq = [rng.choice(residues) if rng.random() < 0.15 else c for c in core]
                cut = rng.randrange(len(seq) - 10)
                del seq[cut:cut + rng.randint(0, 8)]
                text = "".join(seq)
                f.write(f">fam{fam:03d}|{m:03d} len={len(text)}\n")
                f.writelines(text[k:k + 60] + "\n" for k in range(0, len(text), 60))
    os.replace(path + ".part", path)
    return path


def read_fasta(path):
    seqs = []
    with open(path) as f:
        for record in f.read().split(">")[1:]:
            head, _, body = record.partition("\n")
            raw = np.frombuffer(body.replace("\n", "").encode(), np.uint8)
            seqs.append(CODE[raw])
    return seqs


class Crops(Dataset):
    """Item i is the i-th masked batch of the run."""

    def __init__(self, seqs, n, salt):
        self.tokens = np.concatenate(seqs)
        self.length = np.array([len(s) for s in seqs])
        self.start = np.cumsum(self.length) - self.length
        self.n, self.salt = n, salt

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng((seed, self.salt, i))
        rows = rng.integers(len(self.start), size=batch_size)
        room = self.length[rows] - crop
        first = self.start[rows] + (rng.random(batch_size) * (room + 1)).astype(np.int64)
        y = self.tokens[first[:, None] + np.arange(crop)].astype(np.int64)
        picked = rng.random(y.shape) < mask_rate
        x = np.where(picked & (rng.random(y.shape) < 0.9), MASK, y)
        return torch.from_numpy(x), torch.from_numpy(np.where(picked, y, -100))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.proj = nn.Linear(n_embd, n_embd, bias=False)
        self.up = nn.Linear(n_embd, 4 * n_embd)
        self.down = nn.Linear(4 * n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, n_head, C // n_head).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.relu(self.up(self.ln2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(len(ALPHABET), n_embd)
        self.pos = nn.Parameter(torch.randn(crop, n_embd) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(n_layer))
        self.ln = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, len(ALPHABET))

    def forward(self, x, y):
        h = self.tok(x) + self.pos
        for b in self.blocks:
            h = b(h)
        keep = y >= 0
        logits = self.head(self.ln(h[keep]))
        return F.cross_entropy(logits, y[keep])


def learning_rate(step, total):
    if step < warmup:
        return lr * (step + 1) / warmup
    return lr * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup))))


@torch.no_grad()
def validation_loss(model, batches):
    model.eval()
    out = sum(model(x, y).item() for x, y in batches) / len(batches)
    model.train()
    return out


def main():
    torch.manual_seed(seed)
    seqs = read_fasta(make_data(data))
    order = np.random.default_rng(seed).permutation(len(seqs))
    held = [seqs[i] for i in order[:200]]
    used = [seqs[i] for i in order[200:]]
    total = epochs * steps_per_epoch
    loader = DataLoader(Crops(used, total, 0), batch_size=None, num_workers=1)
    val = Crops(held, val_batches, 1)
    val = [val[i] for i in range(val_batches)]

    model = Encoder()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": weight_decay},
                             {"params": rest, "weight_decay": 0.0}], lr=lr, fused=True)
    t0 = time.time()
    for step, (x, y) in enumerate(loader):
        for g in opt.param_groups:
            g["lr"] = learning_rate(step, total)
        loss = model(x, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if (step + 1) % log_every == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}, {time.time() - t0:.1f} s", flush=True)
        if (step + 1) % steps_per_epoch == 0:
            print(f"pass {(step + 1) // steps_per_epoch}: val {validation_loss(model, val):.4f}", flush=True)
    torch.save(model.state_dict(), os.path.join(data, "encoder.pt"))


if __name__ == "__main__":
    for name, value in zip(sys.argv[1::2], sys.argv[2::2]):
        name = name.lstrip("-").replace("-", "_")
        assert name in globals(), name
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            pass
        globals()[name] = value
    main()
