"""Deep-sets jet tagger on simulated collider events (tracks + calorimeter clusters)."""
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.multiprocessing.set_sharing_strategy("file_system")  # "too many open files" otherwise

torch.set_num_threads(1)
EPOCHS = int(os.environ.get("EPOCHS", 3))
N_EVENTS = 5120
BATCH = 128


class Events(Dataset):
    """Ragged events; kinematics are derived from (pt, eta, phi) on access."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 2, n)
        self.n_trk = rng.integers(12, 40, n) + 4 * self.y
        self.n_clu = rng.integers(8, 30, n)
        self.trk_off = np.concatenate([[0], np.cumsum(self.n_trk)])
        self.clu_off = np.concatenate([[0], np.cumsum(self.n_clu)])
        self.trk = rng.normal(size=(self.trk_off[-1], 3)).astype(np.float32)
        self.clu = rng.normal(size=(self.clu_off[-1], 3)).astype(np.float32)
        self.trk[:, 0] = np.exp(self.trk[:, 0])
        self.clu[:, 0] = np.exp(self.clu[:, 0])

    def __len__(self):
        return len(self.y)

    @staticmethod
    def p4(a):
        pt, eta, phi = a.T
        return np.stack([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta), pt * np.cosh(eta)], 1)

    def __getitem__(self, i):
        t = self.p4(self.trk[self.trk_off[i]:self.trk_off[i + 1]])
        c = self.p4(self.clu[self.clu_off[i]:self.clu_off[i + 1]])
        met = -(t[:, :2].sum(0) + c[:, :2].sum(0))
        tot = t.sum(0)
        mass = np.sqrt(np.maximum(tot[3] ** 2 - (tot[:3] ** 2).sum(), 0))
        return {
            "tracks": torch.from_numpy(t),
            "clusters": torch.from_numpy(c),
            "met": torch.from_numpy(met),
            "mass": torch.tensor([mass], dtype=torch.float32),
            "mult": torch.tensor([len(t), len(c)], dtype=torch.float32),
            "label": torch.tensor(int(self.y[i])),
        }


def as_list(events):
    return events


def pack(events):
    """Concatenate the ragged parts and keep an index of the event each row belongs to."""
    idx_t = torch.repeat_interleave(torch.arange(len(events)), torch.tensor([len(e["tracks"]) for e in events]))
    idx_c = torch.repeat_interleave(torch.arange(len(events)), torch.tensor([len(e["clusters"]) for e in events]))
    return {
        "tracks": torch.cat([e["tracks"] for e in events]),
        "clusters": torch.cat([e["clusters"] for e in events]),
        "idx_t": idx_t,
        "idx_c": idx_c,
        "glob": torch.stack([torch.cat([e["met"], e["mass"], e["mult"]]) for e in events]),
        "label": torch.stack([e["label"] for e in events]),
    }


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.SiLU(), nn.Linear(h, o), nn.SiLU())


class DeepSets(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.d = d
        self.phi_t, self.phi_c = mlp(4, d, d), mlp(4, d, d)
        self.rho = nn.Sequential(mlp(2 * d + 5, d, d), nn.Linear(d, 2))

    def forward(self, b):
        n = len(b["label"])
        ht = torch.zeros(n, self.d).index_add(0, b["idx_t"], self.phi_t(torch.asinh(b["tracks"])))
        hc = torch.zeros(n, self.d).index_add(0, b["idx_c"], self.phi_c(torch.asinh(b["clusters"])))
        return self.rho(torch.cat([ht / 20, hc / 20, torch.asinh(b["glob"])], 1))


def main():
    torch.manual_seed(0)
    data = Events(N_EVENTS, seed=42)
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=2,
                        collate_fn=as_list, persistent_workers=True, drop_last=True)
    model = DeepSets()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for ep in range(1, EPOCHS + 1):
        tic = time.perf_counter()
        losses = []
        for events in loader:
            batch = pack(events)
            loss = nn.functional.cross_entropy(model(batch), batch["label"])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            losses.append(float(loss.detach()))
        print("epoch %d  <loss> = %.4f  (%d batches, %.1f s)" % (ep, np.mean(losses), len(losses), time.perf_counter() - tic))


if __name__ == "__main__":
    main()
