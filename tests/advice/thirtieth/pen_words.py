"""Digit-string recognition from pen trajectories (CTC), ink kept in an SQLite file.

    python pen_words.py --data DIR [--epochs N]

Every row of `ink` holds one writer's string: the label and the pen strokes as packed float32
(x, y) runs.  The recogniser works on rendered line images so that it can be shared with the
scanned-forms pipeline.
"""
import json
import math
import sqlite3
import sys
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HEIGHT, WIDTH, SCALE = 32, 160, 4

DEFAULTS = {
    "data": "data/pen_words",
    "epochs": 2,
    "batch": 24,
    "workers": 2,
    "lr": 3e-3,
    "clip": 5.0,
    "hidden": 48,
    "holdout": 192,
    "seed": 31,
}

GLYPHS = {
    "0": [[(.5, 0), (.1, .3), (.1, .7), (.5, 1), (.9, .7), (.9, .3), (.5, 0)]],
    "1": [[(.3, .2), (.6, 0), (.6, 1)]],
    "2": [[(.1, .2), (.5, 0), (.9, .25), (.1, 1), (.9, 1)]],
    "3": [[(.1, .1), (.8, .1), (.4, .45), (.9, .7), (.5, 1), (.1, .9)]],
    "4": [[(.7, 1), (.7, 0), (.1, .7), (.95, .7)]],
    "5": [[(.2, 0), (.2, .45), (.8, .55), (.8, .9), (.1, 1)], [(.2, 0), (.9, 0)]],
    "6": [[(.8, 0), (.2, .5), (.2, .9), (.7, 1), (.8, .6), (.2, .65)]],
    "7": [[(.1, 0), (.9, 0), (.4, 1)], [(.3, .5), (.8, .5)]],
    "8": [[(.5, .5), (.1, .2), (.5, 0), (.9, .2), (.1, .8), (.5, 1), (.9, .8), (.5, .5)]],
    "9": [[(.9, .3), (.5, .5), (.1, .2), (.5, 0), (.9, .2), (.7, 1)]],
}


# ----------------------------------------------------------------------------- ink
def write_string(rng, text):
    strokes, x = [], 0.0
    slant = rng.normal(0, 0.15)
    for ch in text:
        w = rng.uniform(0.5, 0.8)
        for stroke in GLYPHS[ch]:
            p = np.array(stroke) + rng.normal(0, 0.04, (len(stroke), 2))
            t = np.linspace(0, len(p) - 1, 10 * len(p))
            pts = np.stack([np.interp(t, np.arange(len(p)), p[:, k]) for k in (0, 1)], 1)
            pts[:, 0] = x + w * pts[:, 0] + slant * (1 - pts[:, 1])
            strokes.append(pts.astype(np.float32))
        x += w + rng.uniform(0.1, 0.3)
    return strokes


def make_data(folder):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ink.db"
    if path.exists():
        return path
    rng = np.random.default_rng(17)
    part = folder / "ink.part"
    part.unlink(missing_ok=True)
    with sqlite3.connect(part) as db:
        db.execute("create table ink (id integer primary key, label text, lengths text, points blob)")
        for i in range(2592):
            text = "".join(rng.choice(list(GLYPHS), size=rng.integers(4, 7)))
            strokes = write_string(rng, text)
            db.execute("insert into ink values (?, ?, ?, ?)",
                       (i, text, json.dumps([len(s) for s in strokes]), np.concatenate(strokes).tobytes()))
    db.close()
    part.rename(path)
    return path


class InkStrings(Dataset):
    def __init__(self, path, where):
        db = sqlite3.connect(path)
        self.ids = [r[0] for r in db.execute(f"select id from ink where {where} order by id")]
        db.close()
        self.path, self.db = path, None

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        if self.db is None:
            self.db = sqlite3.connect(self.path)
        label, lengths, blob = self.db.execute(
            "select label, lengths, points from ink where id = ?", (self.ids[i],)).fetchone()
        points = np.frombuffer(blob, np.float32).reshape(-1, 2)
        return np.split(points, np.cumsum(json.loads(lengths))[:-1]), label


# ----------------------------------------------------------------------------- rendering
def render(strokes):
    """One line image: pen strokes with speed-dependent width, soft ink and paper grain."""
    every = np.concatenate(strokes)
    low, high = every.min(0), every.max(0)
    k = min((WIDTH - 8) / (high[0] - low[0]), (HEIGHT - 8) / (high[1] - low[1])) * SCALE
    canvas = np.zeros((HEIGHT * SCALE, WIDTH * SCALE), np.uint8)
    for s in strokes:
        q = (s - low) * k + 4 * SCALE
        speed = np.linalg.norm(np.diff(q, axis=0), axis=1)
        for a, b, v in zip(q[:-1].tolist(), q[1:].tolist(), speed.tolist()):
            width = int(np.clip(9 - 0.4 * v, 4, 9))
            cv2.line(canvas, (int(a[0]), int(a[1])), (int(b[0]), int(b[1])), 255, width, cv2.LINE_AA)
    canvas = cv2.GaussianBlur(canvas, (0, 0), 2.0)
    image = cv2.resize(canvas, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
    return image.astype(np.float32) / 255


def prepare(samples):
    images = np.stack([render(strokes) for strokes, _ in samples])
    labels = [label for _, label in samples]
    target = torch.tensor([int(c) + 1 for label in labels for c in label])
    sizes = torch.tensor([len(label) for label in labels])
    return torch.from_numpy(images)[:, None], target, sizes, labels


# ----------------------------------------------------------------------------- recogniser
class Recogniser(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.rnn = nn.GRU(16 * HEIGHT // 4, hidden, bidirectional=True)
        self.out = nn.Linear(2 * hidden, 11)

    def forward(self, x):
        f = self.conv(x)
        f, _ = self.rnn(f.permute(3, 0, 1, 2).flatten(2))
        return self.out(f).log_softmax(-1)


def greedy(logp):
    texts = []
    for path in logp.argmax(-1).T.tolist():
        texts.append("".join(str(c - 1) for c, prev in zip(path, [0] + path[:-1]) if c and c != prev))
    return texts


class Session:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg["seed"])
        torch.set_num_threads(1)
        cv2.setNumThreads(1)
        path = str(make_data(Path(cfg["data"])))
        kw = dict(batch_size=cfg["batch"], num_workers=cfg["workers"], collate_fn=list, persistent_workers=True)
        self.train = DataLoader(InkStrings(path, f"id >= {cfg['holdout']}"), shuffle=True, drop_last=True, **kw)
        self.test = DataLoader(InkStrings(path, f"id < {cfg['holdout']}"), **kw)
        self.net = Recogniser(cfg["hidden"])
        self.ctc = nn.CTCLoss(zero_infinity=True)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"])

    def batches(self, loader):
        for samples in loader:
            yield prepare(samples)

    def fit(self):
        for epoch in range(self.cfg["epochs"]):
            self.net.train()
            running = math.nan
            for images, target, sizes, _ in self.batches(self.train):
                logp = self.net(images)
                frames = torch.full((len(sizes),), len(logp), dtype=torch.long)
                loss = self.ctc(logp, target, frames, sizes)
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), self.cfg["clip"])
                self.opt.step()
                running = loss.item() if math.isnan(running) else 0.95 * running + 0.05 * loss.item()
            print(f"epoch {epoch} ctc {running:.3f} exact {self.score():.3f}", flush=True)
        torch.save(self.net.state_dict(), Path(self.cfg["data"]) / "recogniser.pt")

    @torch.no_grad()
    def score(self):
        self.net.eval()
        right = 0
        for images, _, _, labels in self.batches(self.test):
            right += sum(a == b for a, b in zip(greedy(self.net(images)), labels))
        return right / len(self.test.dataset)


if __name__ == "__main__":
    cfg = dict(DEFAULTS)
    for flag, value in zip(sys.argv[1::2], sys.argv[2::2]):
        key = flag.lstrip("-").replace("-", "_")
        if key not in cfg:
            sys.exit(f"unknown option {flag}\n{__doc__}")
        cfg[key] = type(cfg[key])(value)
    Session(cfg).fit()
