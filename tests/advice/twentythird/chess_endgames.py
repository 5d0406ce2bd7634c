"""Win/draw/loss classifier for chess endgames, trained from a text dump of tablebase positions."""
import argparse
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

DATA = Path(__file__).resolve().parent / "data" / "chess_endgames"
PIECES = "KQRBNPkqrbnp"
VALUE = {"q": 9, "r": 5, "b": 3, "n": 3, "p": 1, "k": 0}


@dataclass
class Config:
    epochs: int = 10
    batch_size: int = 256
    lr: float = 1e-3
    hidden: int = 128
    workers: int = 2
    seed: int = 7


def to_fen(board, stm):
    rows = []
    for r in range(8):
        row, gap = "", 0
        for c in range(8):
            p = board.get(8 * r + c)
            if p is None:
                gap += 1
            else:
                row += (str(gap) if gap else "") + p
                gap = 0
        rows.append(row + (str(gap) if gap else ""))
    return "/".join(rows) + f" {stm} - - 0 1"


def make_data(n_files=6, per_file=6000):
    DATA.mkdir(parents=True, exist_ok=True)
    rng = random.Random(3)
    for k in range(n_files):
        with open(DATA / f"part-{k}.txt", "w") as f:
            for _ in range(per_file):
                men = ["K", "k"] + rng.choices("QRBNPPqrbnpp", k=rng.randint(6, 14))
                board = dict(zip(rng.sample(range(64), len(men)), men))
                diff = sum(VALUE[p.lower()] * (1 if p.isupper() else -1) for p in men)
                stm = rng.choice("wb")
                diff = diff if stm == "w" else -diff
                wdl = 2 if diff > 1 else 0 if diff < -1 else 1
                f.write(f"{to_fen(board, stm)};{wdl}\n")


def encode(line):
    """FEN -> 12 piece planes + attacked-square planes, seen from the side to move."""
    fen, wdl = line.rstrip("\n").split(";")
    placement, stm = fen.split()[:2]
    planes = np.zeros((14, 8, 8), np.float32)
    men = []
    for r, row in enumerate(placement.split("/")):
        c = 0
        for ch in row:
            if ch.isdigit():
                c += int(ch)
                continue
            if stm == "b":
                ch, rr = ch.swapcase(), 7 - r
            else:
                rr = r
            planes[PIECES.index(ch), rr, c] = 1.0
            men.append((ch, rr, c))
            c += 1
    occupied = {(r, c) for _, r, c in men}
    for ch, r, c in men:
        side = 12 if ch.isupper() else 13
        kind = ch.lower()
        if kind == "n":
            steps, reach = [(1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1)], 1
        elif kind == "p":
            d = -1 if ch.isupper() else 1
            steps, reach = [(d, 1), (d, -1)], 1
        else:
            steps = [] if kind == "b" else [(1, 0), (-1, 0), (0, 1), (0, -1)]
            steps += [] if kind == "r" else [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            reach = 1 if kind == "k" else 7
        for dr, dc in steps:
            rr, cc = r + dr, c + dc
            for _ in range(reach):
                if not (0 <= rr < 8 and 0 <= cc < 8):
                    break
                planes[side, rr, cc] += 0.5
                if (rr, cc) in occupied:
                    break
                rr, cc = rr + dr, cc + dc
    return torch.from_numpy(planes), int(wdl)


class EndgameStream(IterableDataset):
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        info = get_worker_info()
        rank, world = (info.id, info.num_workers) if info else (0, 1)
        n = 0
        for path in self.files:
            with open(path) as f:
                for line in f:
                    sample = encode(line)
                    n += 1
                    if n % world != rank:
                        continue
                    yield sample


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(14 * 64, hidden), nn.ReLU(), nn.Linear(hidden, hidden),
                                  nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 3))

    def forward(self, x):
        return self.body(x)


def main():
    cfg = Config()
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=cfg.epochs)
    ap.add_argument("--make", action="store_true")
    args = ap.parse_args()
    if args.make or not any(DATA.glob("part-*.txt")):
        make_data()
    if args.make:
        return
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)  # the net is tiny, leave the cores to the workers
    loader = DataLoader(EndgameStream(sorted(DATA.glob("part-*.txt"))), batch_size=cfg.batch_size,
                        num_workers=cfg.workers, persistent_workers=cfg.workers > 0)
    model = Net(cfg.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(args.epochs):
        t0, steps, right, seen, total = time.time(), 0, 0, 0, 0.0
        for x, y in loader:
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            steps, seen, total = steps + 1, seen + len(y), total + loss.item()
            right += (logits.argmax(1) == y).sum().item()
        print(f"[{epoch}] steps={steps} loss={total / steps:.4f} acc={right / seen:.3f} {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
