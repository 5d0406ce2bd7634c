"""Which bird calls in a recording?  Reference training script: WAV in, log spectra, attention over time."""
import argparse
import csv
import datetime
import os
import time
import wave

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 8000
SPECIES = 8
FFT, HOP = 256, 80


def synth(rng, label, seconds):
    t = np.arange(int(seconds * RATE)) / RATE
    base = 500 + 300 * label
    chirp = base + 120 * np.sin(2 * np.pi * (1 + label % 3) * t + rng.uniform(0, 6))
    envelope = np.clip(np.sin(2 * np.pi * rng.uniform(1, 3) * t), 0, 1)
    sound = 0.3 * envelope * np.sin(2 * np.pi * np.cumsum(chirp) / RATE) + 0.12 * rng.standard_normal(len(t))
    return (np.clip(sound, -1, 1) * 32000).astype("<i2")


def make_data(root, recordings=480):
    manifest = os.path.join(root, "manifest.csv")
    if os.path.exists(manifest):
        return
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(2)
    rows = []
    for i in range(recordings):
        label = int(rng.integers(SPECIES))
        seconds = float(np.clip(rng.lognormal(-0.1, 0.85), 0.25, 9))
        sound = synth(rng, label, seconds)
        with wave.open(os.path.join(root, f"rec{i:04d}.wav"), "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(RATE)
            out.writeframes(sound.tobytes())
        rows.append((f"rec{i:04d}.wav", label, len(sound), "val" if i % 12 == 0 else "train"))
    with open(manifest, "w", newline="") as out:
        csv.writer(out).writerows(rows)


class Recordings(Dataset):
    def __init__(self, root, split):
        with open(os.path.join(root, "manifest.csv"), newline="") as handle:
            rows = [row for row in csv.reader(handle) if row[3] == split]
        self.paths = [os.path.join(root, row[0]) for row in rows]
        self.labels = [int(row[1]) for row in rows]
        self.samples = [int(row[2]) for row in rows]
        self.window = torch.hann_window(FFT)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with wave.open(self.paths[index]) as handle:
            sound = np.frombuffer(handle.readframes(handle.getnframes()), "<i2").astype(np.float32) / 32768
        spectrum = torch.stft(torch.from_numpy(sound), FFT, HOP, window=self.window, return_complex=True)
        power = spectrum[1:].abs().square()
        bands = power.view(64, 2, -1).sum(1).clamp(min=1e-6).log()
        return (bands + 4).T.contiguous() / 4, self.labels[index]


def pad_batch(items):
    lengths = torch.tensor([len(bands) for bands, _ in items])
    bands = nn.utils.rnn.pad_sequence([bands for bands, _ in items], batch_first=True)
    return bands, lengths, torch.tensor([label for _, label in items])


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 3 * width), nn.ReLU(), nn.Linear(3 * width, width))

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class CallNet(nn.Module):
    def __init__(self, width=96, heads=4, depth=3):
        super().__init__()
        self.enter = nn.Linear(4 * 64, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, SPECIES)

    def forward(self, bands, lengths):
        b, t, c = bands.shape
        bands = F.pad(bands, (0, 0, 0, -t % 4)).view(b, -1, 4 * c)
        steps = (lengths + 3) // 4
        mask = torch.arange(bands.shape[1]) < steps[:, None]
        x = self.enter(bands)
        for layer in self.layers:
            x = layer(x, mask)
        pooled = (x * mask[..., None]).sum(1) / steps[:, None]
        return self.head(pooled)


class SmoothedValue:
    def __init__(self):
        self.total = torch.zeros(())
        self.count = 0

    def update(self, value, n):
        self.total += value.detach() * n
        self.count += n

    @property
    def mean(self):
        return self.total.item() / max(self.count, 1)


def train_one_epoch(model, optimizer, loader, epoch):
    model.train()
    meter = SmoothedValue()
    start = time.time()
    for bands, lengths, target in loader:
        loss = F.cross_entropy(model(bands, lengths), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.update(loss, len(target))
    print(f"Epoch: [{epoch}]  loss: {meter.mean:.4f}  recordings: {meter.count}  time: {time.time() - start:.1f}")


@torch.inference_mode()
def evaluate(model, loader):
    model.eval()
    meter = SmoothedValue()
    for bands, lengths, target in loader:
        meter.update((model(bands, lengths).argmax(1) == target).float().mean(), len(target))
    print(f"Test:  acc@1: {meter.mean:.4f}")


def get_args():
    parser = argparse.ArgumentParser(description="Bird call training", add_help=True)
    parser.add_argument("--data", default="data/callphase", type=str)
    parser.add_argument("-b", "--batch-size", default=24, type=int)
    parser.add_argument("--epochs", default=7, type=int)
    parser.add_argument("-j", "--workers", default=1, type=int)
    parser.add_argument("--lr", default=6e-4, type=float)
    parser.add_argument("--seed", default=7, type=int)
    return parser.parse_args()


def main(args):
    make_data(args.data)
    torch.manual_seed(args.seed)
    train_set, val_set = Recordings(args.data, "train"), Recordings(args.data, "val")
    train_loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True, collate_fn=pad_batch,
        num_workers=args.workers, persistent_workers=True,
    )
    val_loader = DataLoader(val_set, batch_size=4, collate_fn=pad_batch)
    model = CallNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    start = time.time()
    for epoch in range(args.epochs):
        train_one_epoch(model, optimizer, train_loader, epoch)
    evaluate(model, val_loader)
    torch.save({"model": model.state_dict(), "epoch": args.epochs}, os.path.join(args.data, "model.pth"))
    print(f"Training time {datetime.timedelta(seconds=int(time.time() - start))}")


if __name__ == "__main__":
    main(get_args())
