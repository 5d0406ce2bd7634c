"""Character-level language model with a hand-written LSTM loop."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

# usage: seven.py [key=value ...]
settings = dict(steps=80, seq=64, batch=16, hidden=96, workers=0, prefetch=2, persistent=1, pin=0)
for item in sys.argv[1:]:
    key, value = item.lstrip("-").split("=")
    assert key in settings, f"unknown setting {key}"
    settings[key] = int(value)

TEXT = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, "
    "it was the age of foolishness, it was the epoch of belief. "
) * 400


class CharDataset(Dataset):
    def __init__(self, text, seq):
        self.chars = sorted(set(text))
        index = {c: i for i, c in enumerate(self.chars)}
        self.data = torch.tensor([index[c] for c in text])
        self.seq = seq

    def __len__(self):
        return len(self.data) - self.seq - 1

    def __getitem__(self, i):
        chunk = self.data[i : i + self.seq + 1]
        return chunk[:-1], chunk[1:]


class CharLSTM(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cells = nn.ModuleList([nn.LSTMCell(hidden, hidden) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(2)])
        self.out = nn.Linear(hidden, vocab)

    def forward(self, tokens):
        x = self.embed(tokens)
        states = [None] * len(self.cells)
        logits = []
        for t in range(tokens.shape[1]):
            h = x[:, t]
            for k, cell in enumerate(self.cells):
                states[k] = cell(h, states[k])
                h = self.norms[k](states[k][0])
            logits.append(self.out(h))
        return torch.stack(logits, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    data = CharDataset(TEXT, settings["seq"])
    n = settings["workers"]
    loader = DataLoader(
        data,
        batch_size=settings["batch"],
        shuffle=True,
        drop_last=True,
        num_workers=n,
        pin_memory=bool(settings["pin"]),
        prefetch_factor=settings["prefetch"] if n else None,
        persistent_workers=bool(n and settings["persistent"]),
    )
    model = CharLSTM(len(data.chars), settings["hidden"])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    step, start = 0, time.time()
    while step < settings["steps"]:
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 25 == 0:
                print(f"step {step}: loss {loss.item():.3f}", flush=True)
            if step >= settings["steps"]:
                break
    print(f"trained for {time.time() - start:.2f} s")
