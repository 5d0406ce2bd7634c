"""Sentiment of product reviews with a bidirectional GRU (toy corpus)."""

import os
import random
import time
from collections import Counter

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, random_split

EPOCHS = int(os.environ.get("EPOCHS", "5"))
BATCH_SIZE = 32
EVAL_EVERY = 5
LEARNING_RATE = 1e-3
SEED = 1337

GOOD = "great lovely sturdy perfect happy excellent quick recommend charming solid".split()
BAD = "broken awful slow refund cheap angry late flimsy noisy useless".split()
FILLER = ["".join(random.Random(i).choices("abcdefghijklmnoprstuvw", k=random.Random(i).randint(2, 8)))
          for i in range(3000)]


def write_review(rng):
    label = rng.random() < 0.5
    words = rng.choices(FILLER, k=rng.randint(20, 45))
    for _ in range(rng.randint(1, 4)):
        pool = GOOD if label == (rng.random() < 0.85) else BAD
        words.insert(rng.randrange(len(words)), rng.choice(pool))
    return " ".join(words), int(label)


class Vocab:
    PAD, UNK = 0, 1

    def __init__(self, texts, min_count=2):
        counts = Counter(w for t in texts for w in t.split())
        kept = sorted(w for w, c in counts.items() if c >= min_count)
        self.index = {w: i + 2 for i, w in enumerate(kept)}

    def __len__(self):
        return len(self.index) + 2

    def encode(self, text):
        return torch.tensor([self.index.get(w, self.UNK) for w in text.split()])


class Reviews(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        pairs = [write_review(rng) for _ in range(n)]
        self.vocab = Vocab([t for t, _ in pairs])
        self.items = [(self.vocab.encode(t), y) for t, y in pairs]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    ids = pad_sequence([x for x, _ in batch], batch_first=True, padding_value=Vocab.PAD)
    return ids, torch.tensor([float(y) for _, y in batch])


class Classifier(nn.Module):
    def __init__(self, n_words, dim=48, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(n_words, dim, padding_idx=Vocab.PAD)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(2 * hidden, 1)

    def forward(self, ids):
        states, _ = self.rnn(self.embed(ids))
        return self.out(self.drop(states.max(dim=1).values)).squeeze(-1)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = total = 0
    for ids, y in loader:
        right += ((model(ids) > 0) == (y > 0.5)).sum().item()
        total += len(y)
    model.train()
    return right / total


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    reviews = Reviews(3200, SEED)
    train_set, val_set = random_split(reviews, [1920, 1280])
    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val_set, batch_size=BATCH_SIZE, collate_fn=collate)

    model = Classifier(len(reviews.vocab))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    criterion = nn.BCEWithLogitsLoss()
    step, best, best_state = 0, 0.0, None

    for epoch in range(EPOCHS):
        started, running = time.time(), 0.0
        for ids, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(ids), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
            step += 1
            if step % EVAL_EVERY == 0:
                acc = evaluate(model, val_loader)
                if acc > best:
                    best = acc
                    best_state = {k: v.clone() for k, v in model.state_dict().items()}
        print(f"Epoch {epoch + 1}: train loss {running / len(train_loader):.4f}, "
              f"best val acc {best:.4f}, {time.time() - started:.1f}s", flush=True)

    if best_state is not None:
        model.load_state_dict(best_state)


if __name__ == "__main__":
    main()
