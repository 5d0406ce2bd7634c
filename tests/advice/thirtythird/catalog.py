#!/usr/bin/env python
"""Category prediction for marketplace listings: photo + title + seller attributes."""
import argparse
import fcntl
import logging
import os
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
log = logging.getLogger("listing-trainer")


@dataclass
class JobConfig:
    data: str
    passes: int = 3
    batch_size: int = 32
    loader_workers: int = 4
    lr: float = 1e-3
    photo_channels: int = 32
    vocab: int = 3000
    title_len: int = 14
    attr_dim: int = 24
    categories: int = 16
    listings: int = 2000
    rpc_seconds: float = 0.006


def bootstrap(cfg):
    if os.path.exists(os.path.join(cfg.data, "category.npy")):
        return
    os.makedirs(cfg.data, exist_ok=True)
    rng = np.random.default_rng(101)
    category = rng.integers(0, cfg.categories, cfg.listings)
    palette = rng.uniform(40, 215, (cfg.categories, 3, 6, 6))
    coarse = palette[category] + rng.normal(0, 45, (cfg.listings, 3, 6, 6))
    photos = np.kron(coarse, np.ones((1, 1, 10, 10))) + rng.normal(0, 12, (cfg.listings, 3, 60, 60))
    np.save(os.path.join(cfg.data, "photos.npy"), photos.clip(0, 255).astype(np.uint8))
    titles = rng.integers(1, cfg.vocab, (cfg.listings, cfg.title_len))
    hint = rng.random(titles.shape) < 0.15
    titles[hint] = (category[:, None] * 7 + rng.integers(1, 8, titles.shape))[hint]
    np.save(os.path.join(cfg.data, "titles.npy"), titles)
    means = rng.normal(0, 0.6, (cfg.categories, cfg.attr_dim))
    attrs = means[category] + rng.normal(0, 1, (cfg.listings, cfg.attr_dim))
    np.save(os.path.join(cfg.data, "attributes.npy"), attrs.astype(np.float32))
    np.save(os.path.join(cfg.data, "category.npy"), category)


class AttributeService:
    """Client of the seller-attribute service. The audit file records which listings were looked up."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.audit_path = os.path.join(cfg.data, "lookups.audit")
        open(self.audit_path, "w").close()
        self._table = np.load(os.path.join(cfg.data, "attributes.npy"), mmap_mode="r")

    def _call(self, listing_id):
        time.sleep(self.cfg.rpc_seconds)  # network round trip of the real endpoint
        return np.array(self._table[listing_id])

    def lookup(self, listing_id):
        with open(self.audit_path, "a") as audit:
            fcntl.flock(audit, fcntl.LOCK_EX)
            values = self._call(listing_id)
            audit.write(f"{listing_id}\n")
            audit.flush()
        return values


class ListingDataset(Dataset):
    def __init__(self, cfg, ids, service):
        self.ids = ids
        self.service = service
        self.photos = np.load(os.path.join(cfg.data, "photos.npy"), mmap_mode="r")
        self.titles = np.load(os.path.join(cfg.data, "titles.npy"))
        self.category = np.load(os.path.join(cfg.data, "category.npy"))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        listing = int(self.ids[i])
        photo = np.array(self.photos[listing], dtype=np.float32) / 127.5 - 1.0
        if listing % 2:
            photo = photo[:, :, ::-1].copy()
        return {"photo": torch.from_numpy(photo),
                "title": torch.from_numpy(self.titles[listing]),
                "attrs": torch.from_numpy(self.service.lookup(listing)),
                "category": int(self.category[listing])}


class ListingModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg.photo_channels
        self.photo = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                   nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(),
                                   nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                   nn.Conv2d(2 * c, 4 * c, 3, padding=1), nn.ReLU(),
                                   nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.words = nn.EmbeddingBag(cfg.vocab, 64, mode="mean")
        self.attrs = nn.Sequential(nn.Linear(cfg.attr_dim, 64), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(4 * c + 128, 128), nn.ReLU(), nn.Dropout(0.1),
                                  nn.Linear(128, cfg.categories))

    def forward(self, batch):
        parts = [self.photo(batch["photo"]), self.words(batch["title"]), self.attrs(batch["attrs"])]
        return self.head(torch.cat(parts, dim=1))


class ListingTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(17)
        self.model = ListingModel(cfg)
        self.optim = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.loss_fn = nn.CrossEntropyLoss()
        ids = np.random.default_rng(4).permutation(cfg.listings)
        self.train_data = ListingDataset(cfg, ids, AttributeService(cfg))

    def _loader(self, n_pass):
        gen = torch.Generator().manual_seed(1000 + n_pass)
        return DataLoader(self.train_data, batch_size=self.cfg.batch_size,
                          sampler=RandomSampler(self.train_data, generator=gen),
                          num_workers=self.cfg.loader_workers, prefetch_factor=4, drop_last=True)

    def _step(self, batch):
        logits = self.model(batch)
        loss = self.loss_fn(logits, batch["category"])
        self.optim.zero_grad(set_to_none=True)
        loss.backward()
        self.optim.step()
        return loss.item(), (logits.argmax(1) == batch["category"]).float().mean().item()

    def fit(self):
        for n_pass in range(self.cfg.passes):
            stats = np.array([self._step(batch) for batch in self._loader(n_pass)])
            log.info("pass %d: loss %.4f accuracy %.3f", n_pass, *stats.mean(axis=0))
        torch.save(self.model.state_dict(), os.path.join(self.cfg.data, "listing-model.pt"))


if __name__ == "__main__":
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--data", default="data/catalog")
    cli.add_argument("--passes", type=int, default=JobConfig.passes)
    args = cli.parse_args()
    config = JobConfig(data=args.data, passes=args.passes)
    bootstrap(config)
    ListingTrainer(config).fit()
