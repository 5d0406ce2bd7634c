"""Apple variety recognition from field photographs."""
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

torch.set_num_threads(1)

EPOCHS = int(os.environ.get("EPOCHS", "6"))
VARIETIES = ["boskoop", "elstar", "gala", "jonagold"]
BATCH = 12


def write_photos(root, per_class=27):
    rng = np.random.default_rng(11)
    yy, xx = np.mgrid[0:480, 0:640].astype(np.float32)
    for k, name in enumerate(VARIETIES):
        (root / name).mkdir(parents=True)
        for j in range(per_class):
            base = np.array([90 + 35 * k, 150 - 25 * k, 60], dtype=np.float32)
            wave = 40 * np.sin(xx / (9 + 4 * k) + rng.uniform(0, 6)) * np.cos(yy / (12 + 3 * k))
            img = base + wave[..., None] + rng.normal(0, 8, (480, 640, 1)).astype(np.float32)
            img = np.clip(img, 0, 255).astype(np.uint8)
            Image.fromarray(img).save(root / name / f"{j:03d}.jpg", quality=85)


class Orchard(Dataset):
    def __init__(self, root, transform):
        self.items = [(p, k) for k, v in enumerate(VARIETIES)
                      for p in sorted((root / v).glob("*.jpg"))]
        self.transform = transform

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        path, label = self.items[i]
        with Image.open(path) as im:
            return self.transform(im.convert("RGB")), label


train_tf = T.Compose([
    T.ToTensor(),
    T.ColorJitter(brightness=0.3, contrast=0.3, saturation=0.3),
    T.GaussianBlur(5, sigma=(0.1, 1.5)),
    T.RandomHorizontalFlip(),
    T.RandomCrop(128),
    T.Normalize([0.5, 0.5, 0.5], [0.25, 0.25, 0.25]),
])


class LeafNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        chans = [3, 24, 48, 64]
        layers = []
        for a, b in zip(chans[:-1], chans[1:]):
            layers += [nn.Conv2d(a, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(chans[-1], n_classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def train(loader, model, opt, loss_fn):
    model.train()
    running, right, n = 0.0, 0, 0
    for x, y in loader:
        opt.zero_grad(set_to_none=True)
        out = model(x)
        loss = loss_fn(out, y)
        loss.backward()
        opt.step()
        running += loss.item() * len(y)
        right += (out.argmax(1) == y).sum().item()
        n += len(y)
    return running / n, right / n


if __name__ == "__main__":
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp) / "orchard"
        write_photos(root)
        loader = DataLoader(Orchard(root, train_tf), batch_size=BATCH, shuffle=True,
                            num_workers=2, persistent_workers=True)
        model = LeafNet(len(VARIETIES))
        opt = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
        for epoch in range(1, EPOCHS + 1):
            loss, acc = train(loader, model, opt, loss_fn)
            print(f"epoch {epoch:2d}  loss {loss:.4f}  acc {acc:.2%}", flush=True)
