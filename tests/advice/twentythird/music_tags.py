"""Music auto-tagging on log-mel spectrograms (multi-label, 3 s excerpts)."""
import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from scipy.io import wavfile
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "music_tags"
SR, SECONDS = 16000, 30
N_FFT, HOP, N_MELS = 1024, 256, 64
EXCERPT = 3 * SR
TAGS = ["guitar", "drums", "bass", "synth", "flute", "choir", "fast", "ambient"]


def make_data(n_tracks=130):
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(8)
    t = np.arange(SR * SECONDS) / SR
    meta = []
    for k in range(n_tracks):
        tags = (rng.random(len(TAGS)) < 0.3).astype(int)
        x = rng.normal(0, 0.02, t.size)
        for j in np.flatnonzero(tags):
            f0 = 110 * 2 ** (j * 0.7) * rng.uniform(0.97, 1.03)
            x += 0.15 * np.sin(2 * np.pi * f0 * t) * (1 + 0.5 * np.sin(2 * np.pi * (0.5 + j) * t))
        wavfile.write(DATA / f"{k:04d}.wav", SR, (np.clip(x, -1, 1) * 32000).astype(np.int16))
        meta.append({"file": f"{k:04d}.wav", "tags": tags.tolist()})
    (DATA / "meta.json").write_text(json.dumps(meta))


def mel_filters():
    def hz2mel(f):
        return 2595 * np.log10(1 + f / 700)
    edges = 700 * (10 ** (np.linspace(hz2mel(40), hz2mel(SR / 2), N_MELS + 2) / 2595) - 1)
    freqs = np.linspace(0, SR / 2, N_FFT // 2 + 1)
    lo, mid, hi = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    fb = np.clip(np.minimum((freqs - lo) / (mid - lo), (hi - freqs) / (hi - mid)), 0, None)
    return torch.tensor(fb, dtype=torch.float32)


class LogMel:
    def __init__(self):
        self.window = torch.hann_window(N_FFT)
        self.fb = mel_filters()

    def __call__(self, wave):
        spec = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True)
        mel = self.fb @ (spec.real ** 2 + spec.imag ** 2)
        return torch.log(mel + 1e-5)


class TagDataset(Dataset):
    frames = EXCERPT // HOP

    def __init__(self, meta, crops, random):
        self.meta, self.crops, self.random = meta, crops, random
        self.logmel = LogMel()

    def __len__(self):
        return len(self.meta) * self.crops

    def __getitem__(self, i):
        entry = self.meta[i // self.crops]
        _, wave = wavfile.read(DATA / entry["file"], mmap=True)
        if self.random:
            pos = torch.rand(1).item()
        else:
            pos = (i % self.crops) / self.crops
        wave = torch.from_numpy(wave.astype(np.float32)) / 32768
        mel = self.logmel(wave)
        start = int(pos * (mel.shape[1] - self.frames))
        mel = mel[:, start:start + self.frames]
        return (mel + 4.0) / 4.0, torch.tensor(entry["tags"], dtype=torch.float32)


class Tagger(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        def stage(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
        self.net = nn.Sequential(stage(1, w), stage(w, w), stage(w, 2 * w), stage(2 * w, 2 * w),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * w, len(TAGS)))

    def forward(self, mel):
        return self.net(mel.unsqueeze(1))


def mean_ap(scores, labels):
    aps = []
    for c in range(labels.shape[1]):
        order = scores[:, c].argsort(descending=True)
        hits = labels[order, c]
        if hits.sum() > 0:
            prec = hits.cumsum(0) / torch.arange(1, len(hits) + 1)
            aps.append((prec * hits).sum() / hits.sum())
    return torch.stack(aps).mean().item()


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--make", action="store_true")
    args = ap.parse_args()
    if args.make or not (DATA / "meta.json").exists():
        make_data()
        if args.make:
            return
    torch.manual_seed(12)
    meta = json.loads((DATA / "meta.json").read_text())
    train = DataLoader(TagDataset(meta[:110], crops=4, random=True), batch_size=16, shuffle=True,
                       num_workers=2, persistent_workers=True, prefetch_factor=4)
    val = DataLoader(TagDataset(meta[110:], crops=2, random=False), batch_size=20, num_workers=0)
    model, bce = Tagger(), nn.BCEWithLogitsLoss()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    best = 0.0
    for epoch in range(args.epochs):
        tic, run = time.time(), 0.0
        model.train()
        for mel, tags in train:
            opt.zero_grad()
            loss = bce(model(mel), tags)
            loss.backward()
            opt.step()
            run += loss.item()
        model.eval()
        with torch.no_grad():
            outs = [(torch.sigmoid(model(m)), t) for m, t in val]
        score = mean_ap(torch.cat([o for o, _ in outs]), torch.cat([t for _, t in outs]))
        if score > best:
            best = score
            torch.save({"model": model.state_dict(), "epoch": epoch}, DATA / "best.pt")
        print(f"epoch {epoch}: {len(train)} steps, loss {run / len(train):.4f}, val mAP {score:.3f}, {time.time() - tic:.1f}s", flush=True)


if __name__ == "__main__":
    main()
