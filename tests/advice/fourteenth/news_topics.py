import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 6))
VOCAB, TOPICS = 4000, 6
BATCH = 32


def corpus(n, seed):
    rng = np.random.default_rng(seed)
    topics = rng.integers(0, TOPICS, n)
    lengths = rng.integers(24, 96, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.zipf(1.25, offsets[-1]) % (VOCAB - 1) + 1
    marked = rng.random(offsets[-1]) < 0.12
    owner = np.repeat(topics, lengths)
    tokens[marked] = 200 + 100 * owner[marked] + rng.integers(0, 100, marked.sum())
    return tokens.astype(np.int32), offsets, topics.astype(np.int64)


class Articles(IterableDataset):
    """Yields padded batches of articles of similar length, in random order."""

    def __init__(self, tokens, offsets, topics, batch_size, pool=16, shuffle=True):
        self.tokens, self.offsets, self.topics = tokens, offsets, topics
        self.batch_size, self.pool, self.shuffle = batch_size, pool, shuffle

    def collate(self, rows):
        begin, end = self.offsets[rows], self.offsets[rows + 1]
        batch = np.zeros((len(rows), int((end - begin).max())), dtype=np.int64)
        for line, a, b in zip(batch, begin, end):
            line[:b - a] = self.tokens[a:b]
        return torch.from_numpy(batch), torch.from_numpy(self.topics[rows])

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        rng = np.random.default_rng(torch.initial_seed() % 2**32)
        rows = np.arange(worker, len(self.topics), workers)
        if self.shuffle:
            rng.shuffle(rows)
        lengths = np.diff(self.offsets)
        span = self.batch_size * self.pool
        for start in range(0, len(rows), span):
            near = rows[start:start + span]
            near = near[np.argsort(lengths[near], kind="stable")]
            parts = [near[i:i + self.batch_size] for i in range(0, len(near), self.batch_size)]
            for i in rng.permutation(len(parts)) if self.shuffle else range(len(parts)):
                yield self.collate(parts[i])


class TopicTransformer(nn.Module):
    def __init__(self, width=64, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width, padding_idx=0)
        self.place = nn.Parameter(torch.randn(128, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, TOPICS)

    def forward(self, tokens):
        padding = tokens == 0
        x = self.embed(tokens) + self.place[:tokens.shape[1]]
        x = self.encoder(x, src_key_padding_mask=padding)
        x = x.masked_fill(padding.unsqueeze(-1), 0).sum(1)
        return self.head(x / (~padding).sum(1, keepdim=True))


@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    right = seen = 0
    for tokens, topic in batches:
        right += (model(tokens).argmax(1) == topic).sum().item()
        seen += len(topic)
    return right / seen


def main():
    torch.manual_seed(1)
    train_set = Articles(*corpus(1200, seed=1), BATCH)
    held_out = list(Articles(*corpus(300, seed=2), 100, shuffle=False))
    loader = DataLoader(train_set, batch_size=None, num_workers=1, prefetch_factor=8,
                        persistent_workers=True)
    model = TopicTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)

    for epoch in range(EPOCHS):
        began = time.perf_counter()
        model.train()
        total, seen = 0.0, 0
        for tokens, topic in loader:
            loss = F.cross_entropy(model(tokens), topic)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(topic)
            seen += len(topic)
        print(f"epoch {epoch}: loss {total / seen:.3f}, held out {accuracy(model, held_out):.3f}, "
              f"{time.perf_counter() - began:.1f}s", flush=True)


if __name__ == "__main__":
    main()
