"""litdata: images in optimised chunks, streamed; as in https://github.com/Lightning-AI/litData#readme."""

import sys
from pathlib import Path

import litdata
import torch
from loops import small, train
from PIL import Image
from torchvision.transforms import v2

ROOT = Path(sys.argv[1])


def encoded(path):
    return {"image": Image.open(path), "class": "abcd".index(path.parent.name)}


class Images(litdata.StreamingDataset):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.transform = v2.Compose(
            [v2.RandomResizedCrop(96), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])]
        )

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return self.transform(found["image"]), found["class"]


if __name__ == "__main__":
    chunks = ROOT / "litdata"
    if not chunks.exists():
        files = sorted((ROOT / "images" / "train").rglob("*.jpg"))
        litdata.optimize(encoded, files, str(chunks), num_workers=1, chunk_bytes="1MB")
    torch.manual_seed(7)
    loader = litdata.StreamingDataLoader(Images(str(chunks), shuffle=True, drop_last=True), batch_size=8, num_workers=2)
    train(loader, small(3), 2)
