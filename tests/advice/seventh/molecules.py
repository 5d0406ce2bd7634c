"""Message passing on small molecules: regress a property of the graph."""

import json
import os
import random
import tempfile

import torch
import torch.multiprocessing
from torch import nn
from torch.utils.data import DataLoader, Dataset

# big batches of graphs run out of file descriptors otherwise
torch.multiprocessing.set_sharing_strategy("file_system")
torch.set_num_threads(1)

EPOCHS = int(os.environ.get("EPOCHS", 6))
ATOMS = ["H", "C", "N", "O", "F", "S", "Cl"]
N_GRAPHS = 2400
BATCH = 96


def build_corpus(path, seed=9):
    rng = random.Random(seed)
    with open(path, "w") as out:
        for _ in range(N_GRAPHS):
            n = rng.randint(9, 26)
            atoms = [rng.randrange(len(ATOMS)) for _ in range(n)]
            bonds = [(i, rng.randrange(i), rng.randint(1, 3)) for i in range(1, n)]
            bonds += [(rng.randrange(n), rng.randrange(n), 1) for _ in range(n // 5)]
            y = sum(order for _, _, order in bonds) / n + 0.2 * atoms.count(3)
            json.dump({"atoms": atoms, "bonds": bonds, "y": y}, out)
            out.write("\n")


class Molecules(Dataset):
    def __init__(self, path, keep):
        with open(path) as lines:
            rows = [json.loads(line) for number, line in enumerate(lines) if keep(number)]
        self.rows = [(torch.tensor(r["atoms"]), torch.tensor(r["bonds"]), r["y"]) for r in rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        atoms, bonds, y = self.rows[index]
        edges = torch.cat([bonds[:, :2], bonds[:, [1, 0]]]).t().contiguous()
        order = bonds[:, 2].repeat(2)
        degree = torch.bincount(edges[1], minlength=len(atoms)).float()
        return {"atoms": atoms, "edges": edges, "order": order, "degree": degree, "y": torch.tensor(y)}


def as_list(graphs):
    return graphs


def merge(graphs):
    """One disjoint graph out of many."""
    sizes = torch.tensor([len(g["atoms"]) for g in graphs])
    offsets = (sizes.cumsum(0) - sizes).tolist()
    return {
        "atoms": torch.cat([g["atoms"] for g in graphs]),
        "edges": torch.cat([g["edges"] + offset for g, offset in zip(graphs, offsets)], dim=1),
        "order": torch.cat([g["order"] for g in graphs]),
        "degree": torch.cat([g["degree"] for g in graphs]),
        "owner": torch.repeat_interleave(torch.arange(len(graphs)), sizes),
        "y": torch.stack([g["y"] for g in graphs]),
    }


class MPNN(nn.Module):
    def __init__(self, width=32, rounds=2):
        super().__init__()
        self.atom = nn.Embedding(len(ATOMS), width)
        self.bond = nn.Embedding(4, width)
        self.rounds = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(rounds))
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, g):
        h = self.atom(g["atoms"])
        src, dst = g["edges"]
        bond = self.bond(g["order"])
        norm = g["degree"].clamp(min=1).unsqueeze(1)
        for layer in self.rounds:
            message = torch.relu(h[src] + bond)
            gathered = torch.zeros_like(h).index_add_(0, dst, message) / norm
            h = h + torch.relu(layer(torch.cat([h, gathered], dim=1)))
        n = len(g["y"])
        count = torch.bincount(g["owner"], minlength=n).unsqueeze(1)
        return self.out(torch.zeros(n, h.shape[1]).index_add_(0, g["owner"], h) / count).squeeze(1)


def main():
    torch.manual_seed(13)
    with tempfile.TemporaryDirectory(prefix="mol_") as folder:
        corpus = os.path.join(folder, "molecules.jsonl")
        build_corpus(corpus)
        train_set = Molecules(corpus, lambda n: n % 8 != 0)
        test_set = Molecules(corpus, lambda n: n % 8 == 0)
    train = DataLoader(
        train_set, batch_size=BATCH, shuffle=True, num_workers=2, persistent_workers=True, collate_fn=as_list
    )
    test_graphs = merge([test_set[i] for i in range(len(test_set))])

    model = MPNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for graphs in train:
            batch = merge(graphs)
            loss = nn.functional.smooth_l1_loss(model(batch), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(graphs)
        scheduler.step()
        model.eval()
        with torch.no_grad():
            mae = (model(test_graphs) - test_graphs["y"]).abs().mean().item()
        print(f"epoch {epoch + 1}: train {total / len(train_set):.4f}  test mae {mae:.4f}", flush=True)


if __name__ == "__main__":
    main()
