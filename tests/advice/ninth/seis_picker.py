"""P-wave picker on continuous miniSEED-like day files kept on the observatory's NFS share."""
import multiprocessing as mp
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

EPOCHS = int(os.environ.get("EPOCHS", 8))
FS = 50                  # Hz
WIN = 12 * FS            # samples per window
N_WIN = 480
NFS_RTT = 0.006          # s, mean round trip measured on the share
BYTES = WIN * 3 * 4      # three components, float32


def synth_day(path, seed=5):
    """One long file of windows, Z/N/E interleaved; onset index comes back as the catalogue."""
    rng = np.random.default_rng(seed)
    onsets = rng.integers(WIN // 4, 3 * WIN // 4, N_WIN)
    with open(path, "wb") as fh:
        for k in range(N_WIN):
            w = rng.normal(0, 1, (WIN, 3))
            n = WIN - onsets[k]
            t = np.arange(n) / FS
            w[onsets[k]:] += (6 * np.exp(-t / 2.5) * np.sin(2 * np.pi * rng.uniform(3, 9) * t))[:, None]
            fh.write(w.astype("<f4").tobytes())
    return onsets


class DayFile(Dataset):
    def __init__(self, path, onsets):
        self.fh = open(path, "rb", buffering=0)
        # all workers inherit this descriptor, and so its position
        self.lock = mp.Lock()
        self.onsets = onsets

    def __len__(self):
        return len(self.onsets)

    def _read(self, k):
        with self.lock:
            time.sleep(NFS_RTT)
            self.fh.seek(k * BYTES)
            raw = self.fh.read(BYTES)
        return np.frombuffer(raw, "<f4").reshape(WIN, 3)

    def __getitem__(self, k):
        w = self._read(k)
        w = w - w.mean(0)
        w = w / (np.abs(w).max() + 1e-6)
        target = np.exp(-0.5 * ((np.arange(WIN) - self.onsets[k]) / 10.0) ** 2)
        return np.ascontiguousarray(w.T), target.astype(np.float32), int(self.onsets[k])


class Picker(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.d1 = nn.Conv1d(3, c, 11, stride=4, padding=5)
        self.d2 = nn.Conv1d(c, 2 * c, 9, stride=2, padding=4)
        self.mid = nn.Conv1d(2 * c, 2 * c, 9, padding=4)
        self.up = nn.Conv1d(3 * c, c, 9, padding=4)
        self.out = nn.Conv1d(c, 1, 1)

    def forward(self, x):
        a = F.relu(self.d1(x))
        b = F.relu(self.mid(F.relu(self.d2(a))))
        b = F.interpolate(b, size=a.shape[-1])
        y = self.out(F.relu(self.up(torch.cat([a, b], 1))))
        return F.interpolate(y, size=x.shape[-1], mode="linear").squeeze(1)


def train(path, onsets):
    ds = DayFile(path, onsets)
    dl = DataLoader(ds, batch_size=8, shuffle=True, num_workers=4, persistent_workers=True, drop_last=True)
    net = Picker()
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        tic = time.time()
        tot, resid, n = 0.0, 0.0, 0
        for x, y, onset in dl:
            logit = net(x)
            loss = F.binary_cross_entropy_with_logits(logit, y, pos_weight=torch.tensor(5.0))
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
            resid += (logit.detach().argmax(1) - onset).abs().float().mean().item() / FS
            n += 1
        print(f"epoch {epoch:02d}: loss {tot / n:.4f}, mean |residual| {resid / n:.2f} s, took {time.time() - tic:.1f} s")
    ds.fh.close()


def main():
    torch.manual_seed(17)
    with tempfile.TemporaryDirectory(prefix="seis_") as tmp:
        path = os.path.join(tmp, "XX.STA01.2023.117.bin")
        train(path, synth_day(path))


if __name__ == "__main__":
    main()
