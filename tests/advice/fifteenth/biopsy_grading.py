"""Gleason-like grading of stained biopsy patches with class-balanced passes."""
import csv
import os
import tempfile

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "biopsy_grading")
PATCHES, SIDE, GRADES = 840, 224, 4
SHARE = [0.62, 0.22, 0.11, 0.05]


def scan_slides():
    table = os.path.join(ROOT, "patches.csv")
    if os.path.exists(table):
        return table
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(11)
    rows = []
    for n in range(PATCHES):
        grade = int(rng.choice(GRADES, p=SHARE))
        tissue = rng.integers(150, 235, (14, 14, 3), dtype=np.uint8)
        patch = cv2.resize(tissue, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
        for _ in range(8 + 14 * grade):
            x, y = rng.integers(0, SIDE, 2)
            cv2.circle(patch, (int(x), int(y)), int(rng.integers(3, 8)), (140, 60, 110), -1)
        name = f"patch_{n:05d}.jpg"
        cv2.imwrite(os.path.join(ROOT, name), patch, [cv2.IMWRITE_JPEG_QUALITY, 92])
        rows.append((name, grade))
    with open(table, "w", newline="") as out:
        csv.writer(out).writerows(rows)
    return table


class BiopsyPatches(Dataset):
    def __init__(self, table, augment=True):
        with open(table, newline="") as f:
            self.records = [(name, int(grade)) for name, grade in csv.reader(f)]
        self.augment = augment
        self.reference = np.array([0.28, 0.44, 0.31], np.float32)

    def __len__(self):
        return len(self.records)

    def normalise_stain(self, image):
        density = -np.log((image.astype(np.float32) + 1.0) / 256.0)
        mean = density.reshape(-1, 3).mean(0)
        spread = density.reshape(-1, 3).std(0) + 1e-3
        return (density - mean) / spread * 0.2 + self.reference

    def __getitem__(self, index):
        name, grade = self.records[index]
        image = cv2.cvtColor(cv2.imread(os.path.join(ROOT, name)), cv2.COLOR_BGR2RGB)
        density = self.normalise_stain(image)
        if self.augment:
            turns = int(torch.randint(4, ()))
            density = np.rot90(density, turns)
            if torch.rand(()) < 0.5:
                density = density[:, ::-1]
        density = cv2.resize(np.ascontiguousarray(density), (64, 64), interpolation=cv2.INTER_AREA)
        return torch.from_numpy(density).permute(2, 0, 1).contiguous(), grade


class GradeBalancedSampler(Sampler):
    """Every pass draws the same number of patches from each grade."""

    def __init__(self, dataset, per_grade):
        self.dataset = dataset
        self.per_grade = per_grade

    def __len__(self):
        return self.per_grade * GRADES

    def __iter__(self):
        members = {grade: [] for grade in range(GRADES)}
        for index in range(len(self.dataset)):
            _, grade = self.dataset[index]
            members[grade].append(index)
        chosen = []
        for grade in range(GRADES):
            pool = torch.tensor(members[grade])
            chosen.append(pool[torch.randint(len(pool), (self.per_grade,))])
        chosen = torch.cat(chosen)
        yield from chosen[torch.randperm(len(chosen))].tolist()


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False),
                         nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


def main():
    torch.manual_seed(0)
    patches = BiopsyPatches(scan_slides())
    loader = DataLoader(patches, batch_size=24, sampler=GradeBalancedSampler(patches, 150),
                        num_workers=2, persistent_workers=True)
    model = nn.Sequential(conv_block(3, 12), conv_block(12, 24), conv_block(24, 48),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, GRADES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(EPOCHS):
        model.train()
        confusion = torch.zeros(GRADES, GRADES, dtype=torch.long)
        running = 0.0
        for images, grades in loader:
            logits = model(images)
            loss = loss_fn(logits, grades)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running += loss.item()
            confusion += torch.bincount(grades * GRADES + logits.argmax(1),
                                        minlength=GRADES ** 2).view(GRADES, GRADES)
        recall = confusion.diag() / confusion.sum(1).clamp(min=1)
        print(f"epoch {epoch}: loss {running / len(loader):.3f}, recall "
              + " ".join(f"{r:.2f}" for r in recall.tolist()), flush=True)


if __name__ == "__main__":
    main()
