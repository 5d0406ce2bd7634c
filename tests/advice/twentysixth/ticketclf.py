"""Routes support tickets to teams: word-level transformer encoder, JSON lines in, accuracy out."""
import argparse
import json
import re
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).parent / "data" / "ticketclf"
TEAMS = ["billing", "network", "accounts", "hardware", "other"]
PAD, UNK = 0, 1
WORD = re.compile(r"[a-z0-9']+")


def write_tickets(path, n=2200, words=6000):
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    syll = ["ba", "ter", "min", "lo", "ket", "ra", "su", "pin", "der", "qua", "net", "fi", "cor", "ly"]
    vocab = np.array(["".join(rng.choice(syll, size=rng.integers(1, 5))) + str(i % 37) for i in range(words)])
    common = 1.0 / (np.arange(words) + 5.0)
    common /= common.sum()
    with open(path.with_suffix(".tmp"), "w") as out:
        for _ in range(n):
            team = int(rng.integers(len(TEAMS)))
            length = int(np.clip(rng.lognormal(3.4, 0.55), 5, 250))
            ids = rng.choice(words, size=length, p=common)
            topical = rng.random(length) < 0.15
            ids[topical] = 200 + team * 60 + rng.integers(0, 60, topical.sum())
            body = " ".join(vocab[ids])
            out.write(json.dumps({"team": TEAMS[team], "subject": body[:30], "body": body}) + "\n")
    path.with_suffix(".tmp").rename(path)


def read_tickets(path):
    with open(path) as fh:
        rows = [json.loads(line) for line in fh]
    return [WORD.findall(r["body"].lower()) for r in rows], [TEAMS.index(r["team"]) for r in rows]


def build_vocab(texts, size):
    counts = Counter(w for t in texts for w in t)
    return {w: i + 2 for i, (w, _) in enumerate(counts.most_common(size - 2))}


class Tickets(Dataset):
    def __init__(self, texts, labels, vocab, max_len):
        self.tokens = [torch.tensor([vocab.get(w, UNK) for w in t[:max_len]]) for t in texts]
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.tokens[i], self.labels[i]


def collate(batch, max_len):
    tokens, labels = zip(*batch)
    ids = torch.full((len(tokens), max_len), PAD, dtype=torch.long)
    for row, t in enumerate(tokens):
        ids[row, :len(t)] = t
    return ids, torch.tensor(labels)


class Encoder(nn.Module):
    def __init__(self, vocab, max_len, dim=64, heads=2, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.place = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, len(TEAMS))

    def forward(self, ids):
        pad = ids == PAD
        x = self.embed(ids) + self.place[:ids.shape[1]]
        x = self.norm(self.layers(x, src_key_padding_mask=pad))
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        return self.out((x * keep).sum(1) / keep.sum(1))


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    total, right, seen = 0.0, 0, 0
    with torch.set_grad_enabled(opt is not None):
        for ids, labels in loader:
            logits = model(ids)
            loss = nn.functional.cross_entropy(logits, labels)
            if opt is not None:
                opt.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
            total += loss.item() * len(labels)
            right += (logits.argmax(-1) == labels).sum().item()
            seen += len(labels)
    return total / seen, right / seen


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--max-len", type=int, default=256)
    ap.add_argument("--vocab-size", type=int, default=5000)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    torch.manual_seed(1)
    write_tickets(HERE / "tickets.jsonl")
    texts, labels = read_tickets(HERE / "tickets.jsonl")
    cut = int(0.9 * len(texts))
    vocab = build_vocab(texts[:cut], args.vocab_size)
    pack = partial(collate, max_len=args.max_len)
    train = DataLoader(Tickets(texts[:cut], labels[:cut], vocab, args.max_len), args.batch_size,
                       shuffle=True, collate_fn=pack, drop_last=True)
    valid = DataLoader(Tickets(texts[cut:], labels[cut:], vocab, args.max_len), 2 * args.batch_size, collate_fn=pack)

    model = Encoder(args.vocab_size, args.max_len)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    for epoch in range(args.epochs):
        loss, acc = run_epoch(model, train, opt)
        vloss, vacc = run_epoch(model, valid)
        print(f"epoch {epoch} loss {loss:.4f} acc {acc:.3f} | valid loss {vloss:.4f} acc {vacc:.3f}", flush=True)


if __name__ == "__main__":
    main()
