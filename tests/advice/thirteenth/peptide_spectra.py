"""Retention-class prediction from MS/MS spectra (proteomics core facility)."""
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
DATA_DIR = Path(os.environ.get("DATA_DIR") or tempfile.gettempdir()) / "peptide_spectra"

N_FILES = 6
SPECTRA_PER_FILE = 400
N_CLASSES = 12
MZ_LO, MZ_HI, N_BINS = 150.0, 1350.0, 1200


@dataclass
class Spectrum:
    title: str
    charge: int
    label: int
    offset: int
    path: str


def write_runs(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    for k in range(N_FILES):
        target = root / f"run_{k:02d}.mgf"
        if target.exists():
            continue
        chunks = []
        for i in range(SPECTRA_PER_FILE):
            label = int(rng.integers(N_CLASSES))
            n = int(rng.integers(60, 160))
            mz = np.sort(rng.uniform(MZ_LO, MZ_HI, n) * 0.8 + label * 20)
            inten = rng.gamma(2.0, 300.0, n)
            chunks.append(f"BEGIN IONS\nTITLE=run{k}.{i} class={label}\nCHARGE={rng.integers(2, 5)}+\n")
            chunks.append("".join(f"{a:.4f} {b:.1f}\n" for a, b in zip(mz, inten)))
            chunks.append("END IONS\n")
        tmp = target.with_suffix(".part")
        tmp.write_text("".join(chunks))
        tmp.rename(target)


class MgfDataset(Dataset):
    def __init__(self, files):
        self.entries = []
        for path in files:
            self.entries.extend(self._index(path))

    @staticmethod
    def _index(path):
        out, pos, title, label = [], 0, "", 0
        with open(path, "rb") as fh:
            for line in fh:
                if line.startswith(b"TITLE="):
                    title = line[6:].decode().strip()
                    label = int(title.rsplit("=", 1)[1])
                elif line.startswith(b"CHARGE="):
                    charge = int(line[7:8])
                    out.append(Spectrum(title, charge, label, pos + len(line), str(path)))
                pos += len(line)
        return out

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, i):
        e = self.entries[i]
        with open(e.path, "rb") as fh:
            fh.seek(e.offset)
            block = fh.read(8192)
        body = block[: block.index(b"END IONS")]
        peaks = np.array(body.split(), dtype=np.float64).reshape(-1, 2)
        bins = ((peaks[:, 0] - MZ_LO) / (MZ_HI - MZ_LO) * N_BINS).astype(int).clip(0, N_BINS - 1)
        vec = np.zeros(N_BINS, dtype=np.float32)
        np.maximum.at(vec, bins, np.sqrt(peaks[:, 1]).astype(np.float32))
        vec /= vec.max()
        return torch.from_numpy(vec), e.charge, e.label


class SpectrumNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, width, 9, padding=4), nn.GELU(),
            nn.MaxPool1d(2),
            nn.Conv1d(width, width, 9, padding=4), nn.GELU(),
            nn.MaxPool1d(4),
            nn.Conv1d(width, width * 2, 5, padding=2), nn.GELU(),
            nn.AdaptiveAvgPool1d(8),
        )
        self.charge = nn.Embedding(8, 16)
        self.head = nn.Linear(width * 2 * 8 + 16, N_CLASSES)

    def forward(self, x, z):
        h = self.conv(x.unsqueeze(1)).flatten(1)
        return self.head(torch.cat([h, self.charge(z)], dim=1))


def main():
    write_runs(DATA_DIR)
    torch.manual_seed(0)
    ds = MgfDataset(sorted(DATA_DIR.glob("run_*.mgf")))
    loader = DataLoader(
        ds,
        batch_size=48,
        shuffle=True,
        num_workers=2,
        multiprocessing_context="spawn",
        drop_last=True,
    )
    net = SpectrumNet()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for epoch in range(1, EPOCHS + 1):
        t0 = time.perf_counter()
        total = hits = seen = 0
        for x, z, y in loader:
            logits = net(x, z)
            loss = nn.functional.cross_entropy(logits, y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            seen += len(y)
        print(f"epoch {epoch}: loss {total / seen:.4f} acc {hits / seen:.3f} [{time.perf_counter() - t0:.1f}s]", flush=True)


if __name__ == "__main__":
    main()
