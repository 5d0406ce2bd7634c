"""kornia: an AugmentationSequential that the dataset calls for each image.

https://kornia.readthedocs.io/en/latest/augmentation.container.html
"""

import sys
from pathlib import Path

import kornia.augmentation as K
import torch
from loops import small, train
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_image


class Images(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.rglob("*.jpg"))
        self.augment = K.AugmentationSequential(
            K.RandomResizedCrop((96, 96)), K.RandomAffine(10.0, p=1.0), K.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0),
            data_keys=["input"],
        )  # fmt: skip

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = decode_image(str(self.files[index]), ImageReadMode.RGB).float() / 255
        return self.augment(image)[0], "abcd".index(self.files[index].parent.name)


if __name__ == "__main__":
    torch.manual_seed(7)
    loader = DataLoader(Images(Path(sys.argv[1]) / "images" / "train"), batch_size=8, shuffle=True, num_workers=2)
    train(loader, small(3), 2)
