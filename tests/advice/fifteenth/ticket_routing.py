"""Routing of support tickets to teams; misspelt words are mapped to the lexicon."""
import os
import re
import tempfile
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "ticket_routing")
LEXICON, TICKETS, WORDS, TEAMS, BUCKETS = 150_000, 4_000, 40, 8, 8_192


def write_corpus():
    lexicon_path = os.path.join(ROOT, "lexicon.txt")
    tickets_path = os.path.join(ROOT, "tickets.tsv")
    if os.path.exists(tickets_path):
        return lexicon_path, tickets_path
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(2)
    parts = [c + v for c in "bcdfghklmnprst" for v in "aeiou"]
    words = ["".join(parts[k] for k in row) for row in rng.integers(0, len(parts), (LEXICON, 4))]
    words = list(dict.fromkeys(words))
    with open(lexicon_path, "w") as out:
        out.write("\n".join(words))
    with open(tickets_path, "w") as out:
        for _ in range(TICKETS):
            team = int(rng.integers(TEAMS))
            topic = rng.integers(0, 300, WORDS) + 300 * team
            noise = rng.integers(0, len(words), WORDS)
            picks = np.where(rng.random(WORDS) < 0.3, topic, noise)
            text = []
            for pick, slip in zip(picks, rng.random(WORDS)):
                word = words[pick]
                if slip < 0.15:
                    at = int(slip * 1000) % len(word)
                    word = word[:at] + word[at + 1:]
                text.append(word)
            out.write(f"{team}\t{' '.join(text)}\n")
    return lexicon_path, tickets_path


SOUNDS = [(re.compile(pattern), sound) for pattern, sound in [
    (r"[^a-z]", ""), (r"^kn", "n"), (r"^ps", "s"), (r"ph", "f"), (r"gh", "g"), (r"c(?=[iey])", "s"),
    (r"ck", "k"), (r"[cq]", "k"), (r"sch?", "s"), (r"dg(?=[iey])", "j"), (r"g(?=[iey])", "j"),
    (r"[dt]", "t"), (r"[bp]", "p"), (r"[mn]", "n"), (r"(.)\1+", r"\1"), (r"(?<!^)[aeiou]", ""),
]]


def sound_key(word):
    key = word.lower()
    for pattern, sound in SOUNDS:
        key = pattern.sub(sound, key)
    return key


class SpellingIndex:
    """Maps a word with a letter missing, or one that sounds alike, to a lexicon word."""

    def __init__(self, path):
        with open(path) as f:
            words = f.read().split()
        self.words = set(words)
        self.deletions, self.sounds = {}, {}
        for word in words:
            self.sounds.setdefault(sound_key(word), word)
            for at in range(len(word)):
                self.deletions.setdefault(word[:at] + word[at + 1:], word)

    def correct(self, word):
        if word in self.words:
            return word
        if word in self.deletions:
            return self.deletions[word]
        return self.sounds.get(sound_key(word), word)


class Tickets(Dataset):
    def __init__(self, lexicon_path, tickets_path):
        self.lexicon_path = lexicon_path
        self.spelling = None
        with open(tickets_path) as f:
            rows = [line.rstrip("\n").split("\t") for line in f]
        self.teams = [int(team) for team, _ in rows]
        self.texts = [text for _, text in rows]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        if self.spelling is None:
            self.spelling = SpellingIndex(self.lexicon_path)
        words = [self.spelling.correct(word) for word in self.texts[index].split()]
        ids = [zlib.crc32(word.encode()) % BUCKETS for word in words]
        return torch.tensor(ids), self.teams[index]


class Router(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embed = nn.Embedding(BUCKETS, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 96, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, TEAMS)

    def forward(self, ids):
        return self.head(self.block(self.embed(ids)).mean(1))


def main():
    torch.manual_seed(0)
    tickets = Tickets(*write_corpus())
    loader = DataLoader(tickets, batch_size=48, shuffle=True, num_workers=2, prefetch_factor=4)
    model = Router()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        total, right = 0.0, 0
        for ids, teams in loader:
            logits = model(ids)
            loss = loss_fn(logits, teams)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(teams)
            right += (logits.argmax(1) == teams).sum().item()
        print(f"epoch {epoch}: loss {total / len(tickets):.4f}, accuracy {right / len(tickets):.3f}", flush=True)


if __name__ == "__main__":
    main()
