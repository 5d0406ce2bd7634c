"""Caller emotion from raw telephone speech of varying length."""
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "call_emotion")
RATE, CALLS, EMOTIONS = 8000, 1400, 5


def record_calls():
    audio_path, index_path = os.path.join(ROOT, "audio.npy"), os.path.join(ROOT, "index.npz")
    if os.path.exists(index_path):
        return audio_path, index_path
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(9)
    lengths = rng.integers(RATE, RATE * 4, CALLS)
    ends = lengths.cumsum()
    emotions = rng.integers(0, EMOTIONS, CALLS)
    audio = np.empty(ends[-1], np.int16)
    clock = np.arange(RATE * 4, dtype=np.float32) / RATE
    voices = [np.sin(2 * np.pi * (110 + 45 * k) * clock) * (1 + np.sin(2 * np.pi * (1 + k) * clock))
              for k in range(EMOTIONS)]
    noise = rng.normal(0, 0.3, RATE * 8).astype(np.float32)
    for length, end, emotion in zip(lengths, ends, emotions):
        at = rng.integers(0, RATE * 4)
        wave = voices[emotion][:length] * rng.uniform(0.2, 1) + noise[at:at + length]
        audio[end - length:end] = np.clip(wave * 9000, -32767, 32767)
    np.save(audio_path, audio)
    np.savez(index_path, lengths=lengths, ends=ends, emotions=emotions)
    return audio_path, index_path


class Calls(Dataset):
    def __init__(self, audio_path, index_path):
        self.audio = np.load(audio_path, mmap_mode="r")
        index = np.load(index_path)
        self.lengths, self.ends, self.emotions = index["lengths"], index["ends"], index["emotions"]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        wave = self.audio[self.ends[i] - self.lengths[i]:self.ends[i]].astype(np.float32) / 32768
        gain = 0.7 + 0.6 * torch.rand(()).item()
        return {"wave": wave * np.float32(gain), "emotion": int(self.emotions[i])}


def pad_calls(samples):
    longest = max(len(s["wave"]) for s in samples)
    waves, lengths = [], []
    for s in samples:
        wave = s["wave"].tolist()
        waves.append(wave + [0.0] * (longest - len(wave)))
        lengths.append(len(wave))
    return {
        "wave": torch.tensor(waves, dtype=torch.float32),
        "length": torch.tensor(lengths),
        "emotion": torch.tensor([s["emotion"] for s in samples]),
    }


class EmotionNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.front = nn.Conv1d(1, width, 160, stride=80)
        self.body = nn.Sequential(
            nn.ReLU(), nn.Conv1d(width, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.ReLU())
        self.head = nn.Linear(width, EMOTIONS)

    def forward(self, wave, length):
        features = self.body(self.front(wave[:, None]))
        frames = (length // 320).clamp(min=1, max=features.shape[2])
        mask = torch.arange(features.shape[2])[None] < frames[:, None]
        pooled = (features * mask[:, None]).sum(2) / frames[:, None]
        return self.head(pooled)


def main():
    torch.manual_seed(0)
    calls = Calls(*record_calls())
    loader = DataLoader(calls, batch_size=28, shuffle=True, num_workers=1, collate_fn=pad_calls,
                        prefetch_factor=3, persistent_workers=True)
    model = EmotionNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        total, right = 0.0, 0
        for batch in loader:
            logits = model(batch["wave"], batch["length"])
            loss = loss_fn(logits, batch["emotion"])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(logits)
            right += (logits.argmax(1) == batch["emotion"]).sum().item()
        schedule.step()
        print(f"epoch {epoch}: loss {total / len(calls):.4f}, accuracy {right / len(calls):.3f}", flush=True)


if __name__ == "__main__":
    main()
