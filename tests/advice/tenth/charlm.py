"""A tiny char-level transformer, trained on nonsense verse. nanoGPT but much smaller and worse :)"""
import math
import os
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
CTX = 96
DIM, HEADS, LAYERS = 128, 4, 3
N_CHUNKS = 640
BS = 16

WORDS = """the a some every moon river crow lantern kettle salt orchard widow sings drowns
remembers forgets carries under over beside without slowly bright hollow green seven
tomorrow never""".split()


def write_verse(n_lines, seed=0):
    r = random.Random(seed)
    lines = []
    for _ in range(n_lines):
        line = " ".join(r.choice(WORDS) for _ in range(r.randint(4, 8)))
        lines.append(line.capitalize() + r.choice([",", ".", ";", ""]))
    return "\n".join(lines)


class Chunks(Dataset):
    """Random-start windows: text stays a str, encoded on the fly."""

    def __init__(self, text):
        self.text = text
        self.chars = sorted(set(text))
        self.stoi = {c: i for i, c in enumerate(self.chars)}
        self.stride = (len(text) - CTX - 1) // N_CHUNKS

    def __len__(self):
        return N_CHUNKS

    def __getitem__(self, i):
        start = i * self.stride + random.randrange(self.stride)
        ids = torch.tensor([self.stoi[c] for c in self.text[start:start + CTX + 1]])
        return ids[:-1], ids[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.ln2(x))


class TinyGPT(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.tok = nn.Embedding(vocab, DIM)
        self.pos = nn.Parameter(torch.zeros(CTX, DIM))
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.ln = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, vocab)

    def forward(self, x):
        return self.head(self.ln(self.blocks(self.tok(x) + self.pos[:x.shape[1]])))


@torch.no_grad()
def babble(model, data, n=40):
    model.eval()
    ids = torch.tensor([[data.stoi["T"]]])
    for _ in range(n):
        p = F.softmax(model(ids[:, -CTX:])[:, -1] / 0.8, -1)
        ids = torch.cat([ids, torch.multinomial(p, 1)], 1)
    model.train()
    return "".join(data.chars[i] for i in ids[0].tolist()).replace("\n", " / ")


def main():
    random.seed(1337)
    torch.manual_seed(1337)
    torch.set_num_threads(1)
    data = Chunks(write_verse(4000))
    loader = DataLoader(data, batch_size=BS, shuffle=True, drop_last=True)
    model = TinyGPT(len(data.chars))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    total, step = EPOCHS * len(loader), 0
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M params, {len(data.chars)} chars")

    for epoch in range(EPOCHS):
        t0, running = time.time(), 0.0
        for x, y in loader:
            for g in opt.param_groups:
                g["lr"] = 1e-3 * 0.5 * (1 + math.cos(math.pi * step / total))
            logits = model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            running += loss.item()
            step += 1
        print(f"epoch {epoch} | loss {running / len(loader):.3f} | {time.time() - t0:.1f}s | {babble(model, data)}")


if __name__ == "__main__":
    main()
