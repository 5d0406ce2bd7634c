"""Urgency triage of radiology impressions with a small encoder."""
import json
import os
import random
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
DATA_DIR = os.environ.get("DATA_DIR") or tempfile.gettempdir()
CORPUS = os.path.join(DATA_DIR, "triage_notes.jsonl")

MAX_TOKENS = 256
PAD, UNK = 0, 1
WORDS = [a + b for a in ("pneumo", "cardio", "osteo", "hepato", "neuro", "reno", "gastro", "angio")
         for b in ("thorax", "megaly", "pathy", "lysis", "graphy", "stenosis", "plasty", "edema", "itis", "oma")]
FILLER = "no acute the of with is seen in and mild unchanged right left lower upper lobe stable prior exam".split()


def build_corpus(n=512):
    if os.path.exists(CORPUS):
        return
    os.makedirs(DATA_DIR, exist_ok=True)
    rnd = random.Random(5)
    with open(CORPUS + ".part", "w") as f:
        for i in range(n):
            length = int(min(rnd.lognormvariate(3.9, 0.28), 250))
            urgent = rnd.random() < 0.35
            toks = [rnd.choice(FILLER) if rnd.random() < 0.6 else rnd.choice(WORDS) for _ in range(length)]
            if urgent:
                toks[rnd.randrange(length)] = "pneumothorax"
                toks[rnd.randrange(length)] = "angiostenosis"
            f.write(json.dumps({"id": i, "text": " ".join(toks), "urgent": int(urgent)}) + "\n")
    os.replace(CORPUS + ".part", CORPUS)


class Notes(Dataset):
    def __init__(self, path):
        with open(path) as f:
            self.rows = [json.loads(line) for line in f]
        vocab = sorted({w for r in self.rows for w in r["text"].split()})
        self.stoi = {w: i + 2 for i, w in enumerate(vocab)}

    @property
    def vocab_size(self):
        return len(self.stoi) + 2

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        ids = [self.stoi.get(w, UNK) for w in row["text"].split()][:MAX_TOKENS]
        return ids, row["urgent"]


def collate(samples):
    width = MAX_TOKENS
    ids = torch.full((len(samples), width), PAD, dtype=torch.long)
    for row, (tokens, _) in enumerate(samples):
        ids[row, : len(tokens)] = torch.tensor(tokens)
    labels = torch.tensor([u for _, u in samples], dtype=torch.float32)
    return {"ids": ids, "mask": ids.ne(PAD), "labels": labels}


class Encoder(nn.Module):
    def __init__(self, vocab, dim=96, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Embedding(MAX_TOKENS, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 3, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.cls = nn.Linear(dim, 1)

    def forward(self, ids, mask):
        h = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        h = self.body(h, src_key_padding_mask=~mask)
        m = mask.unsqueeze(-1).float()
        return self.cls((h * m).sum(1) / m.sum(1)).squeeze(-1)


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.data = Notes(CORPUS)
        self.loader = DataLoader(self.data, batch_size=16, shuffle=True, collate_fn=collate, num_workers=1)
        self.model = Encoder(self.data.vocab_size)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=5e-4)
        self.loss_fn = nn.BCEWithLogitsLoss()

    def step(self, batch):
        logits = self.model(batch["ids"], batch["mask"])
        loss = self.loss_fn(logits, batch["labels"])
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.item()

    def fit(self):
        for epoch in range(EPOCHS):
            t = time.time()
            self.model.train()
            losses = [self.step(b) for b in self.loader]
            print(f"epoch {epoch + 1:2d}  bce {sum(losses) / len(losses):.4f}  {time.time() - t:.2f}s", flush=True)


if __name__ == "__main__":
    build_corpus()
    Trainer().fit()
