"""Speaker embeddings from log-mel segments, trained with a prototypical loss."""
import os
import random
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

EPOCHS = int(os.environ.get("EPOCHS", 8))
DATA = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "speaker_embed")
N_SPEAKERS = 300
RECORDINGS = 4
FRAMES = 1200
N_MELS = 40
SEGMENT = 80
HOP = 12
SPEAKERS_PER_BATCH = 20
SEGMENTS_PER_SPEAKER = 4
BATCHES = 40


def prepare():
    path = os.path.join(DATA, "mels.npy")
    if os.path.exists(path):
        return path
    os.makedirs(DATA, exist_ok=True)
    rng = np.random.default_rng(23)
    mels = np.empty((N_SPEAKERS, RECORDINGS, FRAMES, N_MELS), np.float16)
    for spk in range(N_SPEAKERS):
        timbre = rng.normal(0, 0.6, N_MELS)
        mels[spk] = rng.standard_normal(mels.shape[1:], dtype=np.float32) + timbre
    np.save(path, mels)
    return path


def list_segments():
    return [
        {"speaker": spk, "recording": rec, "start": start}
        for spk in range(N_SPEAKERS)
        for rec in range(RECORDINGS)
        for start in range(0, FRAMES - SEGMENT, HOP)
    ]


class SegmentDataset(Dataset):
    def __init__(self, path, segments):
        self.mels = np.load(path, mmap_mode="r")
        self.segments = segments

    def __len__(self):
        return len(self.segments)

    def __getitem__(self, i):
        seg = self.segments[i]
        mel = self.mels[seg["speaker"], seg["recording"], seg["start"]:seg["start"] + SEGMENT]
        return torch.from_numpy(mel.astype(np.float32)).T, seg["speaker"]


class SpeakerBatchSampler(Sampler):
    """Every batch: P speakers, K segments of each."""

    def __init__(self, segments, n_batches, seed=0):
        self.segments = segments
        self.speakers = sorted({s["speaker"] for s in segments})
        self.n_batches = n_batches
        self.rng = random.Random(seed)

    def __len__(self):
        return self.n_batches

    def __iter__(self):
        for _ in range(self.n_batches):
            batch = []
            for spk in self.rng.sample(self.speakers, SPEAKERS_PER_BATCH):
                candidates = [i for i, s in enumerate(self.segments) if s["speaker"] == spk]
                batch.extend(self.rng.sample(candidates, SEGMENTS_PER_SPEAKER))
            yield batch


class Encoder(nn.Module):
    def __init__(self, width=96, dim=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(N_MELS, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 3, padding=2, dilation=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 3, padding=3, dilation=3), nn.BatchNorm1d(width), nn.ReLU(),
        )
        self.out = nn.Linear(2 * width, dim)

    def forward(self, x):
        h = self.net(x)
        return F.normalize(self.out(torch.cat([h.mean(2), h.std(2)], 1)), dim=1)


def prototype_loss(emb):
    emb = emb.view(SPEAKERS_PER_BATCH, SEGMENTS_PER_SPEAKER, -1)
    query, proto = emb[:, 0], emb[:, 1:].mean(1)
    return F.cross_entropy(10.0 * query @ proto.T, torch.arange(len(query)))


def main():
    torch.manual_seed(1)
    segments = list_segments()
    dataset = SegmentDataset(prepare(), segments)
    sampler = SpeakerBatchSampler(segments, BATCHES)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=2, persistent_workers=True)
    model = Encoder()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        t0, total = time.time(), 0.0
        for mels, _ in loader:
            loss = prototype_loss(model(mels))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch:2d}  loss {total / len(loader):.3f}  {time.time() - t0:.1f} s", flush=True)


if __name__ == "__main__":
    main()
