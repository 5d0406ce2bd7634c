"""Routes support tickets to a team: word-level transformer over the ticket text."""
import os
import re
import time
from collections import Counter

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
TEAMS, TICKETS, VOCAB, MAX_WORDS = 6, 1600, 4000, 160
PAD, UNKNOWN = 0, 1


def write_tickets(seed=21):
    rng = np.random.default_rng(seed)
    syllables = ["ac", "ber", "co", "dul", "en", "fir", "gan", "hol", "ix", "jor", "kel", "lum", "mo", "net", "or"]
    words = ["".join(rng.choice(syllables, rng.integers(2, 5))) for _ in range(3000)]
    topical = rng.choice(len(words), (TEAMS, 60))
    tickets = []
    for _ in range(TICKETS):
        team = int(rng.integers(TEAMS))
        length = int(np.clip(rng.lognormal(3.2, 0.5), 4, 400))
        picks = np.where(rng.random(length) < 0.15, rng.choice(topical[team], length),
                         rng.integers(0, len(words), length))
        tickets.append((" ".join(words[p] for p in picks) + ".", team))
    return tickets


def tokenize(text):
    return re.findall(r"[a-z]+", text.lower())


class Vocabulary:
    def __init__(self, texts, size):
        counts = Counter(word for text in texts for word in tokenize(text))
        self.index = {word: i + 2 for i, (word, _) in enumerate(counts.most_common(size - 2))}

    def encode(self, text):
        return [self.index.get(word, UNKNOWN) for word in tokenize(text)]


class Tickets(Dataset):
    def __init__(self, tickets, vocabulary, drop_words=0.0):
        self.items = [(vocabulary.encode(text), team) for text, team in tickets]
        self.drop_words = drop_words

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        ids, team = self.items[index]
        ids = torch.tensor(ids[:MAX_WORDS])
        if self.drop_words:
            ids = ids.masked_fill(torch.rand(len(ids)) < self.drop_words, UNKNOWN)
        return ids, team


class Collator:
    def __init__(self, max_words):
        self.max_words = max_words

    def __call__(self, samples):
        width = self.max_words
        ids = torch.full((len(samples), width), PAD)
        for row, (words, _) in enumerate(samples):
            ids[row, :len(words)] = words
        return {"ids": ids, "mask": ids != PAD, "team": torch.tensor([team for _, team in samples])}


class Router(nn.Module):
    def __init__(self, dim=64, depth=2):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.places = nn.Parameter(torch.randn(MAX_WORDS, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, TEAMS)

    def forward(self, ids, mask):
        x = self.words(ids) + self.places[:ids.shape[1]]
        x = self.encoder(x, src_key_padding_mask=~mask)
        weight = mask.unsqueeze(-1).float()
        return self.head((x * weight).sum(1) / weight.sum(1).clamp(min=1))


def main():
    torch.manual_seed(0)
    tickets = write_tickets()
    vocabulary = Vocabulary((text for text, _ in tickets), VOCAB)
    cut = int(0.9 * len(tickets))
    collate = Collator(MAX_WORDS)
    train_loader = DataLoader(Tickets(tickets[:cut], vocabulary, drop_words=0.05), batch_size=32, shuffle=True,
                              num_workers=1, persistent_workers=True, collate_fn=collate)
    val_loader = DataLoader(Tickets(tickets[cut:], vocabulary), batch_size=64, collate_fn=collate)
    model = Router()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        began, running = time.time(), 0.0
        model.train()
        for batch in train_loader:
            loss = loss_fn(model(batch["ids"], batch["mask"]), batch["team"])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
        model.eval()
        hits = 0
        with torch.no_grad():
            for batch in val_loader:
                hits += (model(batch["ids"], batch["mask"]).argmax(1) == batch["team"]).sum().item()
        print(f"epoch {epoch}: loss {running / len(train_loader):.4f} val acc {hits / (len(tickets) - cut):.3f} "
              f"({time.time() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
