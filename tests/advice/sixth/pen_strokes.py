"""Online handwriting: recognise a symbol from the pen trajectory with a GRU."""

import os
import tempfile

import numpy as np
import torch
from scipy.interpolate import splev, splprep
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", "4"))
SYMBOLS = 12
SAMPLES = 1024
POINTS = 96


def record_strokes(folder):
    """One .npz with all trajectories end to end, as the tablet exports them."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, SYMBOLS, SAMPLES)
    lengths = rng.integers(60, 200, SAMPLES)
    parts = []
    for label, length in zip(labels, lengths):
        t = np.linspace(0, 2 * np.pi, length)
        x = np.sin((1 + label % 4) * t) + 0.03 * rng.standard_normal(length)
        y = np.cos((1 + label // 4) * t) + 0.03 * rng.standard_normal(length)
        pressure = 0.5 + 0.4 * np.sin(t + label)
        parts.append(np.stack([x, y, pressure], 1))
    np.savez(
        os.path.join(folder, "strokes.npz"),
        points=np.concatenate(parts).astype(np.float32),
        lengths=lengths,
        labels=labels,
    )


class PenStrokes(Dataset):
    def __init__(self, folder):
        with np.load(os.path.join(folder, "strokes.npz")) as archive:
            self.points = archive["points"]
            self.labels = archive["labels"]
            self.ends = np.cumsum(archive["lengths"])
            self.starts = self.ends - archive["lengths"]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        stroke = self.points[self.starts[index] : self.ends[index]]
        spline, _ = splprep(stroke.T, s=0.003 * len(stroke))
        stroke = np.stack(splev(np.linspace(0, 1, POINTS), spline), 1)
        angle, scale = torch.empty(2).uniform_(-0.3, 0.3).tolist()
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        xy = (stroke[:, :2] - stroke[:, :2].mean(0)) @ rotation * (1 + scale)
        speed = np.gradient(xy, axis=0)
        features = np.concatenate([xy, 10 * speed, stroke[:, 2:]], 1).astype(np.float32)
        return torch.from_numpy(features), int(self.labels[index])


class StrokeNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.rnn = nn.GRU(5, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.score = nn.Linear(2 * hidden, 1)
        self.head = nn.Linear(2 * hidden, SYMBOLS)

    def forward(self, x):
        states, _ = self.rnn(x)
        attention = self.score(states).softmax(1)
        return self.head((attention * states).sum(1))


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)

    def run_epoch(self):
        self.model.train()
        total = torch.zeros(())
        correct = 0
        for features, labels in self.loader:
            logits = self.model(features)
            loss = self.loss(logits, labels)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            total += loss.detach()
            correct += int((logits.argmax(1) == labels).sum())
        return float(total) / len(self.loader), correct / len(self.loader.dataset)


if __name__ == "__main__":
    torch.manual_seed(2)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        record_strokes(folder)
        loader = DataLoader(PenStrokes(folder), batch_size=32, shuffle=True, num_workers=1, persistent_workers=True)
        trainer = Trainer(StrokeNet(), loader)
        for epoch in range(EPOCHS):
            loss, accuracy = trainer.run_epoch()
            print(f"epoch {epoch + 1}/{EPOCHS} loss {loss:.4f} accuracy {accuracy:.3f}", flush=True)
