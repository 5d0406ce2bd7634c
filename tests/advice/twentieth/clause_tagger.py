"""Token tagger for contract clauses (party, date, amount, term, ...)."""
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 8))
DATA = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "clause_tagger")
VOCAB = 6000
N_TAGS = 9
MAX_LEN = 256
N_CLAUSES = 768
BATCH = 24
PAD = 0
IGNORE = -100


def prepare_corpus():
    path = os.path.join(DATA, "clauses.npz")
    if os.path.exists(path):
        return path
    os.makedirs(DATA, exist_ok=True)
    rng = np.random.default_rng(3)
    lengths = np.clip(rng.gamma(6.0, 8.0, N_CLAUSES), 6, MAX_LEN).astype(np.int64)
    lengths[rng.choice(N_CLAUSES, 2, replace=False)] = rng.integers(180, MAX_LEN, 2)
    tokens = rng.zipf(1.3, lengths.sum()) % (VOCAB - 1) + 1
    tags = (tokens * 7 + np.roll(tokens, 1)) % N_TAGS
    np.savez(path, tokens=tokens.astype(np.int32), tags=tags.astype(np.int8), lengths=lengths)
    return path


class ClauseDataset(Dataset):
    def __init__(self, path):
        with np.load(path) as f:
            self.tokens = f["tokens"].astype(np.int64)
            self.tags = f["tags"].astype(np.int64)
            self.ends = np.cumsum(f["lengths"])
        self.starts = np.concatenate([[0], self.ends[:-1]])

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, i):
        span = slice(self.starts[i], self.ends[i])
        return torch.from_numpy(self.tokens[span]), torch.from_numpy(self.tags[span])


def collate(samples):
    width = MAX_LEN
    tokens = torch.full((len(samples), width), PAD, dtype=torch.long)
    tags = torch.full((len(samples), width), IGNORE, dtype=torch.long)
    for row, (tok, tag) in enumerate(samples):
        tokens[row, :len(tok)] = tok
        tags[row, :len(tag)] = tag
    return tokens, tags


class Tagger(nn.Module):
    def __init__(self, dim=96, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.position = nn.Embedding(MAX_LEN, dim)
        layer = nn.TransformerEncoderLayer(
            dim, heads, dim * 3, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, N_TAGS)

    def forward(self, tokens):
        pos = torch.arange(tokens.shape[1], device=tokens.device)
        h = self.embed(tokens) + self.position(pos)
        h = self.encoder(h, src_key_padding_mask=tokens == PAD)
        return self.head(h)


def main():
    torch.manual_seed(17)
    dataset = ClauseDataset(prepare_corpus())
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, collate_fn=collate, drop_last=True)
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(loader))
    loss_fn = nn.CrossEntropyLoss(ignore_index=IGNORE)
    for epoch in range(1, EPOCHS + 1):
        began = time.perf_counter()
        loss_sum, correct, seen = 0.0, 0, 0
        for tokens, tags in loader:
            logits = model(tokens)
            loss = loss_fn(logits.flatten(0, 1), tags.flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            valid = tags != IGNORE
            loss_sum += loss.item()
            correct += (logits.argmax(-1)[valid] == tags[valid]).sum().item()
            seen += valid.sum().item()
        took = time.perf_counter() - began
        print(f"[{epoch}/{EPOCHS}] loss={loss_sum / len(loader):.3f} acc={correct / seen:.3f} {took:.1f}s", flush=True)


if __name__ == "__main__":
    main()
