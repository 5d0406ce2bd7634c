"""Move prediction for 9x9 Go from recorded games (behavioural cloning).

A small hook-driven trainer: `PolicyModule` holds the network and the optimiser, `Trainer`
owns the loop and calls the hooks of every callback.
"""
import argparse
import csv
import json
import os
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

BOARD = 9
POINTS = BOARD * BOARD


# ============================================================ records
def neighbours(p):
    r, c = divmod(p, BOARD)
    return [q for ok, q in ((r > 0, p - BOARD), (r < BOARD - 1, p + BOARD),
                            (c > 0, p - 1), (c < BOARD - 1, p + 1)) if ok]


def make_data(root, games=480, seed=1):
    """Self-play of a simple shape-seeking player, one JSON object per game."""
    path = os.path.join(root, "games.jsonl")
    if os.path.exists(path):
        return path
    os.makedirs(root, exist_ok=True)
    rng = random.Random(seed)
    adj = [neighbours(p) for p in range(POINTS)]
    with open(path + ".part", "w") as f:
        for g in range(games):
            board, moves = [0] * POINTS, []
            last = rng.choice([30, 32, 40, 48, 50])
            for ply in range(48):
                me = 1 if ply % 2 == 0 else 2
                free = [p for p in range(POINTS) if board[p] == 0]
                def score(p):
                    own = sum(board[q] == me for q in adj[p])
                    opp = sum(board[q] == 3 - me for q in adj[p])
                    r, c = divmod(p, BOARD)
                    lr, lc = divmod(last, BOARD)
                    return 2.0 * own + 2.6 * opp - 3.0 * (own > 2) - 0.4 * (abs(r - lr) + abs(c - lc)) + rng.gauss(0, .35)
                p = max(free, key=score)
                board[p] = me
                moves.append(p)
                last = p
            f.write(json.dumps({"id": g, "size": BOARD, "moves": moves}) + "\n")
    os.replace(path + ".part", path)
    return path


class Positions(Dataset):
    """Every position of the given games: planes (own, other, last move, edge) and the move played."""

    def __init__(self, games):
        boards, last, moves = [], [], []
        for game in games:
            board = np.zeros(POINTS, np.int8)
            prev = -1
            for ply, m in enumerate(game["moves"]):
                boards.append(board if ply % 2 == 0 else -board)
                last.append(prev)
                moves.append(m)
                board = board.copy()
                board[m] = 1 if ply % 2 == 0 else -1
                prev = m
        self.boards = np.stack(boards)
        self.last = np.array(last)
        self.moves = np.array(moves)
        edge = np.zeros((BOARD, BOARD), np.float32)
        edge[[0, -1]] = edge[:, [0, -1]] = 1
        self.edge = edge

    def __len__(self):
        return len(self.moves)

    def __getitem__(self, i):
        b = self.boards[i].reshape(BOARD, BOARD)
        planes = np.zeros((4, BOARD, BOARD), np.float32)
        planes[0] = b == 1
        planes[1] = b == -1
        if self.last[i] >= 0:
            planes[2].flat[self.last[i]] = 1
        planes[3] = self.edge
        return torch.from_numpy(planes), int(self.moves[i])


# ============================================================ module
class PolicyModule(nn.Module):
    def __init__(self, width=16, depth=3, lr=2e-3):
        super().__init__()
        layers = [nn.Conv2d(4, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        layers += [nn.Conv2d(width, 1, 1), nn.Flatten()]
        self.net = nn.Sequential(*layers)
        self.lr = lr

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch):
        x, y = batch
        logits = self(x)
        return {"loss": F.cross_entropy(logits, y), "logits": logits.detach(), "target": y}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


# ============================================================ callbacks
class Callback:
    def on_fit_start(self, trainer): ...
    def on_epoch_start(self, trainer): ...
    def on_batch_end(self, trainer, out): ...
    def on_epoch_end(self, trainer): ...


class RankReport(Callback):
    """Rank statistics of the played move over the epoch, shown in the progress line."""

    def on_epoch_start(self, trainer):
        self.logits, self.targets = [], []

    def compute(self):
        logits = torch.cat(self.logits)
        target = torch.cat(self.targets)
        order = logits.argsort(dim=1, descending=True)
        rank = (order == target[:, None]).float().argmax(1)
        confidence = logits.softmax(1).amax(1)
        calibration = (confidence - (rank == 0).float()).mean().abs()
        return {"top1": (rank == 0).float().mean().item(), "top5": (rank < 5).float().mean().item(),
                "mrr": (1.0 / (rank + 1)).mean().item(), "cal": calibration.item()}

    def on_batch_end(self, trainer, out):
        self.logits.append(out["logits"])
        self.targets.append(out["target"])
        trainer.metrics.update(self.compute())


class ProgressLine(Callback):
    def __init__(self, every):
        self.every = every

    def on_batch_end(self, trainer, out):
        if (trainer.batch_idx + 1) % self.every == 0:
            text = " ".join(f"{k}={v:.3f}" for k, v in trainer.metrics.items())
            print(f"[{trainer.epoch}:{trainer.batch_idx + 1}/{trainer.num_batches}] {text}", flush=True)


class CsvHistory(Callback):
    def __init__(self, path):
        self.path, self.rows = path, []

    def on_epoch_end(self, trainer):
        self.rows.append({"epoch": trainer.epoch, **trainer.metrics})
        with open(self.path, "w", newline="") as f:
            w = csv.DictWriter(f, fieldnames=list(self.rows[0]))
            w.writeheader()
            w.writerows(self.rows)


# ============================================================ trainer
class Trainer:
    def __init__(self, max_epochs, callbacks):
        self.max_epochs, self.callbacks = max_epochs, callbacks
        self.metrics = {}

    def call(self, hook, *args):
        for cb in self.callbacks:
            getattr(cb, hook)(self, *args)

    def fit(self, module, loader):
        optimizer = module.configure_optimizers()
        self.num_batches = len(loader)
        self.call("on_fit_start")
        for self.epoch in range(self.max_epochs):
            module.train()
            self.call("on_epoch_start")
            for self.batch_idx, batch in enumerate(loader):
                out = module.training_step(batch)
                optimizer.zero_grad()
                out["loss"].backward()
                optimizer.step()
                self.metrics["loss"] = out["loss"].item()
                self.call("on_batch_end", out)
            self.call("on_epoch_end")


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--data", default="data/go_policy")
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--num-workers", type=int, default=1)
    args = ap.parse_args()
    torch.manual_seed(7)

    with open(make_data(args.data)) as f:
        games = [json.loads(line) for line in f]
    loader = DataLoader(Positions(games), batch_size=args.batch_size, shuffle=True, drop_last=True,
                        num_workers=args.num_workers, persistent_workers=args.num_workers > 0)
    module = PolicyModule()
    trainer = Trainer(args.epochs, [RankReport(), ProgressLine(every=60),
                                    CsvHistory(os.path.join(args.data, "history.csv"))])
    trainer.fit(module, loader)
    torch.save(module.state_dict(), os.path.join(args.data, "policy.pt"))


if __name__ == "__main__":
    main()
