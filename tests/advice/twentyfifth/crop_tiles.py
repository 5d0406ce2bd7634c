"""Crop-type segmentation on chips cut from aerial scenes, small U-Net."""
import argparse
import time
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "crop_tiles"
SCENES = 24
SIDE = 1280
CHIP = 128
CHIPS_PER_SCENE = 9
CLASSES = 5


def make_data():
    if (DATA / "done").exists():
        return
    rng = np.random.default_rng(3)
    DATA.mkdir(parents=True, exist_ok=True)
    palette = rng.integers(40, 210, (CLASSES, 3))
    for s in range(SCENES):
        coarse = rng.integers(0, CLASSES, (16, 16)).astype(np.uint8)
        mask = cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_NEAREST)
        image = palette[mask].astype(np.float32)
        image += cv2.GaussianBlur(rng.normal(0, 60, (SIDE, SIDE, 3)).astype(np.float32), (7, 7), 0)
        image += rng.normal(0, 8, (SIDE, SIDE, 3))
        image = np.clip(image, 0, 255).astype(np.uint8)
        cv2.imwrite(str(DATA / f"scene{s:02d}.png"), image, [cv2.IMWRITE_PNG_COMPRESSION, 2])
        cv2.imwrite(str(DATA / f"scene{s:02d}_mask.png"), mask)
    (DATA / "done").touch()


@lru_cache(maxsize=4)
def read_scene(scene):
    image = cv2.imread(str(DATA / f"scene{scene:02d}.png"), cv2.IMREAD_COLOR)
    mask = cv2.imread(str(DATA / f"scene{scene:02d}_mask.png"), cv2.IMREAD_GRAYSCALE)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB), mask


class ChipDataset(Dataset):
    """Fixed chip positions; every chip is flipped and turned at random when training."""

    def __init__(self, scenes, augment):
        rng = np.random.default_rng(17)
        self.augment = augment
        self.chips = []
        for scene in scenes:
            for y, x in rng.integers(0, SIDE - CHIP, (CHIPS_PER_SCENE, 2)):
                self.chips.append((scene, int(y), int(x)))

    def __len__(self):
        return len(self.chips)

    def __getitem__(self, index):
        scene, y, x = self.chips[index]
        image, mask = read_scene(scene)
        image = image[y:y + CHIP, x:x + CHIP]
        mask = mask[y:y + CHIP, x:x + CHIP]
        if self.augment:
            turns = int(torch.randint(4, ()))
            image, mask = np.rot90(image, turns), np.rot90(mask, turns)
            if torch.rand(()) < 0.5:
                image, mask = image[:, ::-1], mask[:, ::-1]
        image = np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32) / 255.0
        return torch.from_numpy(image), torch.from_numpy(mask.astype(np.int64))


def block(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(),
        nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.down1 = block(3, width)
        self.down2 = block(width, width * 2)
        self.middle = block(width * 2, width * 4)
        self.up2 = block(width * 6, width * 2)
        self.up1 = block(width * 3, width)
        self.out = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.up1(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        return self.out(a)


def mean_iou(model, loader):
    model.eval()
    table = torch.zeros(CLASSES, CLASSES)
    with torch.no_grad():
        for image, mask in loader:
            guess = model(image).argmax(1)
            pairs = mask.flatten() * CLASSES + guess.flatten()
            table += torch.bincount(pairs, minlength=CLASSES ** 2).view(CLASSES, CLASSES)
    hit = table.diag()
    return (hit / (table.sum(0) + table.sum(1) - hit).clamp(min=1)).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    make_data()
    if args.make:
        return

    torch.set_num_threads(1)
    torch.manual_seed(2)
    train_set = ChipDataset(range(SCENES - 3), augment=True)
    val_set = ChipDataset(range(SCENES - 3, SCENES), augment=False)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=1,
                              persistent_workers=True, prefetch_factor=4)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)
    model = UNet()
    optimiser = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        began = time.time()
        model.train()
        running = 0.0
        for image, mask in train_loader:
            loss = F.cross_entropy(model(image), mask)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            running += loss.item() * len(image)
        iou = mean_iou(model, val_loader)
        print(f"epoch {epoch} loss {running / len(train_set):.4f} val mIoU {iou:.3f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
