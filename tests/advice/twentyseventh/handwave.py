"""TSN-style gesture recognition from webdataset shards (one sample = all frames of a clip)."""
import argparse
import io
import logging
import random
import sys
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import webdataset as wds

ROOT = Path(__file__).parent / "data" / "handwave"
FRAMES, SEGMENTS, CLASSES = 20, 4, 6
log = logging.getLogger("handwave")


def draw_clip(rng, label, noise):
    bg = cv2.resize(rng.integers(30, 200, (6, 8, 3), dtype=np.uint8), (200, 150), interpolation=cv2.INTER_CUBIC)
    phase, speed = rng.uniform(0, 6.28), rng.uniform(0.25, 0.4)
    x0, y0 = rng.integers(70, 130), rng.integers(55, 95)
    for t in range(FRAMES):
        a = phase + speed * t
        dx, dy = [(30 * np.sin(a), 0), (0, 30 * np.sin(a)), (25 * np.cos(a), 25 * np.sin(a)),
                  (25 * np.cos(a), -25 * np.sin(2 * a)), (3 * t - 30, 0), (0, 3 * t - 30)][label]
        im = bg.copy()
        cv2.circle(im, (int(x0 + dx), int(y0 + dy)), 15, (120, 150, 220), -1)
        im = np.clip(im + noise[(t + x0) % len(noise)], 0, 255).astype(np.uint8)
        yield cv2.imencode(".jpg", im, [cv2.IMWRITE_JPEG_QUALITY, 92])[1].tobytes()


def write_shards(root):
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(99)
    noise = rng.normal(0, 6, (11, 150, 200, 3)).astype(np.int16)
    for split, shards, per in (("train", 4, 60), ("val", 2, 20)):
        for s in range(shards):
            with wds.TarWriter(str(root / f"{split}-{s:03d}.tar")) as sink:
                for k in range(per):
                    label = int(rng.integers(CLASSES))
                    sample = {"__key__": f"{split}{s:03d}_{k:04d}", "cls": str(label)}
                    for t, jpg in enumerate(draw_clip(rng, label, noise)):
                        sample[f"{t:03d}.jpg"] = jpg
                    sink.write(sample)


class ChooseFrames:
    """One frame from every temporal segment: a random one in training, the middle one otherwise."""

    def __init__(self, train):
        self.train = train

    def __call__(self, sample):
        names = sorted(k for k in sample if k.endswith(".jpg"))
        step = len(names) // SEGMENTS
        keep = [s * step + (random.randrange(step) if self.train else step // 2) for s in range(SEGMENTS)]
        out = {"__key__": sample["__key__"], "cls": sample["cls"]}
        out.update({names[i]: sample[names[i]] for i in keep})
        return out


class ToTensor:
    def __init__(self, train, size=64):
        self.train, self.size = train, size

    def __call__(self, sample):
        frames = [cv2.resize(sample[k], (self.size + 16, self.size), interpolation=cv2.INTER_AREA)
                  for k in sorted(k for k in sample if k.endswith(".jpg"))]
        x = random.randrange(17) if self.train else 8
        clip = np.stack(frames)[:, :, x:x + self.size].transpose(0, 3, 1, 2)
        return torch.from_numpy(np.ascontiguousarray(clip)), sample["cls"]


def build_pipeline(split, batch_size, workers):
    train = split == "train"
    urls = sorted(str(p) for p in ROOT.glob(f"{split}-*.tar"))
    ds = wds.WebDataset(urls, shardshuffle=False, workersplitter=wds.split_by_worker)
    if train:
        ds = ds.shuffle(60, rng=random.Random(5))
    ds = (
        ds.decode("rgb8")
        .map(ChooseFrames(train))
        .map(ToTensor(train))
        .batched(batch_size, partial=not train)
    )
    return wds.WebLoader(ds, batch_size=None, num_workers=workers, persistent_workers=True)


class TSN(nn.Module):
    def __init__(self):
        super().__init__()
        w = 12
        self.frame = nn.Sequential(
            nn.Conv2d(3, w, 5, 2, 2), nn.BatchNorm2d(w), nn.ReLU(),
            nn.Conv2d(w, 2 * w, 3, 2, 1), nn.BatchNorm2d(2 * w), nn.ReLU(),
            nn.Conv2d(2 * w, 4 * w, 3, 2, 1), nn.BatchNorm2d(4 * w), nn.ReLU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(4 * w * 16, 64))
        self.head = nn.Sequential(nn.ReLU(), nn.Dropout(0.2), nn.Linear(64 * SEGMENTS, CLASSES))

    def forward(self, x):
        b, s = x.shape[:2]
        x = x.flatten(0, 1).float().div_(127.5).sub_(1)
        return self.head(self.frame(x).view(b, -1))


def run_epoch(model, loader, optimizer=None):
    train = optimizer is not None
    model.train(train)
    total = correct = n = 0
    with torch.set_grad_enabled(train):
        for clip, label in loader:
            label = torch.as_tensor(label)
            logits = model(clip)
            loss = F.cross_entropy(logits, label)
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(label)
            correct += (logits.argmax(1) == label).sum().item()
            n += len(label)
    return total / n, correct / n


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    if not (ROOT / "val-001.tar").exists():
        write_shards(ROOT)
    cv2.setNumThreads(0)
    torch.manual_seed(3)
    train, val = (build_pipeline(s, args.batch_size, args.workers) for s in ("train", "val"))
    model = TSN()
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4)
    for epoch in range(args.epochs):
        loss, acc = run_epoch(model, train, optimizer)
        vloss, vacc = run_epoch(model, val)
        log.info("epoch %d loss %.4f acc %.3f val_loss %.4f val_acc %.3f", epoch, loss, acc, vloss, vacc)
        buf = io.BytesIO()
        torch.save({"model": model.state_dict(), "epoch": epoch}, buf)
        (ROOT / "last.pt").write_bytes(buf.getvalue())


if __name__ == "__main__":
    main()
