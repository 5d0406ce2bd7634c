"""Somebody's loader, small: made-up images, a Compose of two steps, batches of 16."""

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

PASSES = 1  # the slower commit of the tests makes it more


class Made(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 64

    def __getitem__(self, index):
        image = torch.full((3, 96, 96), index, dtype=torch.uint8)
        return (self.transform(image) if self.transform else image), index


class Scale:
    """A hundredth of the time of a usual transform, done PASSES times."""

    def __call__(self, image):
        for _ in range(PASSES):
            for _ in range(20):
                scaled = image.float() / 255
        return scaled


def make_transform():
    return v2.Compose([v2.RandomHorizontalFlip(), Scale()])


def make_loader():
    return DataLoader(Made(make_transform()), batch_size=16)
