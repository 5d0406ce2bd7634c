"""Semi-supervised plankton classifier: few labelled crops, many unlabelled ones.

Supervised cross-entropy on the labelled crops plus a consistency term between
two views of the unlabelled crops.
"""
import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageFilter, ImageOps
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 6
SIZE = 80


def draw_crops(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, NUM_CLASSES, n)
    yy, xx = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j].astype(np.float32)
    radius, angle = np.hypot(xx, yy), np.arctan2(yy, xx)
    crops = np.empty((n, SIZE, SIZE), np.uint8)
    for i, label in enumerate(labels):
        phase = rng.uniform(0, 2 * np.pi)
        edge = 0.55 + 0.2 * np.cos((label + 2) * angle + phase)
        body = (radius < edge) * 150.0 + rng.normal(60, 18, radius.shape)
        crops[i] = np.clip(body, 0, 255)
    return crops, labels


def random_view(img, rng, strength):
    img = img.rotate(rng.uniform(-180, 180), resample=Image.BICUBIC, fillcolor=60)
    side = int(SIZE * rng.uniform(0.75, 1.0))
    left, top = rng.integers(0, SIZE - side + 1, 2)
    img = img.resize((64, 64), Image.BICUBIC, box=(left, top, left + side, top + side))
    if strength == "strong":
        img = img.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 2.0)))
        img = ImageOps.autocontrast(img, cutoff=2)
        img = img.filter(ImageFilter.UnsharpMask(2, 80, 2))
    x = torch.from_numpy(np.array(img, np.float32) / 255.0)
    return (x - 0.4).unsqueeze(0)


class Labelled(Dataset):
    def __init__(self, n, seed):
        self.crops, self.labels = draw_crops(n, seed)

    def __len__(self):
        return len(self.crops)

    def __getitem__(self, i):
        rng = np.random.default_rng(int(torch.randint(2**31, (1,))))
        return random_view(Image.fromarray(self.crops[i]), rng, "strong"), int(self.labels[i])


class Unlabelled(Dataset):
    def __init__(self, n, seed):
        self.crops, _ = draw_crops(n, seed)

    def __len__(self):
        return len(self.crops)

    def __getitem__(self, i):
        rng = np.random.default_rng(int(torch.randint(2**31, (1,))))
        img = Image.fromarray(self.crops[i])
        return random_view(img, rng, "weak"), random_view(img, rng, "weak")


def build_model():
    def block(cin, cout):
        return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False),
                             nn.BatchNorm2d(cout), nn.ReLU(inplace=True))
    return nn.Sequential(block(1, 16), block(16, 32), block(32, 64),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, NUM_CLASSES))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", 6)))
    p.add_argument("--labelled-batch", type=int, default=128)
    p.add_argument("--unlabelled-batch", type=int, default=48)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lam", type=float, default=0.5)
    args = p.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(7)
    labelled_loader = DataLoader(Labelled(960, 1), batch_size=args.labelled_batch, shuffle=True,
                                 drop_last=True, num_workers=args.workers, prefetch_factor=4,
                                 persistent_workers=True)
    unlabelled_loader = DataLoader(Unlabelled(480, 2), batch_size=args.unlabelled_batch, shuffle=True,
                                   drop_last=True, num_workers=args.workers, prefetch_factor=4,
                                   persistent_workers=True)

    model = build_model()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for epoch in range(args.epochs):
        start, sup_sum, con_sum, hits, seen = time.time(), 0.0, 0.0, 0, 0
        for view_a, view_b in unlabelled_loader:
            x, y = next(iter(labelled_loader))
            logits = model(torch.cat([x, view_a, view_b]))
            out, out_a, out_b = logits.split([len(x), len(view_a), len(view_b)])
            sup = F.cross_entropy(out, y)
            con = F.mse_loss(out_a.softmax(1), out_b.softmax(1))
            loss = sup + args.lam * con
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sup_sum, con_sum = sup_sum + sup.item(), con_sum + con.item()
            hits, seen = hits + (out.argmax(1) == y).sum().item(), seen + len(y)
        steps = len(unlabelled_loader)
        print(f"epoch {epoch:2d}  sup {sup_sum / steps:.4f}  cons {con_sum / steps:.4f}  "
              f"acc {hits / seen:.3f}  {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
