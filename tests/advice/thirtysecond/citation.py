"""Paper-topic classification on a citation graph with sampled neighbourhoods.

Each round draws a fresh set of training papers, harder ones more often.
"""
import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

N_PAPERS = 24000
N_EDGES = 1300000
N_FEAT = 64
N_TOPICS = 8
FANOUT = (12, 8)


def write_graph(root):
    rng = np.random.default_rng(101)
    os.makedirs(root, exist_ok=True)
    topic = rng.integers(0, N_TOPICS, N_PAPERS)
    centre = rng.standard_normal((N_TOPICS, N_FEAT)) * 0.25
    feat = (centre[topic] + rng.standard_normal((N_PAPERS, N_FEAT))).astype(np.float32)
    by_topic = [np.flatnonzero(topic == k) for k in range(N_TOPICS)]
    src = rng.integers(0, N_PAPERS, N_EDGES)
    dst = rng.integers(0, N_PAPERS, N_EDGES)
    same = rng.random(N_EDGES) < 0.7
    for k in range(N_TOPICS):
        m = same & (topic[src] == k)
        dst[m] = rng.choice(by_topic[k], m.sum())
    year = rng.integers(1990, 2025, N_EDGES)
    np.save(os.path.join(root, "feat.npy"), feat)
    np.save(os.path.join(root, "topic.npy"), topic)
    with open(os.path.join(root, "cites.tsv"), "w") as f:
        f.write("citing\tcited\tyear\n")
        for s, d, y in zip(src, dst, year):
            f.write(f"P{s:06d}\tP{d:06d}\t{y}\n")


def read_citations(root):
    """-> list of neighbour id arrays, both directions, without repeats."""
    neigh = [set() for _ in range(N_PAPERS)]
    with open(os.path.join(root, "cites.tsv")) as f:
        next(f)
        for line in f:
            s, d, year = line.rstrip("\n").split("\t")
            s, d = int(s[1:]), int(d[1:])
            if s != d:
                neigh[s].add(d)
                neigh[d].add(s)
    return [np.array(sorted(n), dtype=np.int64) for n in neigh]


class NeighbourhoodDataset(Dataset):
    def __init__(self, root, papers, seed):
        self.root = root
        self.papers = papers
        self.seed = seed
        self.feat = np.load(os.path.join(root, "feat.npy"), mmap_mode="r")
        self.topic = np.load(os.path.join(root, "topic.npy"))
        self._neigh = None

    @property
    def neigh(self):
        if self._neigh is None:
            self._neigh = read_citations(self.root)
        return self._neigh

    def __len__(self):
        return len(self.papers)

    def draw(self, rng, node, k):
        n = self.neigh[node]
        if len(n) == 0:
            return np.full(k, node)
        return n[rng.integers(0, len(n), k)]

    def __getitem__(self, i):
        root = int(self.papers[i])
        rng = np.random.default_rng((self.seed, i))
        hop1 = self.draw(rng, root, FANOUT[0])
        hop2 = np.stack([self.draw(rng, v, FANOUT[1]) for v in hop1])
        ids = np.concatenate([[root], hop1, hop2.ravel()])
        return torch.from_numpy(self.feat[ids]), int(self.topic[root]), i


class TwoHopSage(nn.Module):
    def __init__(self, hidden=192):
        super().__init__()
        self.inp = nn.Linear(N_FEAT, hidden)
        self.l1 = nn.Linear(2 * hidden, hidden)
        self.l2 = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, N_TOPICS)

    def forward(self, x):
        a, b = FANOUT
        h = F.relu(self.inp(x))
        root, h1, h2 = h[:, :1], h[:, 1:1 + a], h[:, 1 + a:].unflatten(1, (a, b))
        m1 = torch.cat([h1, h2.mean(2)], -1)
        h1 = F.relu(self.l1(m1))
        r = F.relu(self.l1(torch.cat([root, h[:, 1:1 + a].mean(1, keepdim=True)], -1)))
        r = F.relu(self.l2(torch.cat([r[:, 0], h1.mean(1)], -1)))
        return self.out(F.dropout(r, 0.3, self.training))


def run_round(model, opt, loader, hardness, papers):
    model.train()
    total = right = 0.0
    for x, y, pos in loader:
        logits = model(x)
        each = F.cross_entropy(logits, y, reduction="none")
        loss = each.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        hardness[papers[pos.numpy()]] = each.detach().numpy().clip(0.1, 4.0)
        total += each.sum().item()
        right += (logits.argmax(1) == y).sum().item()
    return total / len(papers), right / len(papers)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="data/citation")
    ap.add_argument("--rounds", type=int, default=13)
    ap.add_argument("--papers", type=int, default=3072)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()
    if not os.path.exists(os.path.join(args.data, "cites.tsv")):
        write_graph(args.data)

    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    model = TwoHopSage()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    hardness = np.full(N_PAPERS, 2.0)
    for r in range(args.rounds):
        papers = rng.choice(N_PAPERS, args.papers, replace=False, p=hardness / hardness.sum())
        ds = NeighbourhoodDataset(args.data, papers, seed=r)
        loader = DataLoader(ds, batch_size=64, shuffle=True, num_workers=args.workers)
        loss, acc = run_round(model, opt, loader, hardness, papers)
        print(f"round {r:2d} loss {loss:.4f} acc {acc:.4f}", flush=True)


if __name__ == "__main__":
    main()
