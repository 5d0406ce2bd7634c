"""Predict residue-residue contacts of proteins from sequence features (2D residual network)."""
import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent / "data" / "contact_maps"


@dataclass
class Config:
    epochs: int = 4
    crop: int = 64
    batch: int = 8
    width: int = 32
    depth: int = 6
    lr: float = 1e-3
    proteins: int = 320
    val: int = 32
    min_sep: int = 6


def make_data(cfg):
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(41)
    lengths = rng.integers(80, 300, cfg.proteins)
    seqs, coords, profiles = [], [], []
    for n in lengths:
        step = rng.normal(0, 1, (n, 3))
        step /= np.linalg.norm(step, axis=1, keepdims=True)
        ca = np.cumsum(3.8 * step, 0)
        ca *= (8.0 * n ** 0.33) / (np.linalg.norm(ca - ca.mean(0), axis=1).mean() + 1e-6) * 0.8
        seqs.append(rng.integers(0, 20, n).astype(np.uint8))
        coords.append(ca.astype(np.float32))
        profiles.append((rng.normal(0, 0.3, (n, 8)) + np.tanh(ca[:, :1] / 15)).astype(np.float32))
    np.savez(DATA / "chains.npz", lengths=lengths, seq=np.concatenate(seqs), ca=np.concatenate(coords),
             prof=np.concatenate(profiles))


class Chains(Dataset):
    def __init__(self, cfg, which, train):
        with np.load(DATA / "chains.npz") as z:
            ends = np.cumsum(z["lengths"])
            seq, ca, prof = z["seq"], z["ca"], z["prof"]
        starts = ends - np.diff(np.concatenate([[0], ends]))
        eye = np.eye(20, dtype=np.float32)
        self.items = []
        for k in which:
            s = slice(starts[k], ends[k])
            feats = np.concatenate([eye[seq[s]], prof[s]], 1)
            self.items.append((torch.from_numpy(feats), torch.from_numpy(ca[s])))
        self.cfg, self.train = cfg, train

    def __len__(self):
        return len(self.items)

    def __getitem__(self, k):
        feats, ca = self.items[k]
        room = len(feats) - self.cfg.crop
        a = int(torch.randint(0, room + 1, (1,))) if self.train else room // 2
        feats, ca = feats[a:a + self.cfg.crop], ca[a:a + self.cfg.crop]
        contact = torch.cdist(ca, ca) < 8.0
        return feats, contact


class ResBlock(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=dilation, dilation=dilation)
        self.b = nn.Conv2d(c, c, 3, padding=1)
        self.na, self.nb = nn.InstanceNorm2d(c, affine=True), nn.InstanceNorm2d(c, affine=True)

    def forward(self, x):
        return F.elu(x + self.nb(self.b(F.elu(self.na(self.a(x))))))


class ContactNet(nn.Module):
    def __init__(self, cfg, d_in=28):
        super().__init__()
        self.proj = nn.Linear(d_in, cfg.width // 2)
        self.blocks = nn.Sequential(*[ResBlock(cfg.width, 2 ** (i % 3)) for i in range(cfg.depth)])
        self.out = nn.Conv2d(cfg.width, 1, 1)

    def forward(self, feats):
        h = self.proj(feats)
        n = h.shape[1]
        pair = torch.cat([h[:, :, None].expand(-1, -1, n, -1), h[:, None].expand(-1, n, -1, -1)], -1)
        z = self.out(self.blocks(pair.permute(0, 3, 1, 2).contiguous())).squeeze(1)
        return 0.5 * (z + z.transpose(1, 2))


def main():
    cfg = Config()
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=cfg.epochs)
    ap.add_argument("--make", action="store_true")
    args = ap.parse_args()
    if args.make or not (DATA / "chains.npz").exists():
        make_data(cfg)
        if args.make:
            return
    torch.manual_seed(0)
    n_train = cfg.proteins - cfg.val
    train = DataLoader(Chains(cfg, range(n_train), True), batch_size=cfg.batch, shuffle=True, num_workers=1,
                       persistent_workers=True)
    val = DataLoader(Chains(cfg, range(n_train, cfg.proteins), False), batch_size=cfg.batch)
    idx = torch.arange(cfg.crop)
    mask = (idx[:, None] - idx[None]).abs() >= cfg.min_sep
    model = ContactNet(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    for epoch in range(args.epochs):
        t0, losses = time.time(), []
        model.train()
        for feats, contact in train:
            z = model(feats)[:, mask]
            loss = F.binary_cross_entropy_with_logits(z, contact[:, mask].float())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        sched.step()
        model.eval()
        hits = picked = 0
        with torch.no_grad():
            for feats, contact in val:
                z = model(feats).masked_fill(~mask, -1e4).flatten(1)
                top = z.topk(cfg.crop, dim=1).indices
                hits += contact.flatten(1).gather(1, top).sum().item()
                picked += top.numel()
        print(f"epoch {epoch} steps {len(losses)} loss {np.mean(losses):.4f} P@L {hits / picked:.3f} {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
