"""Finds parked cars in overhead camera frames (one-stage grid detector)."""
import io
import os
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.multiprocessing
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset

torch.multiprocessing.set_sharing_strategy("file_system")


@dataclass
class Config:
    frames: int = 160
    size: int = 192
    grid: int = 24
    batch: int = 8
    epochs: int = int(os.environ.get("EPOCHS", 6))
    lr: float = 2e-3
    workers: int = 2


def synthesise(cfg, seed=3):
    rng = np.random.default_rng(seed)
    frames, cars = [], []
    for _ in range(cfg.frames):
        img = Image.new("RGB", (1000, 1000), tuple(int(v) for v in rng.integers(70, 110, 3)))
        draw = ImageDraw.Draw(img)
        objs = []
        for _ in range(int(rng.integers(16, 34))):
            cx, cy = rng.uniform(0.05, 0.95, 2)
            w, h = rng.uniform(0.02, 0.05, 2)
            kind = int(rng.integers(0, 3))
            box = [(cx - w / 2) * 1000, (cy - h / 2) * 1000, (cx + w / 2) * 1000, (cy + h / 2) * 1000]
            draw.rectangle(box, fill=[(200, 30, 30), (30, 30, 200), (230, 230, 230)][kind])
            objs.append((cx, cy, w, h, kind, float(rng.random() < 0.1)))
        buf = io.BytesIO()
        img.save(buf, "JPEG", quality=88)
        frames.append(buf.getvalue())
        cars.append(objs)
    return frames, cars


class ParkingLot(Dataset):
    def __init__(self, cfg):
        self.cfg = cfg
        self.frames, self.cars = synthesise(cfg)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        img = Image.open(io.BytesIO(self.frames[i])).convert("RGB")
        img = img.resize((self.cfg.size, self.cfg.size), Image.BILINEAR)
        x = torch.from_numpy(np.array(img)).permute(2, 0, 1).float().div_(255)
        cars = [{"box": torch.tensor(c[:4], dtype=torch.float32), "kind": torch.tensor(c[4]),
                 "occluded": torch.tensor(c[5], dtype=torch.float32)} for c in self.cars[i]]
        return x, cars


def make_grid(targets, g):
    grid = torch.zeros(len(targets), 6, g, g)
    for b, cars in enumerate(targets):
        boxes = torch.stack([c["box"] for c in cars])
        kinds = torch.stack([c["kind"] for c in cars]).float()
        weight = 1.0 - 0.5 * torch.stack([c["occluded"] for c in cars])
        col, row = (boxes[:, :2] * g).long().clamp_(0, g - 1).unbind(1)
        grid[b, 0, row, col] = weight
        grid[b, 1:5, row, col] = boxes.t()
        grid[b, 5, row, col] = kinds
    return grid


def collate(samples):
    images, targets = zip(*samples)
    return torch.stack(images), list(targets)


def build_net():
    def block(i, o, stride):
        return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1), nn.BatchNorm2d(o), nn.ReLU())
    return nn.Sequential(block(3, 16, 2), block(16, 24, 2), block(24, 48, 2),
                         block(48, 48, 1), nn.Conv2d(48, 8, 1))


def detection_loss(out, grid):
    mask = grid[:, 0]
    obj = F.binary_cross_entropy_with_logits(out[:, 0], (mask > 0).float())
    box = (F.l1_loss(out[:, 1:5], grid[:, 1:5], reduction="none").sum(1) * mask).sum() / mask.sum()
    cls = (F.cross_entropy(out[:, 5:], grid[:, 5].long(), reduction="none") * mask).sum() / mask.sum()
    return obj + box + cls


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cfg = Config()
    loader = DataLoader(ParkingLot(cfg), cfg.batch, shuffle=True, num_workers=cfg.workers,
                        persistent_workers=True, collate_fn=collate)
    net = build_net()
    opt = torch.optim.Adam(net.parameters(), cfg.lr)
    for epoch in range(cfg.epochs):
        start, losses = time.time(), []
        for images, targets in loader:
            grid = make_grid(targets, cfg.grid)
            loss = detection_loss(net(images), grid)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"[{epoch}] loss={np.mean(losses):.3f} time={time.time() - start:.1f}s")
