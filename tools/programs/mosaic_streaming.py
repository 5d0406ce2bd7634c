"""mosaicml-streaming: images in MDS shards, as in https://docs.mosaicml.com/projects/streaming/."""

import sys
from pathlib import Path

import torch
from loops import small, train
from PIL import Image
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader
from torchvision import transforms

ROOT = Path(sys.argv[1])
STEPS = transforms.Compose([transforms.RandomResizedCrop(96), transforms.ToTensor()])


class Images(StreamingDataset):
    def __init__(self, local, batch_size):
        super().__init__(local=local, shuffle=True, batch_size=batch_size)

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return STEPS(found["image"]), found["class"]


if __name__ == "__main__":
    shards = ROOT / "mds"
    if not shards.exists():
        with MDSWriter(out=str(shards), columns={"image": "jpeg", "class": "int"}, size_limit="512kb") as out:
            for path in sorted((ROOT / "images" / "train").rglob("*.jpg")):
                out.write({"image": Image.open(path), "class": "abcd".index(path.parent.name)})
    torch.manual_seed(7)
    loader = DataLoader(Images(str(shards), 8), batch_size=8, num_workers=2)
    train(loader, small(3), 2)
