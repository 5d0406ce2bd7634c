"""Intent classification of customer support tickets with a small transformer encoder."""
import argparse
import csv
import os
import re
import time
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "ticket_intent")
TICKETS = os.path.join(ROOT, "tickets.csv")
INTENTS = ["billing", "cancel", "delivery", "login", "refund", "technical"]
PAD, UNK = 0, 1
MAX_LEN = 192
TOKEN = re.compile(r"[a-z0-9']+")


def make_data():
    if os.path.exists(TICKETS):
        return
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(21)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(3000)]
    common = np.array(words[:2400])
    topical = {intent: np.array(words[2400 + 100 * k:2500 + 100 * k]) for k, intent in enumerate(INTENTS)}
    with open(TICKETS + ".tmp", "w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["ticket_id", "intent", "body"])
        for n in range(1100):
            intent = INTENTS[rng.integers(len(INTENTS))]
            length = int(np.clip(rng.lognormal(3.3, 0.5), 5, 400))
            body = np.where(rng.random(length) < 0.12, rng.choice(topical[intent], length), rng.choice(common, length))
            writer.writerow([f"T{n:06d}", intent, " ".join(body)])
    os.replace(TICKETS + ".tmp", TICKETS)


def read_tickets(path):
    with open(path, newline="") as handle:
        rows = list(csv.DictReader(handle))
    return [TOKEN.findall(row["body"].lower()) for row in rows], [INTENTS.index(row["intent"]) for row in rows]


class Tickets(Dataset):
    def __init__(self, texts, labels, vocab):
        self.labels = labels
        self.encoded = [torch.tensor([vocab.get(word, UNK) for word in text[:MAX_LEN]]) for text in texts]

    def __len__(self):
        return len(self.encoded)

    def __getitem__(self, index):
        return self.encoded[index], self.labels[index]


def collate(batch):
    texts, labels = zip(*batch)
    width = MAX_LEN
    tokens = torch.full((len(texts), width), PAD, dtype=torch.long)
    for row, text in enumerate(texts):
        tokens[row, :len(text)] = text
    return tokens, torch.tensor(labels)


class IntentModel(nn.Module):
    def __init__(self, vocab_size, classes, dim=96, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        self.position = nn.Embedding(MAX_LEN, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 3, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, tokens):
        mask = tokens.eq(PAD)
        x = self.embed(tokens) + self.position.weight[:tokens.size(1)]
        x = self.norm(self.encoder(x, src_key_padding_mask=mask))
        keep = (~mask).unsqueeze(-1).float()
        return self.head((x * keep).sum(1) / keep.sum(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=7e-4)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.manual_seed(17)
    texts, labels = read_tickets(TICKETS)
    counts = Counter(word for text in texts for word in text)
    vocab = {word: n + 2 for n, (word, count) in enumerate(counts.most_common()) if count > 1}
    cut = len(texts) * 9 // 10
    train = Tickets(texts[:cut], labels[:cut], vocab)
    test = Tickets(texts[cut:], labels[cut:], vocab)
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(test, batch_size=64, collate_fn=collate)

    model = IntentModel(len(vocab) + 2, len(INTENTS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        begin, losses = time.time(), []
        model.train()
        for tokens, targets in train_loader:
            loss = criterion(model(tokens), targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        hits = 0
        with torch.inference_mode():
            for tokens, targets in test_loader:
                hits += (model(tokens).argmax(-1) == targets).sum().item()
        print(f"epoch {epoch + 1}: loss={np.mean(losses):.4f} test_acc={hits / len(test):.3f} [{time.time() - begin:.1f}s]")


if __name__ == "__main__":
    main()
