"""Small single-shot detector on street-camera thumbnails."""

import os
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 8))
NUM_IMAGES = 960
SIZE = 64
BATCH = 24
MAX_BOXES = 12
NUM_CLASSES = 5


def build_archive(folder):
    """Thumbnails in one .npy file; the annotations in another with an offset table."""
    rng = np.random.default_rng(3)
    images = rng.integers(0, 255, size=(NUM_IMAGES, 3, SIZE, SIZE), dtype=np.uint8)
    counts = rng.integers(1, MAX_BOXES + 1, size=NUM_IMAGES)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    xy = rng.random((offsets[-1], 2)) * 0.7
    wh = 0.05 + rng.random((offsets[-1], 2)) * 0.25
    labels = rng.integers(0, NUM_CLASSES, size=(offsets[-1], 1))
    table = np.concatenate([xy, xy + wh, labels], axis=1).astype(np.float32)
    np.save(os.path.join(folder, "images.npy"), images)
    np.save(os.path.join(folder, "boxes.npy"), table)
    np.save(os.path.join(folder, "offsets.npy"), offsets)


class StreetScenes(Dataset):
    def __init__(self, folder):
        self.images = np.load(os.path.join(folder, "images.npy"), mmap_mode="r")
        self.table = np.load(os.path.join(folder, "boxes.npy"))
        self.offsets = np.load(os.path.join(folder, "offsets.npy"))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = torch.from_numpy(np.array(self.images[i])).float().div_(255)
        rows = torch.from_numpy(self.table[self.offsets[i] : self.offsets[i + 1]].copy())
        boxes, labels = rows[:, :4].clone(), rows[:, 4].long()
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
            boxes[:, [0, 2]] = 1 - boxes[:, [2, 0]]
        side = boxes[:, 2:] - boxes[:, :2]
        target = {
            "image_id": torch.tensor(i),
            "boxes": boxes,
            "labels": labels,
            "area": side[:, 0] * side[:, 1],
            "iscrowd": torch.zeros(len(boxes), dtype=torch.uint8),
        }
        return image, target


def pad_targets(targets):
    boxes = torch.zeros(len(targets), MAX_BOXES, 4)
    labels = torch.full((len(targets), MAX_BOXES), -1)
    weight = torch.zeros(len(targets), MAX_BOXES)
    for row, target in enumerate(targets):
        n = len(target["boxes"])
        boxes[row, :n] = target["boxes"]
        labels[row, :n] = target["labels"]
        weight[row, :n] = (target["area"] > 0.004) & (target["iscrowd"] == 0)
    return boxes, labels, weight


def collate(batch):
    images, targets = zip(*batch)
    return list(images), list(targets)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 12, 5, stride=4, padding=2),
            nn.ReLU(),
            nn.Conv2d(12, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(64 * 16, MAX_BOXES * (4 + NUM_CLASSES))

    def forward(self, x):
        out = self.head(self.body(x)).view(len(x), MAX_BOXES, -1)
        return out[..., :4].sigmoid(), out[..., 4:]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        build_archive(folder)
        loader = DataLoader(
            StreetScenes(folder),
            batch_size=BATCH,
            shuffle=True,
            num_workers=2,
            collate_fn=collate,
            persistent_workers=True,
            drop_last=True,
        )
        model = Detector()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for epoch in range(EPOCHS):
            running = 0.0
            for images, targets in loader:
                images = torch.stack(images)
                boxes, labels, weight = pad_targets(targets)
                pred_boxes, logits = model(images)
                box_loss = (F.l1_loss(pred_boxes, boxes, reduction="none").sum(-1) * weight).mean()
                cls_loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)
                loss = box_loss + cls_loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                running += loss.item()
            print(f"epoch {epoch:3d}  loss {running / len(loader):.4f}", flush=True)


if __name__ == "__main__":
    main()
