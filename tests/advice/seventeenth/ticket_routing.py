"""Route support tickets to a team with a small transformer."""
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
TEAMS = ("billing", "network", "hardware", "accounts", "orders", "returns")
TICKETS = 960
LONGEST = 160
PAD, UNKNOWN = 0, 1


def make_tickets(seed=9):
    rng = np.random.default_rng(seed)
    syllables = [a + b for a in "bcdfgklmnprst" for b in "aeiou"]
    words = sorted({"".join(rng.choice(syllables, rng.integers(2, 5))) for _ in range(4000)})
    topics = [rng.choice(len(words), 60, replace=False) for _ in TEAMS]
    tickets = []
    for _ in range(TICKETS):
        team = int(rng.integers(len(TEAMS)))
        length = int(np.clip(rng.lognormal(3.1, 0.6), 5, LONGEST))
        ids = rng.integers(0, len(words), length)
        topical = rng.random(length) < 0.15
        ids[topical] = rng.choice(topics[team], topical.sum())
        tickets.append((" ".join(words[i] for i in ids), team))
    tickets[0] = (" ".join(words[i] for i in rng.integers(0, len(words), LONGEST)), 0)
    return tickets


class Vocabulary:
    def __init__(self, texts, at_least=2):
        counts = {}
        for text in texts:
            for word in text.split():
                counts[word] = counts.get(word, 0) + 1
        kept = sorted(w for w, n in counts.items() if n >= at_least)
        self.index = {w: i + 2 for i, w in enumerate(kept)}

    def __len__(self):
        return len(self.index) + 2

    def encode(self, text):
        return [self.index.get(word, UNKNOWN) for word in text.split()]


class Tickets(Dataset):
    def __init__(self, tickets, vocabulary, drop_words=0.05):
        self.encoded = [(torch.tensor(vocabulary.encode(text)), team) for text, team in tickets]
        self.drop_words = drop_words
        self.longest = max(len(ids) for ids, _ in self.encoded)

    def __len__(self):
        return len(self.encoded)

    def __getitem__(self, index):
        ids, team = self.encoded[index]
        dropped = torch.rand(len(ids)) < self.drop_words
        return ids.masked_fill(dropped, UNKNOWN), team


class TicketCollate:
    def __init__(self, longest):
        self.longest = longest

    def __call__(self, batch):
        texts, teams = zip(*batch)
        ids = torch.full((len(texts), self.longest), PAD)
        for row, text in zip(ids, texts):
            row[:len(text)] = text
        return ids, ids.eq(PAD), torch.tensor(teams)


class Router(nn.Module):
    def __init__(self, words, longest, width=48):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=PAD)
        self.position = nn.Parameter(0.02 * torch.randn(longest, width))
        layer = nn.TransformerEncoderLayer(width, 4, 96, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(TEAMS))

    def forward(self, ids, padding):
        x = self.embed(ids) + self.position[:ids.size(1)]
        x = self.encoder(x, src_key_padding_mask=padding)
        weight = (~padding).unsqueeze(2).float()
        return self.head((x * weight).sum(1) / weight.sum(1))


def main():
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tickets = make_tickets()
    vocabulary = Vocabulary(text for text, _ in tickets)
    dataset = Tickets(tickets, vocabulary)
    loader = DataLoader(dataset, batch_size=16, shuffle=True, collate_fn=TicketCollate(dataset.longest))
    model = Router(len(vocabulary), dataset.longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for epoch in range(EPOCHS):
        model.train()
        total, correct = 0.0, 0
        for ids, padding, team in loader:
            logits = model(ids, padding)
            loss = nn.functional.cross_entropy(logits, team)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(team)
            correct += (logits.argmax(1) == team).sum().item()
        print(f"epoch {epoch}: loss {total / len(dataset):.4f} accuracy {correct / len(dataset):.3f}", flush=True)


if __name__ == "__main__":
    main()
