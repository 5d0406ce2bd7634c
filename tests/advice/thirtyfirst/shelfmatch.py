"""Match product photos with their titles and live catalogue attributes (contrastive, two towers)."""
import argparse
import io
import json
import multiprocessing as mp
import os
import sqlite3
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = {
    "epochs": 2,
    "batch_size": 32,
    "image_side": 64,
    "vocabulary": 512,
    "title_words": 8,
    "embedding": 64,
    "lr": 2e-3,
    "workers": 6,
    "products": 1120,
    "round_trip": 0.007,
}
COLOURS = ["red", "green", "blue", "black", "white", "amber", "teal", "pink"]
RGB = [(200, 40, 40), (40, 170, 60), (40, 70, 200), (25, 25, 25), (235, 235, 235), (230, 170, 30), (30, 150, 150),
       (240, 130, 180)]
SHAPES = ["bottle", "box", "lamp", "mug"]


def make_data(root, config):
    if os.path.exists(os.path.join(root, "products.jsonl")):
        return
    os.makedirs(os.path.join(root, "photos"), exist_ok=True)
    rng = np.random.default_rng(3)
    store = sqlite3.connect(os.path.join(root, "catalogue.db"))
    store.execute("CREATE TABLE IF NOT EXISTS item (sku TEXT PRIMARY KEY, price REAL, stock INTEGER, weight REAL)")
    lines = []
    for i in range(config["products"]):
        colour, shape = int(rng.integers(len(COLOURS))), int(rng.integers(len(SHAPES)))
        photo = Image.new("RGB", (96, 96), tuple(int(v) for v in rng.integers(120, 200, 3)))
        draw = ImageDraw.Draw(photo)
        x, y = rng.integers(8, 30, 2).tolist()
        box = (x, y, x + 30 + 8 * shape, y + 60 - 8 * shape)
        (draw.ellipse if shape % 2 else draw.rectangle)(box, fill=RGB[colour])
        sku = f"SKU{i:06d}"
        photo.save(os.path.join(root, "photos", sku + ".jpg"), quality=88)
        filler = " ".join(f"w{rng.integers(300)}" for _ in range(rng.integers(2, 6)))
        lines.append(json.dumps({"sku": sku, "title": f"{COLOURS[colour]} {shape_name(shape)} {filler}"}))
        store.execute("INSERT OR REPLACE INTO item VALUES (?,?,?,?)",
                      (sku, float(5 + 10 * shape + rng.random()), int(rng.integers(90)), float(rng.random() * 3)))
    store.commit()
    store.close()
    with open(os.path.join(root, "products.jsonl"), "w") as handle:
        handle.write("\n".join(lines))


def shape_name(index):
    return SHAPES[index]


class Catalogue:
    """Client of the catalogue service (played by a local database plus the round trip over the network)."""

    def __init__(self, path, round_trip):
        self.path = path
        self.round_trip = round_trip
        self.requests = mp.Value("q", 0)
        self.connection = None

    def fetch(self, sku):
        if self.connection is None:
            self.connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        time.sleep(self.round_trip)
        return self.connection.execute("SELECT price, stock, weight FROM item WHERE sku = ?", (sku,)).fetchone()

    def attributes(self, sku):
        with self.requests.get_lock():
            self.requests.value += 1
            price, stock, weight = self.fetch(sku)
        return np.array([price / 50, stock / 100, weight / 3], np.float32)


class Products(Dataset):
    def __init__(self, root, config, catalogue):
        self.root = root
        self.config = config
        self.catalogue = catalogue
        self.vocabulary = {}
        with open(os.path.join(root, "products.jsonl")) as handle:
            records = [json.loads(line) for line in handle]
        self.skus = [r["sku"] for r in records]
        self.titles = [self.encode(r["title"]) for r in records]

    def encode(self, title):
        ids = np.zeros(self.config["title_words"], np.int64)
        for k, word in enumerate(title.split()[: self.config["title_words"]]):
            ids[k] = self.vocabulary.setdefault(word, len(self.vocabulary) + 1)
        return ids

    def photo(self, sku):
        with open(os.path.join(self.root, "photos", sku + ".jpg"), "rb") as handle:
            image = Image.open(io.BytesIO(handle.read())).convert("RGB")
        side = self.config["image_side"]
        image = image.resize((side, side), Image.BILINEAR)
        return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)

    def __len__(self):
        return len(self.skus)

    def __getitem__(self, index):
        sku = self.skus[index]
        return self.photo(sku), self.titles[index], self.catalogue.attributes(sku)


class TwoTowers(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["embedding"]
        layers, channels = [], 3
        for out in (16, 32, width):
            layers += [nn.Conv2d(channels, out, 3, stride=2, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
            channels = out
        self.image = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, width))
        self.words = nn.EmbeddingBag(config["vocabulary"], width, padding_idx=0, mode="mean")
        self.numbers = nn.Linear(3, width)
        self.text = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, photo, title, numbers):
        left = self.image(photo.float() / 127.5 - 1)
        right = self.text(F.relu(self.words(title) + self.numbers(numbers)))
        return self.scale.exp() * F.normalize(left, dim=1) @ F.normalize(right, dim=1).T


def contrastive(scores):
    target = torch.arange(scores.shape[0])
    return (F.cross_entropy(scores, target) + F.cross_entropy(scores.T, target)) / 2


def train_one_epoch(model, loader, optimizer):
    model.train()
    losses = []
    for photo, title, numbers in loader:
        loss = contrastive(model(photo, title, numbers))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


def main(root, config):
    make_data(root, config)
    torch.manual_seed(0)
    catalogue = Catalogue(os.path.abspath(os.path.join(root, "catalogue.db")), config["round_trip"])
    products = Products(root, config, catalogue)
    loader = DataLoader(products, batch_size=config["batch_size"], shuffle=True, drop_last=True,
                        num_workers=config["workers"], persistent_workers=True)
    model = TwoTowers(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    for epoch in range(config["epochs"]):
        loss = train_one_epoch(model, loader, optimizer)
        print(f"epoch {epoch + 1}: loss {loss:.4f}, {catalogue.requests.value} requests so far")
    torch.save(model.state_dict(), os.path.join(root, "towers.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/shelfmatch")
    parser.add_argument("--epochs", type=int, default=CONFIG["epochs"])
    parser.add_argument("--workers", type=int, default=CONFIG["workers"])
    given = parser.parse_args()
    main(given.data, {**CONFIG, "epochs": given.epochs, "workers": given.workers})
