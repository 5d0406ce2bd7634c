"""QRS delineation: per-sample labelling of single-lead ECG strips."""
import csv
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
OUT = os.environ.get("DATA_DIR") or tempfile.gettempdir()
FS = 250
STRIP = 4 * FS


class Strips(Dataset):
    """Strips cut at random from long records held in memory."""

    def __init__(self, n_records=16, minutes=10, n_strips=1280, seed=0):
        rng = np.random.default_rng(seed)
        length = minutes * 60 * FS
        self.signal = rng.normal(0, 0.12, (n_records, length)).astype(np.float32)
        self.signal += 0.2 * np.sin(np.arange(length) / 190.0).astype(np.float32)
        self.qrs = np.zeros((n_records, length), np.uint8)
        shape = np.array([-.1, -.2, .4, 1.2, .9, -.3, -.2, -.1], np.float32).repeat(3)
        for r in range(n_records):
            at = np.cumsum(rng.integers(150, 260, length // 200))
            for a in at[at < length - 40]:
                self.signal[r, a:a + len(shape)] += shape
                self.qrs[r, a:a + len(shape)] = 1
        self.n_strips = n_strips

    def __len__(self):
        return self.n_strips

    def __getitem__(self, i):
        r = i % len(self.signal)
        s = np.random.randint(0, self.signal.shape[1] - STRIP)
        x = self.signal[r, s:s + STRIP]
        x = (x - x.mean()) / (x.std() + 1e-6)
        return x[None], self.qrs[r, s:s + STRIP].astype(np.float32)


class Delineator(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        layers, d_in = [], 1
        for dilation in (1, 2, 4, 8):
            layers += [nn.Conv1d(d_in, c, 5, padding=2 * dilation, dilation=dilation), nn.ReLU()]
            d_in = c
        self.net = nn.Sequential(*layers, nn.Conv1d(c, 1, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def average_precision(score, truth):
    order = np.argsort(-score, kind="stable")
    hit = truth[order]
    tp = np.cumsum(hit)
    precision = tp / np.arange(1, len(hit) + 1)
    return float((precision * hit).sum() / max(tp[-1], 1))


class Meter:
    def __init__(self):
        self.scores, self.truths, self.losses = [], [], []

    def add(self, logits, truth, loss):
        self.scores.append(torch.sigmoid(logits).detach().numpy().ravel())
        self.truths.append(truth.numpy().ravel())
        self.losses.append(loss)

    def summary(self):
        return {
            "loss": float(np.mean(self.losses)),
            "ap": average_precision(np.concatenate(self.scores), np.concatenate(self.truths)),
        }


def main():
    os.makedirs(OUT, exist_ok=True)
    torch.manual_seed(0)
    loader = DataLoader(Strips(), batch_size=32, shuffle=True, num_workers=1)
    model = Delineator()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(4.0))
    with open(os.path.join(OUT, "ecg_delineate_log.csv"), "w", newline="") as f:
        log = csv.writer(f)
        log.writerow(["epoch", "step", "loss", "ap"])
        for epoch in range(1, EPOCHS + 1):
            meter, t0 = Meter(), time.time()
            for step, (x, y) in enumerate(loader):
                logits = model(x)
                loss = bce(logits, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                meter.add(logits, y, loss.item())
                stats = meter.summary()
                log.writerow([epoch, step, f"{stats['loss']:.5f}", f"{stats['ap']:.4f}"])
            print(f"epoch {epoch}/{EPOCHS} loss {stats['loss']:.4f} AP {stats['ap']:.3f} in {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
