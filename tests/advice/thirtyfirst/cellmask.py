"""Foreground masks for fluorescence microscopy fields (company trainer, CPU build)."""
import argparse
import csv
import logging
import os
import random
import time

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("cellmask")
SIDE = 512
cv2.setNumThreads(0)


def render_field(rng):
    """One synthetic field of view: blobs on an uneven lamp profile."""
    mask = np.zeros((SIDE, SIDE), np.uint8)
    for _ in range(rng.integers(25, 60)):
        centre = tuple(int(v) for v in rng.integers(0, SIDE, 2))
        axes = tuple(int(v) for v in rng.integers(8, 22, 2))
        cv2.ellipse(mask, centre, axes, float(rng.uniform(0, 180)), 0, 360, 255, -1)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32) / SIDE
    cy, cx = rng.uniform(0.2, 0.8, 2)
    lamp = 60 + 90 * np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 0.3)
    cells = cv2.GaussianBlur(mask, (0, 0), 2).astype(np.float32) / 255
    grain = rng.integers(0, 4, (SIDE, SIDE)) * 3.0
    field = lamp * (0.7 + 0.6 * cells) + grain
    return np.clip(field, 0, 255).astype(np.uint8), mask


def make_data(root, n_train, n_val):
    if os.path.exists(os.path.join(root, "index.csv")):
        return
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(11)
    rows = []
    for i in range(n_train + n_val):
        image, mask = render_field(rng)
        cv2.imwrite(os.path.join(root, f"field_{i:04d}.png"), image)
        cv2.imwrite(os.path.join(root, f"field_{i:04d}_mask.png"), mask)
        rows.append((f"field_{i:04d}", "train" if i < n_train else "val"))
    with open(os.path.join(root, "index.csv"), "w", newline="") as handle:
        csv.writer(handle).writerows(rows)


class FieldDataset(Dataset):
    def __init__(self, root, split, crop, training):
        with open(os.path.join(root, "index.csv"), newline="") as handle:
            self.names = [name for name, part in csv.reader(handle) if part == split]
        self.root = root
        self.crop = crop
        self.training = training

    def __len__(self):
        return len(self.names)

    def read(self, name):
        image = cv2.imread(os.path.join(self.root, name + ".png"), cv2.IMREAD_GRAYSCALE)
        mask = cv2.imread(os.path.join(self.root, name + "_mask.png"), cv2.IMREAD_GRAYSCALE)
        return image.astype(np.float32), mask

    @staticmethod
    def even_out(frame, radius=48):
        """Divide by the lamp profile, which varies far more slowly than any cell."""
        lamp = cv2.GaussianBlur(frame, (0, 0), radius)
        return frame / np.maximum(lamp, 1.0) - 1.0

    def window(self, image, mask):
        if self.training:
            top = random.randint(0, SIDE - self.crop)
            left = random.randint(0, SIDE - self.crop)
        else:
            top = left = (SIDE - self.crop) // 2
        area = (slice(top, top + self.crop), slice(left, left + self.crop))
        return image[area], mask[area]

    def __getitem__(self, index):
        image, mask = self.read(self.names[index])
        image, mask = self.window(self.even_out(image), mask)
        if self.training and random.random() < 0.5:
            image, mask = image[:, ::-1], mask[:, ::-1]
        if self.training and random.random() < 0.5:
            image, mask = image[::-1], mask[::-1]
        image = torch.from_numpy(np.ascontiguousarray(image))[None]
        mask = torch.from_numpy(np.ascontiguousarray(mask > 127))[None]
        return image, mask


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
    )


class SmallUNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.enter = block(1, width)
        self.down1 = block(width, 2 * width)
        self.down2 = block(2 * width, 4 * width)
        self.up1 = block(6 * width, 2 * width)
        self.up2 = block(3 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.enter(x)
        b = self.down1(F.max_pool2d(a, 2))
        c = self.down2(F.max_pool2d(b, 2))
        b = self.up1(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.up2(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.head(a)


def dice(logits, target):
    hard = logits > 0
    both = (hard & target).sum()
    return (2 * both / (hard.sum() + target.sum()).clamp(min=1)).item()


class Trainer:
    def __init__(self, options):
        self.options = options
        torch.manual_seed(options.seed)
        torch.set_num_threads(1)
        random.seed(options.seed)
        self.model = SmallUNet()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.lr)
        self.train_loader = self.loader("train", True)
        self.val_loader = self.loader("val", False)

    def loader(self, split, training):
        dataset = FieldDataset(self.options.data, split, self.options.crop, training)
        return DataLoader(
            dataset, batch_size=self.options.batch_size, shuffle=training, num_workers=self.options.workers,
            persistent_workers=True, drop_last=training,
        )

    def run_epoch(self):
        self.model.train()
        total = torch.zeros(())
        for image, mask in self.train_loader:
            loss = F.binary_cross_entropy_with_logits(self.model(image), mask.float())
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return (total / len(self.train_loader)).item()

    @torch.inference_mode()
    def validate(self):
        self.model.eval()
        scores = [dice(self.model(image), mask) for image, mask in self.val_loader]
        return sum(scores) / len(scores)

    def fit(self):
        for epoch in range(self.options.epochs):
            start = time.perf_counter()
            loss = self.run_epoch()
            log.info("epoch %d loss %.4f (%.1f s)", epoch + 1, loss, time.perf_counter() - start)
        log.info("validation dice %.4f", self.validate())
        torch.save(self.model.state_dict(), os.path.join(self.options.data, "cellmask.pt"))


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="data/cellmask")
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--crop", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=5)
    return parser.parse_args(argv)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    opts = parse()
    make_data(opts.data, n_train=96, n_val=16)
    Trainer(opts).fit()
