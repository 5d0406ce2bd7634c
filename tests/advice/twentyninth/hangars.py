"""Single-stage detector for aircraft and vehicles in aerial tiles.

Layout follows the torchvision detection references (dataset with per-image
target dicts, train_one_epoch, evaluate).
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).parent / "data" / "hangars"
CLASSES = ("plane", "truck", "tank", "shed")
SIDE = 96
STRIDE = 4


def prepare(root, n=800, seed=7):
    if (root / "annotations.json").exists():
        return
    (root / "tiles").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    records = []
    for k in range(n):
        base = rng.integers(60, 120, size=3)
        img = np.clip(base + rng.normal(0, 12, size=(SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
        objects = []
        for _ in range(int(rng.integers(2, 9))):
            c = int(rng.integers(len(CLASSES)))
            w, h = rng.integers(8, 24, size=2)
            x, y = rng.integers(0, SIDE - w), rng.integers(0, SIDE - h)
            colour = np.array([(230, 230, 230), (200, 60, 50), (50, 140, 60), (60, 80, 200)][c])
            img[y:y + h, x:x + w] = np.clip(colour + rng.normal(0, 10, size=(h, w, 3)), 0, 255)
            objects.append({"bbox": [int(x), int(y), int(x + w), int(y + h)], "category": c})
        name = f"{k:05d}.jpg"
        Image.fromarray(img).save(root / "tiles" / name, quality=90)
        records.append({"file": name, "objects": objects})
    (root / "annotations.json").write_text(json.dumps(records))


class AerialDataset(Dataset):
    def __init__(self, root, split, train):
        records = json.loads((root / "annotations.json").read_text())
        self.dir = root / "tiles"
        self.ids = [i for i in range(len(records)) if (i % 10 == 0) == (split == "val")]
        self.records = records
        self.train = train

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        image_id = self.ids[index]
        record = self.records[image_id]
        image = np.asarray(Image.open(self.dir / record["file"]).convert("RGB"))
        boxes = np.array([o["bbox"] for o in record["objects"]], dtype=np.float32)
        labels = np.array([o["category"] for o in record["objects"]], dtype=np.int64)
        if self.train and torch.rand(()) < 0.5:
            image = image[:, ::-1]
            boxes = boxes[:, [2, 1, 0, 3]]
            boxes[:, [0, 2]] = SIDE - boxes[:, [0, 2]]
        image = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float().div_(255.0)
        target = {
            "boxes": boxes,
            "labels": labels,
            "image_id": np.array([image_id]),
            "area": (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]),
            "iscrowd": np.zeros(len(labels), dtype=np.int64),
            "orig_size": np.array([SIDE, SIDE]),
        }
        target = {k: torch.as_tensor(v) for k, v in target.items()}
        return image, target


def collate_fn(batch):
    return tuple(zip(*batch))


class ConvBN(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)
        )


class CenterDetector(nn.Module):
    def __init__(self, num_classes, width=16):
        super().__init__()
        self.body = nn.Sequential(
            ConvBN(3, width, 2), ConvBN(width, 2 * width, 2), ConvBN(2 * width, 2 * width)
        )
        self.heat = nn.Conv2d(2 * width, num_classes, 1)
        self.size = nn.Conv2d(2 * width, 2, 1)
        nn.init.constant_(self.heat.bias, -3.0)

    def forward(self, x):
        x = self.body(x)
        return self.heat(x), self.size(x)

    def loss(self, images, targets):
        heat, size = self(images)
        counts = torch.tensor([len(t["labels"]) for t in targets])
        owner = torch.repeat_interleave(torch.arange(len(targets)), counts)
        boxes = torch.cat([t["boxes"] for t in targets])
        labels = torch.cat([t["labels"] for t in targets])
        centre = (boxes[:, :2] + boxes[:, 2:]) / 2
        wh = boxes[:, 2:] - boxes[:, :2]
        cell = (centre / STRIDE).long().clamp_(0, SIDE // STRIDE - 1)
        goal = torch.zeros_like(heat)
        goal[owner, labels, cell[:, 1], cell[:, 0]] = 1.0
        p = heat.sigmoid()
        bce = F.binary_cross_entropy_with_logits(heat, goal, reduction="none")
        focal = (bce * torch.where(goal > 0, 1 - p, p).pow(2)).sum() / len(labels)
        pred = size[owner, :, cell[:, 1], cell[:, 0]]
        return {"heat": focal, "size": F.l1_loss(pred, wh / SIDE)}


def train_one_epoch(model, optimizer, scheduler, loader, epoch, print_freq):
    model.train()
    total, n = 0.0, 0
    for it, (images, targets) in enumerate(loader):
        images = torch.stack(list(images)) if isinstance(images, tuple) else images
        targets = [{k: torch.as_tensor(v) for k, v in t.items()} for t in targets]
        losses = model.loss(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total, n = total + loss.item(), n + 1
        if it % print_freq == 0:
            print(f"Epoch: [{epoch}]  [{it:3d}/{len(loader)}]  lr: {scheduler.get_last_lr()[0]:.5f}  "
                  + "  ".join(f"{k}: {v.item():.4f}" for k, v in losses.items()))
    return total / n


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, n = 0.0, 0
    for images, targets in loader:
        images = torch.stack(list(images)) if isinstance(images, tuple) else images
        targets = [{k: torch.as_tensor(v) for k, v in t.items()} for t in targets]
        total += sum(model.loss(images, targets).values()).item() * len(targets)
        n += len(targets)
    return total / n


def get_args():
    parser = argparse.ArgumentParser("aerial detection")
    parser.add_argument("--epochs", default=9, type=int)
    parser.add_argument("-b", "--batch-size", default=16, type=int)
    parser.add_argument("-j", "--workers", default=2, type=int)
    parser.add_argument("--lr", default=0.02, type=float)
    parser.add_argument("--print-freq", default=20, type=int)
    return parser.parse_args()


def main():
    args = get_args()
    prepare(ROOT)
    torch.manual_seed(0)
    train_set = AerialDataset(ROOT, "train", train=True)
    val_set = AerialDataset(ROOT, "val", train=False)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=args.workers,
                              collate_fn=collate_fn, persistent_workers=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size, num_workers=1, collate_fn=collate_fn,
                            persistent_workers=True)
    model = CenterDetector(len(CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, optimizer, scheduler, train_loader, epoch, args.print_freq)
        print(f"epoch {epoch} train_loss {loss:.5f} val_loss {evaluate(model, val_loader):.5f}")
    torch.save({"model": model.state_dict(), "args": vars(args)}, ROOT / "checkpoint.pth")


if __name__ == "__main__":
    main()
