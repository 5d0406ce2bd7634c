"""Bird species from one-second field recordings, streamed from bucket shards."""
import json
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "bird_calls")
RATE, CLIP, SPECIES = 8000, 8000, 12
CLIP_BYTES = CLIP * 2
STATIONS = {
    "harbour": 1340, "heath": 96, "lakeside": 84, "mill": 110,
    "orchard": 72, "pasture": 104, "quarry": 90, "ridge": 64,
}


def export_shards():
    manifest_path = os.path.join(ROOT, "manifest.json")
    if os.path.exists(manifest_path):
        return manifest_path
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(7)
    t = np.arange(CLIP, dtype=np.float32) / RATE
    songs = []
    for k in range(SPECIES):
        phase = 2 * np.pi * (500 + 220 * k) * t + 8 * np.sin(2 * np.pi * (2 + k % 5) * t)
        songs.append(np.sin(phase).astype(np.float32))
    hiss = rng.normal(0, 1, CLIP * 4).astype(np.float32)
    manifest = []
    for station, clips in STATIONS.items():
        labels = rng.integers(0, SPECIES, clips)
        with open(os.path.join(ROOT, station + ".pcm"), "wb") as out:
            for label in labels:
                at = rng.integers(0, CLIP * 3)
                wave = np.roll(songs[label], rng.integers(0, CLIP)) * rng.uniform(0.1, 0.5)
                wave = wave + 0.15 * hiss[at:at + CLIP]
                out.write((np.clip(wave, -1, 1) * 32000).astype("<i2").tobytes())
        manifest.append({"file": station + ".pcm", "clips": int(clips), "labels": labels.tolist()})
    with open(manifest_path, "w") as out:
        json.dump(manifest, out)
    return manifest_path


class Bucket:
    """Ranged reads on objects, with the round trip of the object store."""

    def __init__(self, root, round_trip=0.0033):
        self.root, self.round_trip = root, round_trip

    def get_range(self, name, offset, length):
        time.sleep(self.round_trip)
        with open(os.path.join(self.root, name), "rb") as blob:
            blob.seek(offset)
            return blob.read(length)


def log_spectrogram(wave, size=256, hop=256):
    frames = np.lib.stride_tricks.sliding_window_view(wave, size)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(size), axis=1)) ** 2
    return np.log(power[:, :96] + 1e-3).astype(np.float32).T


class FieldRecordings(IterableDataset):
    def __init__(self, manifest_path, bucket):
        with open(manifest_path) as f:
            self.manifest = json.load(f)
        self.bucket = bucket
        self.rng = np.random.default_rng(3)

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        shards = self.manifest[worker::workers]
        for k in self.rng.permutation(len(shards)):
            shard = shards[k]
            for row in self.rng.permutation(np.arange(shard["clips"])):
                raw = self.bucket.get_range(shard["file"], int(row) * CLIP_BYTES, CLIP_BYTES)
                wave = np.frombuffer(raw, "<i2").astype(np.float32) / 32768
                yield log_spectrogram(wave)[None], shard["labels"][row]


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d((4, 1)), nn.Flatten(), nn.Linear(128, SPECIES))


def main():
    torch.manual_seed(0)
    recordings = FieldRecordings(export_shards(), Bucket(ROOT))
    loader = DataLoader(recordings, batch_size=32, num_workers=3, prefetch_factor=4,
                        persistent_workers=True)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        seen, hits, total = 0, 0, 0.0
        for spectra, species in loader:
            logits = model(spectra)
            loss = loss_fn(logits, species)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(species)
            hits += (logits.argmax(1) == species).sum().item()
            seen += len(species)
        print(f"epoch {epoch}: {seen} clips, loss {total / seen:.3f}, accuracy {hits / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
