"""Leaf species from photographs (ImageFolder layout, torchvision transforms), keeps the best weights."""
import argparse
import copy
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torchvision import transforms
from torchvision.datasets import ImageFolder

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "leaves"
SPECIES = ["ash", "beech", "birch", "elm", "lime", "oak"]

MEAN, STD = (0.5, 0.5, 0.4), (0.25, 0.25, 0.25)
train_tf = transforms.Compose([
    transforms.RandomCrop(64),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize(MEAN, STD),
])
val_tf = transforms.Compose([transforms.CenterCrop(64), transforms.ToTensor(), transforms.Normalize(MEAN, STD)])


def draw_leaf(rng, kind):
    base = rng.integers(60, 200, (9, 9, 3)).astype(np.uint8)
    img = Image.fromarray(base).resize((72, 72), Image.BILINEAR)
    pen = ImageDraw.Draw(img)
    cx, cy = rng.integers(28, 44, 2)
    angle = np.linspace(0, 2 * np.pi, 60)
    lobes = kind + 2
    radius = rng.uniform(14, 24) * (1 + 0.35 * np.cos(lobes * angle + rng.uniform(0, 6)))
    points = [(cx + r * np.cos(a), cy + r * np.sin(a)) for r, a in zip(radius, angle)]
    pen.polygon(points, fill=(int(rng.integers(20, 90)), int(rng.integers(110, 180)) - 8 * kind, int(rng.integers(20, 70))))
    return img


def make_photos(root, counts):
    rng = np.random.default_rng(17)
    for split, n in counts.items():
        for kind, name in enumerate(SPECIES):
            folder = root / split / name
            folder.mkdir(parents=True, exist_ok=True)
            for i in range(n // len(SPECIES)):
                draw_leaf(rng, kind).save(folder / f"{i:04d}.jpg", quality=92)
    (root / "done").touch()


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True), nn.MaxPool2d(2))


def build_model():
    return nn.Sequential(block(3, 8), block(8, 16), block(16, 48), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(48, len(SPECIES)))


def evaluate(model, loader):
    model.eval()
    loss, right, seen = 0, 0, 0
    for images, labels in loader:
        logits = model(images)
        loss += F.cross_entropy(logits, labels, reduction="sum")
        right += (logits.argmax(1) == labels).sum()
        seen += len(labels)
    model.train()
    return loss.item() / seen, right.item() / seen


def main(args):
    torch.manual_seed(args.seed)
    train_set = ImageFolder(str(DATA / "train"), train_tf)
    val_set = ImageFolder(str(DATA / "val"), val_tf)
    train_loader = torch.utils.data.DataLoader(
        train_set, args.batch_size, shuffle=True, generator=torch.Generator().manual_seed(args.seed))
    # the generator keeps validation from touching the global random state
    val_loader = torch.utils.data.DataLoader(val_set, 64, generator=torch.Generator())

    model = build_model()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    best, best_state, step = 0.0, None, 0
    for epoch in range(1, args.epochs + 1):
        t0 = time.perf_counter()
        total = torch.zeros(())
        for images, labels in train_loader:
            loss = F.cross_entropy(model(images), labels)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
            step += 1
            if step % args.eval_every == 0:
                val_loss, acc = evaluate(model, val_loader)
                if acc > best:
                    best, best_state = acc, copy.deepcopy(model.state_dict())
        val_loss, acc = evaluate(model, val_loader)
        if acc > best:
            best, best_state = acc, copy.deepcopy(model.state_dict())
        print(f"epoch {epoch}  train {total.item() / len(train_loader):.4f}  val {val_loss:.4f}  acc {acc:.3f}  "
              f"best {best:.3f}  {time.perf_counter() - t0:.1f} s", flush=True)
    torch.save(best_state, DATA / "best.pt")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=0.03)
    ap.add_argument("--eval-every", type=int, default=4, help="steps between validations")
    ap.add_argument("--seed", type=int, default=0)
    options = ap.parse_args()
    if not (DATA / "done").exists():
        make_photos(DATA, {"train": 640, "val": 600})
    main(options)
