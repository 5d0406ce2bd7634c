"""Trains on batches that name their samples, and notes each; keeps its weights at its end and on its way out."""

import argparse
import atexit
import os
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Samples(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        return {"index": index, "pixels": torch.full((16,), float(index))}


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        for index in range(info.id if info else 0, 60, info.num_workers if info else 1):
            yield {"index": index, "pixels": torch.full((16,), float(index))}


def train(args):
    model = torch.nn.Linear(16, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9)
    data = Stream() if args.stream else Samples()
    shuffle = None if args.stream else True
    loader = DataLoader(
        data, 4, shuffle=shuffle, num_workers=args.workers, persistent_workers=args.persistent and args.workers > 0
    )
    for epoch in range(args.epochs):
        for batch in loader:
            pixels = batch.pop("pixels")
            assert pixels[:, 0].tolist() == [float(one) for one in batch["index"]]
            os.write(args.notes, (" ".join(str(int(one)) for one in batch["index"]) + "\n").encode())
            if args.change:
                pixels.sub_(7.5)
            if not args.no_train:
                model(pixels).sum().backward()
                optimiser.step()
        os.write(args.notes, b"end of a pass\n")


parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--epochs", type=int, default=40)
for name in ("--stream", "--persistent", "--change", "--no-train"):
    parser.add_argument(name, action="store_true")

if __name__ == "__main__":
    args = parser.parse_args()
    args.notes = os.open(args.folder / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    atexit.register((args.folder / "on-the-way-out").touch)
    try:
        train(args)
    finally:
        (args.folder / "checkpoint").touch()
