"""Leaf disease classification with a small residual CNN (JPEG folder, class-based trainer)."""
import argparse
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

DATA = Path(__file__).parent / "data" / "leafnet"
CLASSES = ("healthy", "rust", "blight", "mildew", "scab")


def build_folder(root, per_class=220, side=160):
    if (root / "done").exists():
        return
    rng = np.random.default_rng(11)
    yy, xx = np.mgrid[:side, :side].astype(np.float32) / side - 0.5
    for c, name in enumerate(CLASSES):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            a, b = rng.uniform(0.3, 0.45), rng.uniform(0.15, 0.3)
            leaf = ((xx / a) ** 2 + (yy / b) ** 2 < 1).astype(np.float32)
            img = np.empty((side, side, 3), np.float32)
            img[:] = (60, 80, 90)
            img += leaf[..., None] * np.float32((-20, 90 + rng.uniform(-20, 20), -40))
            for _ in range(c * 4):
                cx, cy = rng.uniform(-a, a) * 0.7, rng.uniform(-b, b) * 0.7
                spot = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (0.0004 * (1 + c)))
                img += spot[..., None] * np.float32(((10, 20 * c, 100), (90, 90, 90))[c % 2])
            img += rng.normal(0, 8, img.shape)
            cv2.imwrite(str(root / name / f"{i:04d}.jpg"), np.clip(img, 0, 255).astype(np.uint8))
    (root / "done").touch()


class LeafFolder(Dataset):
    def __init__(self, root, train, size=64):
        self.size = size
        self.files = []
        for label, name in enumerate(CLASSES):
            for i, path in enumerate(sorted((root / name).glob("*.jpg"))):
                if (i % 10 != 0) == train:
                    self.files.append((str(path), label))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        img = cv2.imread(path, cv2.IMREAD_COLOR)
        img = cv2.resize(img, (self.size, self.size), interpolation=cv2.INTER_AREA)
        return torch.from_numpy(img).permute(2, 0, 1).contiguous(), label


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride=2, bias=False)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.skip(x))


class Trainer:
    def __init__(self, args):
        self.args = args
        train, val = LeafFolder(DATA, True), LeafFolder(DATA, False)
        self.rng = torch.Generator().manual_seed(args.seed)
        # opencv and fork do not go well together on our nodes
        self.train_loader = DataLoader(
            train,
            batch_size=args.batch_size,
            sampler=RandomSampler(train, generator=torch.Generator().manual_seed(args.seed)),
            num_workers=args.workers,
            multiprocessing_context="spawn" if args.workers else None,
            drop_last=True,
        )
        self.val_loader = DataLoader(val, batch_size=55)
        self.model = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            Block(16, 24), Block(24, 32), Block(32, 64),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, len(CLASSES)))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, args.epochs)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    def prepare(self, images, augment=False):
        x = images.float().div_(127.5).sub_(1.0)
        if augment:
            flip = torch.rand(len(x), generator=self.rng) < 0.5
            x[flip] = x[flip].flip(-1)
        return x

    def train_epoch(self):
        self.model.train()
        total, steps = 0.0, 0
        for images, labels in self.train_loader:
            loss = self.criterion(self.model(self.prepare(images, augment=True)), labels)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            total += loss.item()
            steps += 1
        self.sched.step()
        return total / steps

    @torch.inference_mode()
    def validate(self):
        self.model.eval()
        right = sum((self.model(self.prepare(x)).argmax(1) == y).sum().item() for x, y in self.val_loader)
        return right / len(self.val_loader.dataset)

    def fit(self):
        for epoch in range(self.args.epochs):
            loss = self.train_epoch()
            print(f"[{epoch + 1}/{self.args.epochs}] loss {loss:.4f} val acc {self.validate():.3f}", flush=True)


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=45)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


if __name__ == "__main__":
    options = parse()
    torch.manual_seed(options.seed)
    build_folder(DATA)
    Trainer(options).fit()
