"""Splice donor usage from pre-mRNA windows (one value per transcript window)."""
import gzip
import os
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).parent / "data" / "splice_windows.tsv.gz"
EPOCHS = int(os.environ.get("EPOCHS", 6))
MAX_LEN = 1400            # windows above this are dropped on loading
PAD = 4
CODE = np.full(256, PAD, dtype=np.int64)
for _i, _b in enumerate(b"ACGT"):
    CODE[_b] = _i


def simulate(path, n=6000):
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True, parents=True)
    rng = np.random.default_rng(21)
    tmp = path.parent / f"{path.name}.{os.getpid()}"
    with gzip.open(tmp, "wt", compresslevel=1) as fh:
        for i in range(n):
            length = int(np.clip(rng.normal(300, 22), 230, 360))
            seq = "".join(rng.choice(list("ACGT"), size=length, p=[0.28, 0.22, 0.22, 0.28]))
            strength = int(rng.integers(0, 4))
            for _ in range(strength):
                at = int(rng.integers(5, length - 10))
                seq = seq[:at] + "CAGGTAAGT" + seq[at + 9:]
            fh.write(f"tx{i:06d}\t{'+-'[i % 2]}\t{seq}\t{strength / 3 + rng.normal(0, 0.05):.4f}\n")
    tmp.rename(path)


def read_windows(path):
    records = []
    with gzip.open(path, "rt") as fh:
        for line in fh:
            name, strand, seq, psi = line.rstrip("\n").split("\t")
            if len(seq) <= MAX_LEN:
                records.append((seq, strand, float(psi)))
    return records


class SpliceWindows(Dataset):
    def __init__(self, records, mutate=0.02):
        self.records, self.mutate = records, mutate

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        seq, strand, psi = self.records[i]
        codes = CODE[np.frombuffer(seq.encode(), dtype=np.uint8)]
        if self.mutate:
            hit = np.random.rand(len(codes)) < self.mutate
            codes[hit] = np.random.randint(0, 4, int(hit.sum()))
        kmer = np.zeros(len(codes) - 4, dtype=np.int64)
        for j in range(5):
            kmer = kmer * 4 + codes[j:len(codes) - 4 + j]
        spectrum = np.bincount(kmer, minlength=1024).astype(np.float32)
        gc = np.isin(codes, (1, 2)).astype(np.float32)
        smooth = np.convolve(gc, np.ones(51, np.float32) / 51, mode="same")
        return torch.from_numpy(codes), torch.from_numpy(spectrum), torch.from_numpy(smooth), psi


def collate(batch):
    codes, spectra, gcs, psi = zip(*batch)
    seq = torch.full((len(batch), MAX_LEN), PAD, dtype=torch.long)
    gc = torch.zeros(len(batch), MAX_LEN)
    for row, (c, g) in enumerate(zip(codes, gcs)):
        seq[row, :len(c)] = c
        gc[row, :len(g)] = g
    return seq, gc, torch.stack(spectra), torch.tensor(psi, dtype=torch.float32)


class SpliceNet(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.embed = nn.Embedding(5, 7, padding_idx=PAD)
        self.convs = nn.ModuleList([nn.Conv1d(8, ch, 9, padding=4)] +
                                   [nn.Conv1d(ch, ch, 5, padding=2 * d, dilation=d) for d in (1, 2)])
        self.kmers = nn.Linear(1024, ch)
        self.out = nn.Sequential(nn.Linear(2 * ch, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, seq, gc, spectrum):
        mask = (seq != PAD).unsqueeze(1).float()
        h = torch.cat([self.embed(seq).transpose(1, 2), gc.unsqueeze(1)], dim=1)
        for conv in self.convs:
            h = torch.relu(conv(h)) * mask
        pooled = h.sum(2) / mask.sum(2) * 10
        return self.out(torch.cat([pooled, torch.relu(self.kmers(spectrum))], 1)).squeeze(1)


def main():
    torch.manual_seed(13), np.random.seed(13), random.seed(13)
    simulate(DATA)
    records = read_windows(DATA)
    loader = DataLoader(SpliceWindows(records), batch_size=50, shuffle=True, collate_fn=collate, drop_last=True)
    net = SpliceNet()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    for epoch in range(EPOCHS):
        start, run = time.time(), 0.0
        for seq, gc, spectrum, psi in loader:
            loss = nn.functional.mse_loss(net(seq, gc, spectrum), psi)
            opt.zero_grad()
            loss.backward()
            opt.step()
            run += loss.item()
        sched.step()
        print(f"epoch {epoch}\tmse={run / len(loader):.4f}\t{time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
