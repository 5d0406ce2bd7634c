"""Land-cover segmentation from multi-resolution satellite tiles."""
import argparse
import datetime
import os
import time
from collections import defaultdict, deque

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from scipy import ndimage
from torch import nn
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 5
SIZE10 = 240


def make_tiles(root, n=110):
    rng = np.random.default_rng(21)
    os.makedirs(root, exist_ok=True)
    spectra = rng.uniform(300, 3200, size=(NUM_CLASSES, 12))
    for k in range(n):
        field = rng.standard_normal((NUM_CLASSES, SIZE10 // 4, SIZE10 // 4)).astype(np.float32)
        field = np.stack([cv2.resize(cv2.GaussianBlur(f, (0, 0), 4), (SIZE10, SIZE10)) for f in field])
        lab = field.argmax(0).astype(np.uint8)
        full = spectra[lab].astype(np.float32).transpose(2, 0, 1)
        out = {}
        for name, bands, step in (("b10", slice(0, 4), 1), ("b20", slice(4, 10), 2), ("b60", slice(10, 12), 6)):
            b = np.stack([cv2.resize(x, None, fx=1 / step, fy=1 / step, interpolation=cv2.INTER_AREA) for x in full[bands]])
            b = b + rng.standard_normal(b.shape) * 180
            out[name] = b.clip(0, 10000).astype(np.uint16)
        np.savez(os.path.join(root, f"tile_{k:04d}.npz"), label=lab, **out)
    open(os.path.join(root, "DONE"), "w").close()


class SmoothedValue:
    def __init__(self, window=20):
        self.deque = deque(maxlen=window)
        self.total, self.count = 0.0, 0

    def update(self, v, n=1):
        self.deque.append(v)
        self.total += v * n
        self.count += n

    @property
    def global_avg(self):
        return self.total / max(self.count, 1)

    def __str__(self):
        return f"{np.median(self.deque):.4f} ({self.global_avg:.4f})"


class MetricLogger:
    def __init__(self):
        self.meters = defaultdict(SmoothedValue)

    def log_every(self, iterable, print_freq, header):
        start = time.time()
        for i, obj in enumerate(iterable):
            yield obj
            if i % print_freq == 0:
                print(header, f"[{i}/{len(iterable)}]", " ".join(f"{k}: {v}" for k, v in self.meters.items()), flush=True)
        print(header, "Total time:", str(datetime.timedelta(seconds=int(time.time() - start))))


def to_10m(bands, factor):
    """Bring a (C, h, w) stack of coarse bands to the 10 m grid."""
    return ndimage.zoom(bands.astype(np.float32), (1, factor, factor), order=3)


class TileDataset(Dataset):
    def __init__(self, root, crop=96, repeats=1):
        self.files = sorted(os.path.join(root, f) for f in os.listdir(root) if f.endswith(".npz"))
        self.crop = crop
        self.repeats = repeats
        self.epoch = 0

    def __len__(self):
        return len(self.files) * self.repeats

    def __getitem__(self, i):
        rng = np.random.default_rng((self.epoch, i))
        with np.load(self.files[i % len(self.files)]) as z:
            b10, b20, b60, label = z["b10"], z["b20"], z["b60"], z["label"]
        image = np.concatenate([b10.astype(np.float32), to_10m(b20, 2), to_10m(b60, 6)])
        image = image / 10000.0
        y, x = rng.integers(0, SIZE10 - self.crop, size=2)
        image = image[:, y:y + self.crop, x:x + self.crop]
        label = label[y:y + self.crop, x:x + self.crop]
        if rng.random() < 0.5:
            image, label = image[:, :, ::-1], label[:, ::-1]
        if rng.random() < 0.5:
            image, label = image[:, ::-1], label[::-1]
        return torch.from_numpy(np.ascontiguousarray(image)), torch.from_numpy(label.astype(np.int64))


def conv_bn(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class SmallUNet(nn.Module):
    def __init__(self, in_ch=12, width=16):
        super().__init__()
        self.e1 = conv_bn(in_ch, width)
        self.e2 = nn.Sequential(conv_bn(width, 2 * width, 2), conv_bn(2 * width, 2 * width))
        self.e3 = nn.Sequential(conv_bn(2 * width, 4 * width, 2), conv_bn(4 * width, 4 * width))
        self.d2 = conv_bn(6 * width, 2 * width)
        self.d1 = conv_bn(3 * width, width)
        self.head = nn.Conv2d(width, NUM_CLASSES, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(a)
        c = self.e3(b)
        b = self.d2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.d1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.head(a)


def train_one_epoch(model, criterion, optimizer, loader, epoch, print_freq):
    model.train()
    logger = MetricLogger()
    for image, target in logger.log_every(loader, print_freq, f"Epoch: [{epoch}]"):
        output = model(image)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logger.meters["loss"].update(loss.item(), len(image))
        logger.meters["acc"].update((output.argmax(1) == target).float().mean().item(), len(image))
    print(f"Epoch: [{epoch}] loss {logger.meters['loss'].global_avg:.4f} acc {logger.meters['acc'].global_avg:.4f}")


def main(args):
    if not os.path.exists(os.path.join(args.data, "DONE")):
        make_tiles(args.data)
    torch.manual_seed(args.seed)
    dataset = TileDataset(args.data, repeats=args.repeats)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
    model = SmallUNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(args.epochs):
        dataset.epoch = epoch
        train_one_epoch(model, criterion, optimizer, loader, epoch, args.print_freq)


def get_args_parser():
    p = argparse.ArgumentParser(description="Land-cover training")
    p.add_argument("--data", default="data/landcover")
    p.add_argument("--epochs", default=3, type=int)
    p.add_argument("-b", "--batch-size", default=10, type=int)
    p.add_argument("-j", "--workers", default=2, type=int)
    p.add_argument("--repeats", default=1, type=int)
    p.add_argument("--lr", default=0.05, type=float)
    p.add_argument("--seed", default=0, type=int)
    p.add_argument("--print-freq", default=5, type=int)
    return p


if __name__ == "__main__":
    main(get_args_parser().parse_args())
