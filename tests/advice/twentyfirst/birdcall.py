"""Bird call classification from noisy field recordings (log-mel CNN, on-the-fly mixing)."""
import collections
import os
import threading
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = Path(__file__).resolve().parent / "data" / "birdcall"
SR = 16000
CLIP = SR
N_CLASSES = 12
N_CLIPS = 1200
BATCH = 16
EPOCHS = int(os.environ.get("EPOCHS", 8))
STEPS = 75
N_FFT, HOP, N_MELS = 512, 256, 48


def make_recordings():
    f = DATA / "clips.npy"
    if f.exists():
        return
    DATA.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    t = np.arange(CLIP) / SR
    labels = rng.integers(0, N_CLASSES, N_CLIPS)
    clips = np.empty((N_CLIPS, CLIP), np.int16)
    for i, y in enumerate(labels):
        f0 = 900 + 450 * y + rng.normal(0, 40)
        warble = 1 + 0.08 * np.sin(2 * np.pi * (3 + y % 4) * t + rng.uniform(0, 6))
        env = np.exp(-((t - rng.uniform(0.3, 0.7)) / 0.15) ** 2)
        x = env * np.sin(2 * np.pi * f0 * np.cumsum(warble) / SR) + 0.05 * rng.standard_normal(CLIP)
        clips[i] = np.clip(x * 12000, -32768, 32767)
    np.save(DATA / "labels.npy", labels)
    np.save(f, clips)


def mel_matrix():
    hz = np.linspace(0, SR / 2, N_FFT // 2 + 1)
    mel = lambda v: 2595 * np.log10(1 + v / 700)
    pts = np.linspace(mel(100), mel(SR / 2), N_MELS + 2)
    m = mel(hz)
    lo, mid, hi = pts[:-2, None], pts[1:-1, None], pts[2:, None]
    return np.maximum(0, np.minimum((m - lo) / (mid - lo), (hi - m) / (hi - mid))).astype(np.float32)


class BatchMaker:
    """Draws clips, mixes in background, returns log-mel batches."""

    def __init__(self, seed):
        self.clips = np.load(DATA / "clips.npy")
        self.labels = np.load(DATA / "labels.npy")
        self.rng = np.random.default_rng(seed)
        self.window = np.hanning(N_FFT).astype(np.float32)
        self.mel = mel_matrix()

    def __call__(self):
        idx = self.rng.integers(0, len(self.clips), BATCH)
        bg = self.rng.integers(0, len(self.clips), BATCH)
        gain = self.rng.uniform(0.0, 0.25, (BATCH, 1)).astype(np.float32)
        x = self.clips[idx].astype(np.float32) / 32768 + gain * self.clips[bg].astype(np.float32) / 32768
        frames = np.lib.stride_tricks.sliding_window_view(x, N_FFT, axis=1)[:, ::HOP] * self.window
        spec = np.abs(np.fft.rfft(frames, axis=-1)).astype(np.float32) ** 2
        feat = np.log(spec @ self.mel.T + 1e-5).transpose(0, 2, 1)
        return torch.from_numpy(feat[:, None].copy()), torch.from_numpy(self.labels[idx])


class Prefetcher:
    """Keeps a few batches ready in a background thread."""

    def __init__(self, make_batch, depth=2, poll=0.1):
        self.make_batch, self.depth, self.poll = make_batch, depth, poll
        self.ready = collections.deque()
        self.stop = False
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self):
        while not self.stop:
            if len(self.ready) >= self.depth:
                time.sleep(self.poll)
                continue
            self.ready.append(self.make_batch())

    def next(self):
        while not self.ready:
            time.sleep(self.poll)
        return self.ready.popleft()

    def close(self):
        self.stop = True
        self.thread.join()


def conv(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


def build_model():
    return nn.Sequential(
        conv(1, 16, 2), conv(16, 24), conv(24, 40, 2), conv(40, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, N_CLASSES),
    )


def main():
    torch.manual_seed(5)
    make_recordings()
    source = Prefetcher(BatchMaker(seed=5))
    model = build_model()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.05, total_steps=EPOCHS * STEPS)
    for epoch in range(EPOCHS):
        tic, hits, seen, loss_sum = time.time(), 0, 0, 0.0
        for _ in range(STEPS):
            x, y = source.next()
            logits = model(x)
            loss = F.cross_entropy(logits, y, label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            hits += (logits.argmax(1) == y).sum().item()
            seen += len(y)
            loss_sum += loss.item()
        print(f"epoch {epoch}: loss={loss_sum / STEPS:.3f} acc={hits / seen:.3f} [{time.time() - tic:.1f}s]", flush=True)
    source.close()


if __name__ == "__main__":
    main()
