"""Estimate mixed layer depth and surface oxygen from float profiles (temperature, salinity, pressure)."""
import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

# we ran into "too many open files" on the login nodes
torch.multiprocessing.set_sharing_strategy("file_system")

ROOT = Path(__file__).resolve().parent / "data" / "ocean_profiles"
LEVELS = 120
N_FLOATS = 40
PER_FLOAT = 200


def make_data():
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(11)
    pressure = np.linspace(5, 2000, LEVELS, dtype=np.float32)
    index = []
    for f in range(N_FLOATS):
        lat = rng.uniform(-60, 60)
        mld = rng.gamma(4.0, 18.0, PER_FLOAT).astype(np.float32) + 10
        surf = 28 - 0.35 * abs(lat) + rng.normal(0, 1.2, PER_FLOAT)
        decay = np.exp(-np.clip(pressure[None] - mld[:, None], 0, None) / 350.0)
        temp = 2 + (surf[:, None] - 2) * decay + rng.normal(0, 0.08, (PER_FLOAT, LEVELS))
        salt = 34.6 + 1.1 * decay * np.cos(lat / 30) + rng.normal(0, 0.02, (PER_FLOAT, LEVELS))
        oxy = 320 - 5.2 * surf + rng.normal(0, 3, PER_FLOAT)
        name = f"float_{f:03d}.npz"
        np.savez(ROOT / name, temp=temp.astype(np.float32), salt=salt.astype(np.float32),
                 pres=np.tile(pressure, (PER_FLOAT, 1)), mld=mld, oxy=oxy.astype(np.float32))
        index.append({"file": name, "lat": lat, "n": PER_FLOAT})
    (ROOT / "index.json").write_text(json.dumps(index))


class ProfileDataset(Dataset):
    def __init__(self, floats):
        parts = {k: [] for k in ("temp", "salt", "mld", "oxy", "lat")}
        for entry in floats:
            with np.load(ROOT / entry["file"]) as z:
                for k in ("temp", "salt", "mld", "oxy"):
                    parts[k].append(z[k])
            parts["lat"].append(np.full(entry["n"], entry["lat"], np.float32))
        self.data = {k: np.concatenate(v) for k, v in parts.items()}

    def __len__(self):
        return len(self.data["mld"])

    def __getitem__(self, i):
        d = self.data
        temp = (d["temp"][i] - 10.0) / 8.0
        salt = (d["salt"][i] - 35.0) / 0.8
        return {
            "temp": temp.tolist(),
            "salt": salt.tolist(),
            "lat": float(d["lat"][i]) / 60.0,
            "mld": float(d["mld"][i]) / 100.0,
            "oxy": float(d["oxy"][i]) / 250.0,
        }


class ProfileNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv1d(2, width, 7, padding=3), nn.GELU(),
            nn.Conv1d(width, width, 5, padding=2, stride=2), nn.GELU(),
            nn.Conv1d(width, width, 5, padding=2, stride=2), nn.GELU(),
        )
        self.head = nn.Sequential(nn.Linear(2 * width + 1, 64), nn.GELU(), nn.Linear(64, 2))

    def forward(self, x, lat):
        h = self.trunk(x)
        h = torch.cat([h.mean(-1), h.amax(-1), lat[:, None]], 1)
        return self.head(h)


def unpack(batch):
    temp = torch.stack(batch["temp"], dim=1)
    salt = torch.stack(batch["salt"], dim=1)
    x = torch.stack([temp, salt], dim=1).float()
    y = torch.stack([batch["mld"], batch["oxy"]], dim=1).float()
    return x, batch["lat"].float(), y


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    err, n = torch.zeros(2), 0
    for batch in loader:
        x, lat, y = unpack(batch)
        err += (model(x, lat) - y).abs().sum(0)
        n += len(y)
    return (err / n).tolist()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--make", action="store_true")
    args = ap.parse_args()
    if args.make or not (ROOT / "index.json").exists():
        make_data()
        if args.make:
            return
    torch.manual_seed(0)
    index = json.loads((ROOT / "index.json").read_text())
    train, val = ProfileDataset(index[:-6]), ProfileDataset(index[-6:])
    opts = dict(batch_size=64, num_workers=2, persistent_workers=True)
    train_loader = DataLoader(train, shuffle=True, drop_last=True, **opts)
    val_loader = DataLoader(val, **opts)

    model = ProfileNet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        t0, total = time.time(), 0.0
        model.train()
        for batch in train_loader:
            x, lat, y = unpack(batch)
            loss = F.smooth_l1_loss(model(x, lat), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        mld, oxy = evaluate(model, val_loader)
        print(f"epoch {epoch}: steps {len(train_loader)} loss {total / len(train_loader):.4f} "
              f"val MLD {100 * mld:.1f} m, O2 {250 * oxy:.1f} umol/kg  ({time.time() - t0:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
