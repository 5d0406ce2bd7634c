"""Vessel segmentation in fundus patches with a small U-Net."""
import logging
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("retina")


class Patches(Dataset):
    def __init__(self, n, side=96, seed=0, train=True):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:side, 0:side].astype(np.float32) / side
        self.images = np.empty((n, 3, side, side), dtype=np.uint8)
        self.masks = np.zeros((n, side, side), dtype=np.uint8)
        for i in range(n):
            for _ in range(4):
                a, b, c = rng.uniform(-1, 1, 3)
                d = np.abs(yy - 0.5 - a * (xx - 0.5) - 0.2 * b * np.sin(6 * xx + 3 * c))
                self.masks[i] |= (d < 0.025).astype(np.uint8)
            tissue = rng.normal(140, 15, (3, side, side)) - 50 * self.masks[i]
            self.images[i] = np.clip(tissue, 0, 255).astype(np.uint8)
        self.train = train

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x = torch.from_numpy(self.images[i]).float().div_(255)
        y = torch.from_numpy(self.masks[i]).float()
        if self.train and torch.rand(()) < 0.5:
            x, y = x.flip(-1), y.flip(-1)
        return x, y


def double_conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.d1, self.d2, self.d3 = double_conv(3, w), double_conv(w, 2 * w), double_conv(2 * w, 4 * w)
        self.u2, self.u1 = double_conv(6 * w, 2 * w), double_conv(3 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        a = self.u1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))
        return self.out(a).squeeze(1)


def dice(logits, y):
    p = (logits > 0).float()
    return (2 * (p * y).sum() / (p.sum() + y.sum() + 1e-6)).item()


def main(epochs):
    torch.manual_seed(0)
    train = DataLoader(Patches(112), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    val = DataLoader(Patches(32, seed=1, train=False), batch_size=16, num_workers=1, persistent_workers=True)
    net = UNet()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        start = time.time()
        net.train()
        losses = []
        for x, y in train:
            loss = F.binary_cross_entropy_with_logits(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        net.eval()
        with torch.no_grad():
            scores = [dice(net(x), y) for x, y in val]
        log.info("epoch %d loss %.4f dice %.3f (%.1fs)", epoch, np.mean(losses), np.mean(scores), time.time() - start)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(os.environ.get("EPOCHS", 6)))
