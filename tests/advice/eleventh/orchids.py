# Orchid species from herbarium photographs, small ResNet-ish net on 96x96 crops.
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

EPOCHS = int(os.environ.get("EPOCHS", 10))
SPECIES = ["ophrys", "cattleya", "vanda", "phaius", "disa"]
BATCH = 12


def make_photos(root, n=120):
    rng = np.random.default_rng(11)
    for i in range(n):
        k = i % len(SPECIES)
        base = rng.integers(30, 200, (9, 12, 3)).astype(np.uint8)
        base[3:6, 4:8, k % 3] = 250 - 30 * (k // 3)
        img = Image.fromarray(base).resize((720, 540), Image.BICUBIC)
        grain = rng.integers(0, 18, (540, 720, 1), dtype=np.uint8)
        img = Image.fromarray(np.asarray(img) // 2 + 60 + grain)
        folder = root / SPECIES[k]
        folder.mkdir(exist_ok=True)
        img.save(folder / f"{i:04d}.jpg", quality=88)


class Photos(Dataset):
    def __init__(self, root, transform):
        self.files = sorted(root.glob("*/*.jpg"))
        self.classes = {name: i for i, name in enumerate(SPECIES)}
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, idx):
        path = self.files[idx]
        with Image.open(path) as img:
            img = img.convert("RGB")
        return self.transform(img), self.classes[path.parent.name]


train_tf = T.Compose([
    T.RandomHorizontalFlip(),
    T.RandomRotation(15, interpolation=T.InterpolationMode.BILINEAR),
    T.ColorJitter(brightness=0.3, contrast=0.3, saturation=0.3, hue=0.05),
    T.Resize(112),
    T.RandomCrop(96),
    T.ToTensor(),
    T.Normalize([0.45, 0.45, 0.45], [0.25, 0.25, 0.25]),
])


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(prefix="orchids_") as tmp:
        make_photos(Path(tmp))
        data = Photos(Path(tmp), train_tf)
        loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=2, drop_last=True,
                            persistent_workers=True)

        net = nn.Sequential(
            nn.Conv2d(3, 24, 5, stride=2, padding=2), nn.ReLU(),
            Residual(24, 32, 2), Residual(32, 64, 2), Residual(64, 96, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(96, len(SPECIES)))
        criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9, weight_decay=5e-4)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)

        for epoch in range(1, EPOCHS + 1):
            t0 = time.time()
            net.train()
            total, correct, count = 0.0, 0, 0
            for images, targets in loader:
                optimizer.zero_grad()
                output = net(images)
                loss = criterion(output, targets)
                loss.backward()
                optimizer.step()
                total += loss.item() * len(targets)
                correct += (output.argmax(1) == targets).sum().item()
                count += len(targets)
            scheduler.step()
            print("[%d/%d] loss=%.4f acc=%.3f lr=%.4f (%.1fs)" % (
                epoch, EPOCHS, total / count, correct / count,
                scheduler.get_last_lr()[0], time.time() - t0))
