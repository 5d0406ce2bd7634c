"""Detect right whale up-calls in hydrophone recordings kept as record shards."""
import itertools
import os
import struct
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "whale_calls")
SHARDS, PER_SHARD = 8, 120
RATE, SECONDS = 8000, 4
FRAME, HOP, BANDS = 512, 128, 40
HEADER = struct.Struct("<II")


def mu_law(signal):
    return np.sign(signal) * np.log1p(255 * np.abs(signal)) / np.log(256)


def write_shards():
    os.makedirs(ROOT, exist_ok=True)
    length = RATE * SECONDS
    t = np.arange(length, dtype=np.float32) / RATE
    call = np.sin(2 * np.pi * (80 * t + 60 * t * t)) * np.exp(-((t - 2) ** 2) * 3)
    for s in range(SHARDS):
        path = os.path.join(ROOT, f"deployment-{s:02d}.rec")
        if os.path.exists(path):
            continue
        rng = np.random.default_rng(s)
        sea = rng.normal(0, 0.08, length * 6).astype(np.float32)
        with open(path + ".part", "wb") as out:
            for _ in range(PER_SHARD):
                label = int(rng.integers(2))
                at = int(rng.integers(length * 5))
                clip = sea[at:at + length] + label * 0.25 * np.roll(call, int(rng.integers(-6000, 6000)))
                body = (mu_law(np.clip(clip, -1, 1)) * 127).astype(np.int8).tobytes()
                out.write(HEADER.pack(label, len(body)) + body)
        os.replace(path + ".part", path)
    return [os.path.join(ROOT, f"deployment-{s:02d}.rec") for s in range(SHARDS)]


def mel_bank():
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, FRAME // 2 + 1)
    up = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)).astype(np.float32)


class HydrophoneStream(IterableDataset):
    def __init__(self, shards):
        self.shards = shards
        self.bank = mel_bank()
        self.window = np.hanning(FRAME).astype(np.float32)
        self.passes = 0

    def spectrogram(self, body):
        coded = np.frombuffer(body, np.int8).astype(np.float32) / 127
        wave = np.sign(coded) * (np.power(256.0, np.abs(coded)) - 1) / 255
        wave[1:] -= 0.95 * wave[:-1]
        frames = np.lib.stride_tricks.sliding_window_view(wave, FRAME)[::HOP] * self.window
        power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
        mel = np.log(power.astype(np.float32) @ self.bank.T + 1e-6).T
        mel = mel - np.median(mel, axis=1, keepdims=True)
        return torch.from_numpy(np.ascontiguousarray(mel, dtype=np.float32))

    def clips(self, shards):
        for path in shards:
            with open(path, "rb") as stream:
                while head := stream.read(HEADER.size):
                    label, size = HEADER.unpack(head)
                    body = stream.read(size)
                    time.sleep(0.0008)
                    yield self.spectrogram(body), label

    def __iter__(self):
        order = np.random.default_rng(self.passes).permutation(len(self.shards))
        self.passes += 1
        clips = self.clips([self.shards[i] for i in order])
        info = get_worker_info()
        if info is not None:
            clips = itertools.islice(clips, info.id, None, info.num_workers)
        yield from clips


def build_model():
    return nn.Sequential(
        nn.Conv1d(BANDS, 32, 5, stride=2, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
        nn.Conv1d(32, 48, 5, stride=2, padding=2), nn.BatchNorm1d(48), nn.ReLU(),
        nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(48, 2))


def main():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    stream = HydrophoneStream(write_shards())
    loader = DataLoader(stream, batch_size=32, num_workers=2, prefetch_factor=4,
                        persistent_workers=True)
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        seen = hits = 0
        for mel, label in loader:
            logits = model(mel)
            loss = nn.functional.cross_entropy(logits, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits += (logits.argmax(1) == label).sum().item()
            seen += len(label)
        print(f"epoch {epoch + 1}: {seen} clips, accuracy {hits / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
