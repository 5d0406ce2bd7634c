"""Speaker embeddings with an angular prototypical loss (episodic batches).

    python voiceprint.py --epochs 6 --speakers-per-batch 16 --utts-per-speaker 4
"""
import argparse
import csv
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

DATA = Path(__file__).parent / "data" / "voiceprint"
N_MELS, N_FRAMES = 40, 48


def synthesise(out, n_speakers=700, per_speaker=64, seed=11):
    if (out / "manifest.csv").exists():
        return
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    n = n_speakers * per_speaker
    feats = np.lib.format.open_memmap(out / "fbank.npy", mode="w+", dtype=np.int8, shape=(n, N_MELS, N_FRAMES))
    who = rng.permutation(np.repeat(np.arange(n_speakers), per_speaker))
    voices = rng.normal(0, 14, size=(n_speakers, N_MELS, 1)).astype(np.float32)
    for a in range(0, n, 1024):
        ids = who[a:a + 1024]
        noise = rng.standard_normal((len(ids), N_MELS, N_FRAMES), dtype=np.float32) * 22
        feats[a:a + 1024] = np.clip(voices[ids] + noise, -127, 127).astype(np.int8)
    feats.flush()
    with open(out / "manifest.csv", "w", newline="") as fh:
        writer = csv.writer(fh)
        writer.writerow(["utt", "speaker", "row"])
        for row, s in enumerate(who):
            writer.writerow([f"id{10000 + s}-{row:06d}", f"id{10000 + s}", row])


class FbankDataset(Dataset):
    """Int8 log-mel features in one memory-mapped array."""

    def __init__(self, root, speakers, augment):
        with open(root / "manifest.csv", newline="") as fh:
            rows = [r for r in csv.DictReader(fh) if r["speaker"] in speakers]
        self.rows = [int(r["row"]) for r in rows]
        self.speakers = [r["speaker"] for r in rows]
        self.feats = np.load(root / "fbank.npy", mmap_mode="r")
        self.augment = augment

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        x = self.feats[self.rows[i]].astype(np.float32) / 32.0
        if self.augment:
            f = i % (N_MELS - 4)
            x[f:f + 4] = 0.0
        return torch.from_numpy(x)


class EpisodeSampler(Sampler):
    """Batches of P speakers with K utterances each."""

    def __init__(self, speakers, p, k, n_batches, seed=0):
        self.speakers = speakers
        self.names = sorted(set(speakers))
        self.p, self.k, self.n_batches = p, k, n_batches
        self.rng = random.Random(seed)

    def __len__(self):
        return self.n_batches

    def __iter__(self):
        for _ in range(self.n_batches):
            batch = []
            for name in self.rng.sample(self.names, self.p):
                pool = [i for i, s in enumerate(self.speakers) if s == name]
                batch.extend(self.rng.sample(pool, self.k))
            yield batch


class TDNN(nn.Module):
    def __init__(self, width=128, dim=128):
        super().__init__()
        def block(cin, cout, k, d):
            return nn.Sequential(nn.Conv1d(cin, cout, k, dilation=d), nn.ReLU(), nn.BatchNorm1d(cout))
        self.frames = nn.Sequential(
            block(N_MELS, width, 5, 1), block(width, width, 3, 2), block(width, width, 3, 3), block(width, width, 1, 1)
        )
        self.head = nn.Linear(2 * width, dim)

    def forward(self, x):
        h = self.frames(x)
        return self.head(torch.cat([h.mean(-1), h.std(-1)], dim=1))


class AngularProto(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(10.0))
        self.b = nn.Parameter(torch.tensor(-5.0))

    def forward(self, emb):
        proto = emb[:, 1:].mean(1)
        query = emb[:, 0]
        logits = F.cosine_similarity(query[:, None], proto[None], dim=-1) * self.w.clamp(min=1e-6) + self.b
        target = torch.arange(len(emb))
        return F.cross_entropy(logits, target), (logits.argmax(1) == target).float().mean()


@torch.no_grad()
def verification_eer(model, loader, labels):
    model.eval()
    emb = F.normalize(torch.cat([model(x) for x in loader]), dim=1)
    sims = emb @ emb.T
    upper = torch.triu(torch.ones_like(sims, dtype=torch.bool), 1)
    same = labels[:, None] == labels[None]
    scores, same = sims[upper], same[upper]
    order = scores.argsort()
    miss = same[order].float().cumsum(0) / same.sum()
    fa = 1 - (~same[order]).float().cumsum(0) / (~same).sum()
    return ((miss + fa) / 2)[(miss - fa).abs().argmin()].item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--speakers-per-batch", type=int, default=16)
    ap.add_argument("--utts-per-speaker", type=int, default=4)
    ap.add_argument("--batches-per-epoch", type=int, default=60)
    ap.add_argument("--num-workers", type=int, default=1)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()

    synthesise(DATA)
    torch.manual_seed(args.seed)
    everyone = [f"id{10000 + s}" for s in range(700)]
    train = FbankDataset(DATA, set(everyone[:-12]), augment=True)
    trial = FbankDataset(DATA, set(everyone[-12:]), augment=False)
    sampler = EpisodeSampler(train.speakers, args.speakers_per_batch, args.utts_per_speaker,
                             args.batches_per_epoch, seed=args.seed)
    loader = DataLoader(train, batch_sampler=sampler, num_workers=args.num_workers, persistent_workers=True)
    trial_loader = DataLoader(trial, batch_size=128)
    trial_labels = torch.tensor([int(s[2:]) for s in trial.speakers])

    model, criterion = TDNN(), AngularProto()
    params = list(model.parameters()) + list(criterion.parameters())
    optim = torch.optim.Adam(params, lr=args.lr, weight_decay=2e-5)
    sched = torch.optim.lr_scheduler.StepLR(optim, 1, gamma=0.9)
    for epoch in range(1, args.epochs + 1):
        model.train()
        loss_sum = acc_sum = 0.0
        for x in loader:
            emb = model(x).view(args.speakers_per_batch, args.utts_per_speaker, -1)
            loss, acc = criterion(emb)
            optim.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 5.0)
            optim.step()
            loss_sum += loss.item()
            acc_sum += acc.item()
        sched.step()
        n = len(loader)
        eer = verification_eer(model, trial_loader, trial_labels)
        print(f"epoch {epoch:2d} | loss {loss_sum / n:.5f} | acc {acc_sum / n:.4f} | EER {100 * eer:.2f}%", flush=True)


if __name__ == "__main__":
    main()
