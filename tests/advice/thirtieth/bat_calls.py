"""Bat species from ultrasonic recordings (train / evaluate, reference-script layout).

Recordings are mono 16-bit WAV at 192 kHz from full-spectrum detectors.  Every clip becomes
a PCEN-normalised spectrogram between 15 and 95 kHz.
"""
import datetime
import math
import os
import time
import wave
from collections import defaultdict

import numpy as np
import torch
import torch.utils.data
from torch import nn

RATE = 192_000
SPECIES = ["Ppip", "Ppyg", "Nnoc", "Mdau", "Eser", "Rfer"]


# ---------------------------------------------------------------- utils
class SmoothedValue:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def global_avg(self):
        return self.total / max(self.count, 1)


class MetricLogger:
    def __init__(self, delimiter="  "):
        self.meters = defaultdict(SmoothedValue)
        self.delimiter = delimiter

    def update(self, n=1, **kw):
        for k, v in kw.items():
            self.meters[k].update(v, n)

    def __str__(self):
        return self.delimiter.join(f"{k}: {m.global_avg:.4f}" for k, m in self.meters.items())

    def log_every(self, iterable, print_freq, header=""):
        start = time.time()
        for i, obj in enumerate(iterable):
            yield obj
            if i % print_freq == 0:
                print(f"{header} [{i:4d}/{len(iterable)}]  {self}", flush=True)
        total = str(datetime.timedelta(seconds=int(time.time() - start)))
        print(f"{header} Total time: {total}", flush=True)


# ---------------------------------------------------------------- data
def make_data(root, per_class=46, seconds=0.25, seed=3):
    if os.path.exists(os.path.join(root, "labels.txt")):
        return
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(seed)
    n = int(RATE * seconds)
    lines = []
    shapes = [(46e3, 12e3, 5e-3), (55e3, 14e3, 5e-3), (20e3, 5e3, 15e-3),
              (32e3, 50e3, 4e-3), (27e3, 22e3, 8e-3), (80e3, 1e3, 30e-3)]
    for c, (f_end, sweep, dur) in enumerate(shapes):
        for k in range(per_class):
            x = rng.normal(0, 0.03, n)
            t0 = rng.uniform(0, 0.03)
            while t0 + dur < seconds:
                m = int(RATE * dur)
                t = np.arange(m) / m
                f = f_end * rng.uniform(0.93, 1.07) + sweep * np.exp(-4 * t)
                x[int(t0 * RATE):int(t0 * RATE) + m] += (
                    rng.uniform(0.1, 0.4) * np.hanning(m) * np.sin(2 * np.pi * np.cumsum(f) / RATE))
                t0 += rng.uniform(0.04, 0.09)
            name = f"{SPECIES[c]}_{k:03d}.wav"
            with wave.open(os.path.join(root, name), "wb") as w:
                w.setnchannels(1)
                w.setsampwidth(2)
                w.setframerate(RATE)
                w.writeframes((np.clip(x, -1, 1) * 32767).astype("<i2").tobytes())
            lines.append(f"{name} {c}")
    rng.shuffle(lines)
    with open(os.path.join(root, "labels.txt"), "w") as f:
        f.write("\n".join(lines))


def filterbank(bands, n_fft, lo=15e3, hi=95e3):
    """Gaussian band filters, (bands, n_fft // 2 + 1), constant width in Hz."""
    centre = np.linspace(lo, hi, bands)[:, None]
    freq = np.arange(n_fft // 2 + 1)[None, :] * RATE / n_fft
    fb = np.exp(-0.5 * ((freq - centre) / 700.0) ** 2)
    return (fb / fb.sum(1, keepdims=True)).astype(np.float32)


class BatClips(torch.utils.data.Dataset):
    def __init__(self, root, lines, train, n_fft=512, hop=96, bands=128):
        self.root, self.train = root, train
        self.items = [(a, int(b)) for a, b in (ln.split() for ln in lines)]
        self.n_fft, self.hop = n_fft, hop
        self.window = np.hanning(n_fft).astype(np.float32)
        self.fb = filterbank(bands, n_fft)
        k = np.arange(bands)
        smooth = np.exp(-np.abs(k[:, None] - k[None, :]) / 8.0)
        self.smooth = (smooth / smooth.sum(1, keepdims=True)).astype(np.float32)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        name, label = self.items[i]
        with wave.open(os.path.join(self.root, name)) as w:
            raw = w.readframes(w.getnframes())
        x = np.frombuffer(raw, "<i2").astype(np.float32) / 32768
        if self.train:
            x = np.roll(x, int(torch.randint(len(x), (1,))))
        frames = np.lib.stride_tricks.sliding_window_view(x, self.n_fft)[::self.hop]
        spec = np.fft.rfft(frames * self.window, axis=1)
        power = np.ascontiguousarray((spec.real ** 2 + spec.imag ** 2).T)
        s = self.fb @ power
        s = np.sqrt(s / (1e-6 + self.smooth @ s) ** 0.8 + 2.0) - math.sqrt(2.0)
        s = (s - s.mean()) / (s.std() + 1e-5)
        if self.train:
            f0 = int(torch.randint(s.shape[0] - 12, (1,)))
            s[f0:f0 + int(torch.randint(1, 12, (1,)))] = 0
        t = s.shape[1] // 4 * 4
        s = s[:, :t].reshape(s.shape[0] // 2, 2, t // 4, 4).mean((1, 3))
        return torch.from_numpy(s[None]), label


class CallNet(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        def cbr(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True))
        self.features = nn.Sequential(cbr(1, 12, 2), cbr(12, 24, 2), cbr(24, 32, 2), cbr(32, 48, 1))
        self.classifier = nn.Linear(48, num_classes)

    def forward(self, x):
        return self.classifier(self.features(x).amax((2, 3)))


# ---------------------------------------------------------------- train / eval
def train_one_epoch(model, criterion, optimizer, loader, epoch, args):
    model.train()
    logger = MetricLogger()
    for image, target in logger.log_every(loader, args.print_freq, f"Epoch: [{epoch}]"):
        output = model(image)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        acc = (output.argmax(1) == target).float().mean().item()
        logger.update(n=len(target), loss=loss.item(), acc1=acc)


@torch.inference_mode()
def evaluate(model, criterion, loader, args):
    model.eval()
    logger = MetricLogger()
    for image, target in logger.log_every(loader, args.print_freq, "Test:"):
        output = model(image)
        acc = (output.argmax(1) == target).float().mean().item()
        logger.update(n=len(target), loss=criterion(output, target).item(), acc1=acc)
    print(f"Test: {logger}")
    return logger.meters["acc1"].global_avg


def main(args):
    print(args)
    torch.manual_seed(0)
    make_data(args.data)
    with open(os.path.join(args.data, "labels.txt")) as f:
        lines = f.read().split("\n")
    n_test = len(lines) // 7
    train_set = BatClips(args.data, lines[n_test:], train=True)
    test_set = BatClips(args.data, lines[:n_test], train=False)
    train_loader = torch.utils.data.DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True, drop_last=True,
        num_workers=args.workers, persistent_workers=True)
    test_loader = torch.utils.data.DataLoader(
        test_set, batch_size=args.batch_size, num_workers=args.workers,
        persistent_workers=True)

    model = CallNet(len(SPECIES))
    criterion = nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=args.lr_step_size, gamma=0.1)
    for epoch in range(args.epochs):
        train_one_epoch(model, criterion, optimizer, train_loader, epoch, args)
        scheduler.step()
        evaluate(model, criterion, test_loader, args)
        torch.save({"model": model.state_dict(), "epoch": epoch}, os.path.join(args.data, "checkpoint.pth"))


def get_args_parser():
    import argparse
    p = argparse.ArgumentParser(description="Bat call classification")
    p.add_argument("--data", default="data/bat_calls", type=str)
    p.add_argument("-b", "--batch-size", default=20, type=int)
    p.add_argument("--epochs", default=3, type=int)
    p.add_argument("-j", "--workers", default=2, type=int)
    p.add_argument("--lr", default=0.02, type=float)
    p.add_argument("--lr-step-size", default=2, type=int)
    p.add_argument("--label-smoothing", default=0.05, type=float)
    p.add_argument("--print-freq", default=10, type=int)
    return p


if __name__ == "__main__":
    main(get_args_parser().parse_args())
