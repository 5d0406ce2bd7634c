"""Behaviour cloning for a 7-DoF arm from teleop logs (streamed chunk by chunk from the lab bucket)."""
import os
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 8))
OBS, ACT = 46, 7
CHUNK = 32                       # transitions per chunk
READ_LATENCY = 0.022             # bucket round trip, measured from the lab network
# chunks recorded at each station; station A was running all of last autumn
STATIONS = {"A": 104, "B": 12, "C": 16, "D": 8}


def record_logs(root):
    rng = np.random.default_rng(17)
    W = rng.normal(0, 0.3, (OBS, ACT))
    for name, n_chunks in STATIONS.items():
        obs = rng.normal(size=(n_chunks * CHUNK, OBS)).astype(np.float32)
        act = np.tanh(obs @ W + 0.05 * rng.normal(size=(len(obs), ACT))).astype(np.float32)
        np.save(os.path.join(root, f"station_{name}.npy"), np.concatenate([obs, act], 1))


class Bucket:
    """Ranged reads on the log files. Stand-in for the S3 client in CI."""

    def __init__(self, root):
        self.root = root

    def list(self):
        return sorted(os.listdir(self.root))

    def n_chunks(self, key):
        return len(np.load(os.path.join(self.root, key), mmap_mode="r")) // CHUNK

    def get_chunk(self, key, k):
        time.sleep(READ_LATENCY)
        arr = np.load(os.path.join(self.root, key), mmap_mode="r")
        return np.array(arr[k * CHUNK:(k + 1) * CHUNK])


class TeleopStream(IterableDataset):
    def __init__(self, bucket):
        self.bucket = bucket
        self.epoch = 0

    def my_chunks(self):
        """(key, chunk) pairs that this worker reads."""
        info = get_worker_info()
        wid, n = (info.id, info.num_workers) if info else (0, 1)
        keys = self.bucket.list()[wid::n]
        return [(key, k) for key in keys for k in range(self.bucket.n_chunks(key))]

    def __iter__(self):
        chunks = self.my_chunks()
        for j in torch.randperm(len(chunks)).tolist():
            data = self.bucket.get_chunk(*chunks[j])
            for row in data[torch.randperm(len(data)).numpy()]:
                obs = row[:OBS] + np.float32(0.01) * np.random.randn(OBS).astype(np.float32)
                yield obs, row[OBS:]


class Policy(nn.Module):
    def __init__(self, hidden=512):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(OBS, hidden), nn.LayerNorm(hidden), nn.GELU(),
            nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.GELU(),
            nn.Linear(hidden, hidden), nn.GELU(),
        )
        self.mu = nn.Linear(hidden, ACT)
        self.log_std = nn.Parameter(torch.zeros(ACT))

    def nll(self, obs, act):
        mu = torch.tanh(self.mu(self.trunk(obs)))
        std = self.log_std.clamp(-3, 1).exp()
        return (0.5 * ((act - mu) / std) ** 2 + std.log()).sum(-1).mean(), (mu - act).abs().mean()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    np.random.seed(0)
    root = tempfile.mkdtemp(prefix="teleop_")
    try:
        record_logs(root)
        loader = DataLoader(
            TeleopStream(Bucket(root)),
            batch_size=64,
            num_workers=4,
            persistent_workers=True,
            prefetch_factor=4,
        )
        policy = Policy()
        opt = torch.optim.AdamW(policy.parameters(), lr=5e-4)
        for epoch in range(EPOCHS):
            nlls, maes, n = 0.0, 0.0, 0
            for obs, act in loader:
                loss, mae = policy.nll(obs, act)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
                opt.step()
                nlls += loss.item()
                maes += mae.item()
                n += 1
            print(f"epoch {epoch:3d} | {n} updates | nll {nlls / n:+.3f} | action mae {maes / n:.4f}")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
