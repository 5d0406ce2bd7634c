# %% [markdown]
# Roof / road / field masks from 64x64 satellite tiles: light decoder on our pretrained encoder
# %%
import argparse
import random
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class CFG:
    seed = 42
    size = 64
    classes = 4
    bs = 16
    lr = 2e-3
    root = Path(__file__).parent / "data" / "roofseg"


# %%
def conv_bn(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Encoder(nn.Module):
    def __init__(self, w=20):
        super().__init__()
        self.stem = conv_bn(3, w, 2)
        self.s1 = nn.Sequential(conv_bn(w, w), conv_bn(w, w))
        self.s2 = nn.Sequential(conv_bn(w, 2 * w, 2), conv_bn(2 * w, 2 * w), conv_bn(2 * w, 2 * w))
        self.s3 = nn.Sequential(conv_bn(2 * w, 4 * w, 2), conv_bn(4 * w, 4 * w), conv_bn(4 * w, 4 * w))
        self.out = (w, 2 * w, 4 * w)

    def forward(self, x):
        a = self.s1(self.stem(x))
        b = self.s2(a)
        c = self.s3(b)
        return a, b, c


class SegNet(nn.Module):
    def __init__(self, weights, classes):
        super().__init__()
        self.encoder = Encoder()
        self.encoder.load_state_dict(torch.load(weights))
        self.lateral = nn.ModuleList([nn.Conv2d(c, 12, 1) for c in self.encoder.out])
        self.mix = nn.Conv2d(12, 12, 3, padding=1)
        self.cls = nn.Conv2d(12, classes, 1)

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, x):
        feats = self.encoder(x)
        y = self.lateral[0](feats[0])
        for lat, f in zip(self.lateral[1:], feats[1:]):
            y = y + F.interpolate(lat(f), size=y.shape[-2:], mode="nearest")
        y = self.cls(F.relu(self.mix(F.relu(y))))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


# %%
def make_data(n=800):
    rng = np.random.default_rng(5)
    (CFG.root / "img").mkdir(parents=True)
    (CFG.root / "mask").mkdir()
    for i in range(n):
        mask = np.zeros((CFG.size, CFG.size), np.uint8)
        mask[:, rng.integers(16, 48):] = 3
        p, q = rng.integers(0, CFG.size, (2, 2))
        cv2.line(mask, tuple(map(int, p)), tuple(map(int, q)), 2, int(rng.integers(3, 7)))
        for _ in range(rng.integers(2, 6)):
            x, y = map(int, rng.integers(0, 52, 2))
            w, h = map(int, rng.integers(7, 16, 2))
            cv2.rectangle(mask, (x, y), (x + w, y + h), 1, -1)
        tone = np.array([[90, 120, 80], [70, 80, 150], [110, 110, 110], [60, 140, 120]])
        img = tone[mask] + rng.normal(0, 18, (CFG.size, CFG.size, 3)) + rng.normal(0, 12, 3)
        img = cv2.GaussianBlur(np.clip(img, 0, 255).astype(np.uint8), (3, 3), 0)
        cv2.imwrite(str(CFG.root / "img" / f"{i:05d}.png"), img)
        cv2.imwrite(str(CFG.root / "mask" / f"{i:05d}.png"), mask)
    pretrain()


def pretrain(steps=60):
    torch.manual_seed(1)
    encoder = Encoder()
    head = nn.Conv2d(encoder.out[2], CFG.classes, 1)
    opt = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], 2e-3)
    pool = DataLoader(Tiles(list(range(640)), False), 16, shuffle=True)
    for _, (x, y) in zip(range(steps), (b for _ in range(9) for b in pool)):
        loss = F.cross_entropy(head(encoder(x)[2]), y[:, 4::8, 4::8])
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save(encoder.state_dict(), CFG.root / "encoder_pretrained.pth")


class Tiles(Dataset):
    def __init__(self, ids, train):
        self.ids, self.train = ids, train

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, k):
        name = f"{self.ids[k]:05d}.png"
        img = cv2.imread(str(CFG.root / "img" / name))[..., ::-1]
        mask = cv2.imread(str(CFG.root / "mask" / name), cv2.IMREAD_GRAYSCALE)
        if self.train:
            if random.random() < 0.5:
                img, mask = img[:, ::-1], mask[:, ::-1]
            r = random.randrange(4)
            img, mask = np.rot90(img, r), np.rot90(mask, r)
            gain = random.uniform(0.85, 1.15)
            img = np.clip(img * np.float32(gain), 0, 255)
        x = torch.from_numpy(np.ascontiguousarray(img.transpose(2, 0, 1), dtype=np.float32)) / 255
        return (x - 0.4) / 0.2, torch.from_numpy(np.ascontiguousarray(mask)).long()


# %%
def train_fn(model, loader, optimizer):
    model.train()
    tot = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        tot += loss.item()
    return tot / len(loader)


@torch.no_grad()
def valid_fn(model, loader):
    model.eval()
    inter = torch.zeros(CFG.classes)
    union = torch.zeros(CFG.classes)
    for x, y in loader:
        p = model(x).argmax(1)
        for c in range(CFG.classes):
            inter[c] += ((p == c) & (y == c)).sum()
            union[c] += ((p == c) | (y == c)).sum()
    return (inter / union.clamp(min=1)).mean().item()


# %%
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    args = ap.parse_args()
    if not (CFG.root / "encoder_pretrained.pth").exists():
        make_data()
    random.seed(CFG.seed)
    torch.manual_seed(CFG.seed)
    ids = list(range(800))
    random.shuffle(ids)
    train_loader = DataLoader(Tiles(ids[:704], True), CFG.bs, shuffle=True, drop_last=True)
    valid_loader = DataLoader(Tiles(ids[704:], False), 32)
    model = SegNet(CFG.root / "encoder_pretrained.pth", CFG.classes)
    head = [*model.lateral.parameters(), *model.mix.parameters(), *model.cls.parameters()]
    optimizer = torch.optim.AdamW(head, lr=CFG.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    best = 0.0
    for epoch in range(args.epochs):
        loss = train_fn(model, train_loader, optimizer)
        miou = valid_fn(model, valid_loader)
        scheduler.step()
        print(f"epoch {epoch} loss {loss:.5f} mIoU {miou:.4f}", flush=True)
        if miou > best:
            best = miou
            torch.save(model.state_dict(), CFG.root / "best.pth")


if __name__ == "__main__":
    main()
