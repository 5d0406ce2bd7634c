"""Route support tickets to a queue with a small transformer over their tokens."""
import os

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
TICKETS = 960
VOCAB = 4000
QUEUES = 8
MAX_TOKENS = 400
PAD = 0


def synthesise(seed=17):
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.normal(3.5, 0.8, TICKETS)).astype(int).clip(5, MAX_TOKENS)
    queues = rng.integers(0, QUEUES, TICKETS)
    tickets = []
    for size, queue in zip(sizes, queues):
        tokens = rng.zipf(1.3, size) % (VOCAB - 1) + 1
        hint = rng.random(size) < 0.15
        tokens[hint] = 100 + queue * 40 + rng.integers(0, 40, int(hint.sum()))
        tickets.append(tokens.astype(np.int64))
    return tickets, queues


class Tickets(Dataset):
    def __init__(self, tickets, queues, token_dropout=0.05):
        self.tickets = [torch.from_numpy(t) for t in tickets]
        self.queues = torch.from_numpy(queues)
        self.token_dropout = token_dropout

    def __len__(self):
        return len(self.tickets)

    def __getitem__(self, i):
        tokens = self.tickets[i]
        keep = torch.rand(len(tokens)) > self.token_dropout
        keep[0] = True
        return tokens[keep], self.queues[i]


def collate(batch):
    tokens, queues = zip(*batch)
    return pad_sequence(tokens, batch_first=True, padding_value=PAD), torch.stack(queues)


class Router(nn.Module):
    def __init__(self, dim=48, heads=4, depth=2):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.positions = nn.Embedding(MAX_TOKENS, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 2, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, QUEUES)

    def forward(self, tokens):
        padding = tokens == PAD
        where = torch.arange(tokens.shape[1])
        x = self.tokens(tokens) + self.positions(where)
        x = self.encoder(x, src_key_padding_mask=padding)
        present = (~padding).unsqueeze(-1).float()
        return self.head((x * present).sum(1) / present.sum(1))


def main():
    torch.manual_seed(0)
    dataset = Tickets(*synthesise())
    loader = DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=collate)
    model = Router()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(EPOCHS):
        model.train()
        total, right, seen = 0.0, 0, 0
        for tokens, queues in loader:
            logits = model(tokens)
            loss = criterion(logits, queues)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(queues)
            right += (logits.argmax(1) == queues).sum().item()
            seen += len(queues)
        print(f"epoch {epoch}: {seen} tickets, loss {total / seen:.4f}, "
              f"accuracy {right / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
